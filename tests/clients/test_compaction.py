"""Clients that nobody here wrote read compacted topics: from anywhere, and while they are being compacted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_classic.log.checkpoint import read_checkpoint
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients.conftest import create, fresh_name, installed
from tests.clients.parties import CODECS, Got, Party, Sent, read

COMPACT = {"cleanup.policy": "compact", "segment.bytes": "6000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def compacting(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker that looks for something to compact all the time, and forgets tombstones at once."""
    settings = {"log.cleaner.backoff.ms": "20", "log.flush.offset.checkpoint.interval.ms": "100"}
    with LocalCluster(
        tmp_path_factory.mktemp("compacting"), zookeeper=f"{cluster.zookeeper}/compacting", settings=settings
    ) as one:
        yield one


def sent(first: int, count: int) -> list[Sent]:
    """Values of thirty keys, every tenth a tombstone."""
    numbers = range(first, first + count)
    return [
        Sent(None if n % 10 == 9 else b"value %d " % n + b"." * (n % 50), b"key %d" % (n % 31), timestamp=10**12 + n)
        for n in numbers
    ]


def cleaned_to(cluster: LocalCluster, topic: str) -> int:
    path: Path = cluster.brokers[0].data_dir / "cleaner-offset-checkpoint"
    return read_checkpoint(path).get((topic, 0), 0)


def check(found: list[Got], everything: list[Sent], start: int) -> None:
    """What was read is in order, each record as it was sent, and the last of each key is among them."""
    offsets = [message.offset for message in found]
    assert offsets == sorted(set(offsets))
    assert all(offset >= start for offset in offsets)
    for message in found:
        was = everything[message.offset]
        assert (message.key, message.value or b"", message.timestamp) == (was.key, was.value or b"", was.timestamp)
    last = {message.key: n for n, message in enumerate(everything)}
    for key, offset in last.items():
        if offset >= start and everything[offset].value is not None:
            assert offset in offsets, key


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_compacted_topic_is_read_from_anywhere_by_all(
    compacting: LocalCluster, request: pytest.FixtureRequest, codec: str
) -> None:
    topic = fresh_name(request)
    create(compacting.bootstrap, topic, 1, COMPACT)
    everything: list[Sent] = []
    for number, party in enumerate(installed()):
        some = sent(250 * number, 250)
        party.produce(compacting.bootstrap, topic, some, codec=codec if codec in CODECS else "none")
        everything += some
    until(lambda: cleaned_to(compacting, topic) > len(everything) - 300, "the compaction")
    starts = [0, 1, 77, 300, len(everything) - 260, len(everything) - 2]
    for party in installed():
        for start, found in zip(starts, party.read_from(compacting.bootstrap, topic, starts), strict=True):
            check(found, everything, start)
            assert len(found) < 500
        assert party.offsets_at(compacting.bootstrap, topic, [10**12 + len(everything)]) == [None]
        [first] = party.offsets_at(compacting.bootstrap, topic, [10**12 + 5])
        assert first == read(party, compacting.bootstrap, topic)[0].offset


def test_all_read_rightly_while_it_is_written_and_compacted(
    party: Party, compacting: LocalCluster, request: pytest.FixtureRequest
) -> None:
    topic = fresh_name(request)
    create(compacting.bootstrap, topic, 1, COMPACT)
    everything = sent(0, 4000)
    writer = installed()[0]
    writer.produce(compacting.bootstrap, topic, everything[:500])
    done = threading.Event()

    def write() -> None:
        try:
            for at in range(500, len(everything), 250):
                writer.produce(compacting.bootstrap, topic, everything[at : at + 250], codec=CODECS[at // 250 % 5])
        finally:
            done.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        rounds = 0
        while not done.is_set() or not rounds:
            for start in (0, 200 * rounds % 3000):
                if start < 500:
                    found = read(party, compacting.bootstrap, topic, start)
                    offsets = [message.offset for message in found]
                    assert offsets == sorted(set(offsets))
                    assert all(m.key == everything[m.offset].key for m in found)
            rounds += 1
    finally:
        thread.join()
    check(read(party, compacting.bootstrap, topic), everything, 0)
    until(lambda: cleaned_to(compacting, topic) > 3000, "the compaction")
    check(read(party, compacting.bootstrap, topic), everything, 0)
