"""Measure the audit: its time and memory over a log, and how both grow with messages, windows and topics.

    python -P bench/audit.py [--quick] [--json] [--messages 100000000] [--master local[*]]

The log is made of batches that are encoded once (1,000 messages of 10 bytes each), given their producer's numbers and
times, and sent as an audited producer sends them, with the events that it would publish. What is measured is the whole
of an audit: events, the scan of the log, the join, the verdicts; the second one of a session, since the first one also
starts Spark's Python workers. Memory is what the driver, the JVM and the workers hold together, at its highest.

The other column of figures is the producer's: what `audit=True` costs it a message.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load import results
from bench.load.machine import describe
from bench.load.target import broker
from kafka_classic import Producer
from kafka_classic.audit.findings import Verdict
from kafka_classic.audit.pipeline import Question, audit
from kafka_classic.audit.session import spark_session
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fingerprint import Fingerprint
from kafka_classic.client.monitor import Monitor
from kafka_classic.client.monitoring import PRODUCER, Event, Share
from kafka_classic.client.produce_packed import VERSION, pack_produce, read_produced
from kafka_classic.client.producer_id import init_producer_id
from kafka_classic.client.spans import Run, add_run
from kafka_classic.client.topics import NewTopic, create_topics, delete_topics
from kafka_classic.records.batch import read_header, seal
from kafka_classic.records.encode import encode_batch
from kafka_classic.wire.apis import Api

BATCH = 1000
MINUTE = 60_000
BEGIN = 1_700_000_040_000 - 1_700_000_040_000 % MINUTE
PARTITIONS = 4
_REQUEST = 50  # batches


class Case(NamedTuple):
    """So many messages in so many topics and windows."""

    messages: int
    topics: int
    windows: int


class Measured(NamedTuple):
    """One case."""

    case: Case
    seconds: float
    rate: float
    peak_mb: float
    cells: int
    log_mb: float


def fill(bootstrap: str, topic: str, messages: int, windows: int) -> float:
    """Messages of one audited producer over the topic's partitions and all windows; returns megabytes sent."""
    values = [(None, b"0123456789", (), BEGIN)] * BATCH
    template = encode_batch(values)
    per_cell = max(1, messages // BATCH // windows // PARTITIONS)
    sent = 0
    with Cluster(bootstrap) as cluster:
        producer = init_producer_id(cluster)
        source = f"bench-{producer.id}"
        monitor = Monitor(cluster)
        leaders = [cluster.connection(cluster.leader(topic, index)) for index in range(PARTITIONS)]
        events = []
        sequences = [0] * PARTITIONS
        for window in range(windows):
            begin = BEGIN + window * MINUTE
            event = Event(
                PRODUCER, source, topic, begin, MINUTE, "closed", 2, [producer.id], server="bench", client="b"
            )
            for index in range(PARTITIONS):
                share = Share(index, producer.id)
                tally, prints = share.tally, Fingerprint()
                tally.content = None
                for first in range(0, per_cell, _REQUEST):
                    batches = []
                    for _ in range(min(_REQUEST, per_cell - first)):
                        batch = bytearray(template)
                        number = sequences[index]
                        times = {"base_timestamp": begin, "max_timestamp": begin}
                        seal(batch, producer_id=producer.id, producer_epoch=0, base_sequence=number, **times)
                        crc = read_header(batch).crc
                        prints = prints.plus(Fingerprint(crc, crc, crc * (number + 1)))
                        run = Run(0, number, number + BATCH, number, number + BATCH - 1)
                        add_run(tally.runs, run)
                        sequences[index] += BATCH
                        batches.append(bytes(batch))
                    sent += sum(map(len, batches))
                    for one in batches:
                        body = pack_produce({(topic, index): one}, -1, 30_000)
                        pending = leaders[index].send_packed(Api.PRODUCE, VERSION, body, read_produced)
                    answer = pending.result()[topic, index]
                    assert not answer.error, answer
                tally.count = per_cell * BATCH
                tally.bytes = tally.count * 10
                tally.batches = prints
                event.shares.append(share)
            events.append(event)
        for start in range(0, len(events), 100):
            assert monitor.publish(events[start : start + 100])
    return sent / 1e6


def memory_mb() -> float:
    """What this process and all that it started hold: proportional, so that shared pages count once."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        children.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(stat.parent.name))
    total, left = 0, [int(Path("/proc/self").resolve().name)]
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


@contextmanager
def watched() -> Iterator[list[float]]:
    """Memory at its highest while the block runs."""
    peak = [memory_mb()]
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            peak[0] = max(peak[0], memory_mb())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def measure(bootstrap: str, case: Case, master: str) -> Measured:
    """Fill topics, audit twice, measure the second time, and delete the topics."""
    names = [f"audited-{case.messages}-{case.topics}-{case.windows}-{number}" for number in range(case.topics)]
    with Cluster(bootstrap) as cluster:
        configs = {"retention.ms": "-1", "segment.bytes": str(1 << 30)}
        create_topics(cluster, [NewTopic(name, PARTITIONS, 1, configs) for name in names])
        size = sum(fill(bootstrap, name, case.messages // case.topics, case.windows) for name in names)
        spark = spark_session("bench", master)
        question = Question(bootstrap, tuple(names), settle_ms=0)
        audit(spark, question)  # starts the workers
        with watched() as peak:
            found = audit(spark, question)
        assert found.verdict is Verdict.COMPLETE, found.verdict
        counted = sum(cell.tiers["log"].count for cell in found.cells)
        delete_topics(cluster, names)
    return Measured(case, found.seconds, counted / found.seconds, peak[0], len(found.cells), size)


def producing(bootstrap: str, count: int) -> dict[str, float]:
    """CPU microseconds a message of the producer, with and without audit, medians of rounds that take turns."""
    found: dict[bool, list[float]] = {False: [], True: []}
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic("produced", 1, 1)])
    value = b"x" * 200
    for _ in range(5):
        for audited in (False, True):
            with Producer(bootstrap, audit=audited) as producer:
                producer.send("produced", value)
                producer.flush()
                before = time.process_time()
                for _ in range(count):
                    producer.send("produced", value)
                producer.flush()
                found[audited].append((time.process_time() - before) / count * 1e6)
    return {"plain_us": statistics.median(found[False]), "audited_us": statistics.median(found[True])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute or two in all")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--messages", type=int, default=100_000_000, help="of the largest case, in the long form")
    parser.add_argument("--master", default="local[*]", help="Spark's master")
    parser.add_argument("--dir", type=Path, help="put the broker's data under this folder")
    results.add_option(parser)
    options = parser.parse_args()
    if options.quick:
        cases = [Case(1_000_000, 1, 10), Case(4_000_000, 1, 10), Case(4_000_000, 1, 100), Case(4_000_000, 4, 10)]
    else:
        most = options.messages
        cases = [
            Case(most // 100, 1, 60),
            Case(most // 10, 1, 60),
            Case(most // 10, 1, 600),
            Case(most // 10, 10, 60),
            Case(most, 1, 60),
        ]
    table = Table("messages", "topics", "windows", "log MB", "seconds", "messages/s", "peak MB", "cells")
    rows = []
    with broker(options.quick, options.dir, 0) as target:
        cost = producing(target.bootstrap, 20_000 if options.quick else 100_000)
        for case in cases:
            one = measure(target.bootstrap, case, options.master)
            rows.append(one)
            table.add_row(
                *(f"{number:,}" for number in case),
                f"{one.log_mb:,.0f}",
                f"{one.seconds:.1f}",
                f"{one.rate:,.0f}",
                f"{one.peak_mb:,.0f}",
                f"{one.cells:,}",
            )
    lines = [results.row("audit", f"producer, {name[:-3]}", us, "µs of CPU") for name, us in cost.items()]
    lines += [results.Line("audit", "kafka-classic", {**one.case._asdict()}, "messages/s", [one.rate]) for one in rows]
    results.keep_run(lines, options)
    if options.json:
        print(json.dumps({**cost, "machine": describe()}))
        for one in rows:
            print(json.dumps({**one._asdict(), "case": one.case._asdict(), "machine": describe()}))
        return 0
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print(f"a message costs the producer {cost['plain_us']:.2f} µs of CPU, with audit=True {cost['audited_us']:.2f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
