"""Measure the consumer (P29): messages of 200 bytes out of a stream, beside other clients that read the same topic.

python -P bench/consumer.py [--quick] [--json] [--messages N] [--repeats N]

One partition, batches of 1,000 messages, as the paper pulled them. The readers take turns, so that what spoils one on a
shared machine spoils the others; the medians are shown, and ratios within a run say more than the figures themselves.
The processor time is that of the reading process with all its threads, of the broker nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from bench.load import own, results
from kafka_classic.client import admin, simple
from kafka_classic.client.cluster import Cluster
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import NewRecord
from kafka_classic.testing.cluster import LocalCluster

SIZE = 200
IN_A_BATCH = 1000


def by_a_stream(bootstrap: str, topic: str, count: int) -> None:
    """Ours, as an application has it: a stream that the hands fill."""
    with own.stream_of(bootstrap, topic) as stream:
        own.take(stream, count)


def by_kafka_python(bootstrap: str, topic: str, count: int) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        at = KafkaPythonPartition(topic, 0)
        consumer.assign([at])
        consumer.seek(at, 0)
        for message in consumer:
            count -= message.value is not None
            if not count:
                break
    finally:
        consumer.close()


def by_confluent_kafka(bootstrap: str, topic: str, count: int) -> None:
    """librdkafka, in C: for orientation. A call brings up to 1,000 messages."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while count > 0:
            for message in consumer.consume(min(count, 1000), timeout=60.0):
                count -= message.value() is not None
    finally:
        consumer.close()


READERS: dict[str, Callable[[str, str, int], None]] = {
    "kafka-classic": by_a_stream,
    "kafka-python": by_kafka_python,
    "confluent-kafka": by_confluent_kafka,
}


class Case(NamedTuple):
    title: str
    codec: Codec
    alike: bool


CASES = {
    "alike": Case("200 B each", Codec.NONE, True),
    "sizes": Case("100 to 300 B", Codec.NONE, False),
    "lz4": Case("100 to 300 B, lz4", Codec.LZ4, False),
}


def batch_of(case: Case, rng: random.Random) -> list[NewRecord]:
    now = int(time.time() * 1000)
    sizes = [SIZE if case.alike else rng.randint(SIZE // 2, SIZE * 3 // 2) for _ in range(IN_A_BATCH)]
    letters = b'{"user": 4711, "page": "/jobs/view", "server": "app-17"}'
    return [(None, bytes(rng.choices(letters, k=size)), (), now + i * 30 // IN_A_BATCH) for i, size in enumerate(sizes)]


def fill(cluster: Cluster, topic: str, case: Case, count: int) -> None:
    admin.create_topics(cluster, [admin.NewTopic(topic, 1, 1)])
    batch = batch_of(case, random.Random(1))
    for _ in range(count // IN_A_BATCH):
        simple.produce(cluster, topic, 0, batch, codec=case.codec, batch_bytes=1 << 20)


def measure(bootstrap: str, topic: str, count: int, repeats: int) -> list[results.Line]:
    """Messages a second by the clock, and microseconds of the processor, of each reader."""
    wall: dict[str, list[float]] = {name: [] for name in READERS}
    cpu: dict[str, list[float]] = {name: [] for name in READERS}
    for _ in range(repeats):
        for name, read in READERS.items():
            began, used = time.perf_counter(), time.process_time()
            read(bootstrap, topic, count)
            wall[name].append(count / (time.perf_counter() - began))
            cpu[name].append((time.process_time() - used) / count * 1e6)
    case: results.Case = {"case": topic, "messages": count}
    return [results.Line("consumer", name, case, "msg/s", wall[name], client_cpu_us=cpu[name]) for name in READERS]


def row(name: str, lines: list[results.Line]) -> dict[str, Any]:
    figures = {
        line.subject: {"messages_s": line.median, "messages_cpu_s": 1e6 / statistics.median(line.client_cpu_us)}
        for line in lines
    }
    ours = figures["kafka-classic"]
    return {
        "case": name,
        **{reader.replace("-", "_"): dict(values) for reader, values in figures.items()},
        "cpu_us_a_message": 1e6 / ours["messages_cpu_s"],
        "times_kafka_python": ours["messages_cpu_s"] / figures["kafka-python"]["messages_cpu_s"],
        "times_confluent_kafka": ours["messages_cpu_s"] / figures["confluent-kafka"]["messages_cpu_s"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer messages: half a minute in all")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case; may be given several times")
    parser.add_argument("--messages", type=int, help="messages of each case")
    parser.add_argument("--repeats", type=int, help="runs of each reader; the median is shown")
    results.add_option(parser)
    asked = parser.parse_args()
    count = (asked.messages or (200_000 if asked.quick else 2_000_000)) // IN_A_BATCH * IN_A_BATCH
    repeats = asked.repeats or (3 if asked.quick else 5)
    rows = []
    lines: list[results.Line] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-consumer-") as folder,
        LocalCluster(Path(folder)) as local,
        Cluster(local.bootstrap) as cluster,
    ):
        for name, case in CASES.items():
            if asked.only and name not in asked.only:
                continue
            fill(cluster, name, case, count)
            found = measure(local.bootstrap, name, count, repeats)
            lines += found
            rows.append(row(name, found))
            admin.delete_topics(cluster, [name])
    results.keep_run(lines, asked)
    if asked.json:
        print("\n".join(json.dumps(one) for one in rows))
        return 0
    print(f"thousand messages of {SIZE} bytes a second of processor time (by the clock), {count:,} of them")
    print(f"{'':20}" + "".join(f"{name:>18}" for name in READERS) + f"{'µs each':>10}  against the others")
    for one in rows:
        cells = ""
        for name in READERS:
            figures = one[name.replace("-", "_")]
            cells += f"{figures['messages_cpu_s'] / 1e3:10.0f} ({figures['messages_s'] / 1e3:4.0f}) "
        print(
            f"{CASES[one['case']].title:20}{cells}{one['cpu_us_a_message']:9.2f}  "
            f"{one['times_kafka_python']:.1f} x kafka-python, {one['times_confluent_kafka']:.2f} x confluent-kafka"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
