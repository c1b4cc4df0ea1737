"""The experiments that need no rival (P31): throughput against what is stored, and a consumer that lags behind."""

from __future__ import annotations

import os
from collections.abc import Callable

from bench.load.results import Case, Line
from bench.peers.classic import Classic
from bench.peers.comparison import rates
from bench.peers.peer import Measured
from bench.peers.sizes import SIZE, Sizes

Say = Callable[[str], object]
GB = 10**9
AS_IT_COMES = 0  # how librdkafka batches by itself: the quickest way to fill a log
FOR_EVER = 1 << 40


def stored(classic: Classic, sizes: Sizes, say: Say) -> list[Line]:
    """Produce and consume while more and more is stored in the same log; what is read is the oldest."""
    load, found = classic.load, []
    topic = load.topic()
    for gigabytes in sizes.stored_gb:
        say(f"{gigabytes:g} GB stored: filling the log")
        lacking = int((gigabytes * GB - load.stored_bytes()) / SIZE)
        if lacking > 0:
            load.producer(topic, lacking, SIZE, AS_IT_COMES).wait()
        runs: dict[str, list[Measured]] = {"produce": [], "consume": []}
        for number in range(sizes.rounds):
            say(f"{gigabytes:g} GB stored: {sizes.stored:,} messages in and out, {number + 1} of {sizes.rounds}")
            runs["produce"].append(load.producer(topic, sizes.stored, SIZE, 50).wait())
            runs["consume"].append(load.consumer(topic, sizes.stored).wait())
        for act, measured in runs.items():
            found.append(rates("stored", classic.name, {"stored_gb": gigabytes, "act": act}, measured, ""))
    load.clear()
    return found


def lagging(classic: Classic, sizes: Sizes, say: Say) -> list[Line]:
    """A producer alone, beside a consumer at the log's end, and beside one that reads old data from the disk.

    Each consumer takes no more a second than the producer alone wrote in the round: on two cores the three share the
    processors in any case, and what the old data costs is the difference of the last two.
    """
    load = classic.load
    topic = load.topic()
    say(f"a lagging consumer: filling the log with {sizes.lag_gb:g} GB")
    end = int(sizes.lag_gb * GB / SIZE)
    load.producer(topic, end, SIZE, AS_IT_COMES).wait()
    produced: dict[str, list[Measured]] = {"none": [], "at the end": [], "lagging": []}
    read: dict[str, list[Measured]] = {"at the end": [], "lagging": []}
    for number in range(sizes.rounds):
        pace = 0.0
        for consumer, runs in produced.items():
            say(f"a lagging consumer, {number + 1} of {sizes.rounds}: producing, consumer {consumer}")
            if consumer == "none":
                runs.append(load.producer(topic, sizes.lag, SIZE, 50).wait())
                pace = runs[-1].rate
            else:
                _forget(classic, topic)
                start = 0 if consumer == "lagging" else end
                reader = load.consumer(topic, FOR_EVER, start, pace)
                try:
                    if consumer == "lagging":
                        reader.began.wait(60)
                    runs.append(load.producer(topic, sizes.lag, SIZE, 50).wait())
                finally:
                    read_meanwhile = reader.stop()
                read[consumer].append(read_meanwhile)
            end += sizes.lag
    load.clear()
    found = []
    for who, by in (("producer", produced), ("consumer", read)):
        for consumer, measured in by.items():
            case: Case = {"of": who, "consumer": consumer}
            found.append(rates("lagging", classic.name, case, measured, ""))
    return found


def _forget(classic: Classic, topic: str) -> None:
    """Let the page cache drop the log, so that old data comes from the disk."""
    for folder in classic.load.folders(topic):
        for path in folder.glob("*.log"):
            with open(path, "rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
