"""Compaction by real brokers: under load, through kill -9, failovers and deletions, nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kio.schema.errors import ErrorCode as Error

from kafka_classic.log.checkpoint import read_checkpoint
from kafka_classic.records.batch import CorruptBatch
from kafka_classic.records.decode import decode_records
from kafka_classic.testing.broker import BrokerProcess
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.calls import delete_records, delete_topics, list_offsets, set_configs
from tests.broker.conftest import make_topic, mended
from tests.broker.raw import Raw

SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.dedupe.buffer.size": "20000",  # a hundred keys a pass
    "log.flush.offset.checkpoint.interval.ms": "200",
    "zookeeper.session.timeout.ms": "2000",
    "auto.leader.rebalance.enable": "false",
}
COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": "8000",
    "min.cleanable.dirty.ratio": "0.05",
    "index.interval.bytes": "300",
}
CODECS = ("none", "lz4", "zstd", "snappy")
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def cluster_that_compacts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("compacting"), 3, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(cluster_that_compacts: LocalCluster) -> LocalCluster:
    return mended(cluster_that_compacts)


class Writer:
    """Writes values of few keys, over and over; knows the last that was acknowledged and the last that was sent."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.acknowledged: dict[bytes, int] = {}
        self.sent: dict[bytes, int] = {}
        self.number = 0

    def write(self, count: int, keys: int = 150, wait_s: float = DEADLINE_S) -> int:
        """Send so many records and wait for their answers; returns how many are still unanswered."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 20,
                "compression.type": CODECS[self.number // 1000 % len(CODECS)],
                "message.timeout.ms": 100_000,
                "socket.timeout.ms": 5000,
            }
        )
        for _ in range(count):
            self.number += 1
            key, number = b"key %d" % (self.number * 7 % keys), self.number
            self.sent[key] = number

            def told(error: KafkaError | None, _: object, key: bytes = key, number: int = number) -> None:
                if error is None:
                    self.acknowledged[key] = max(number, self.acknowledged.get(key, 0))

            producer.produce(self._topic, b"%d" % number, key, 0, on_delivery=told)
            producer.poll(0)
        return producer.flush(wait_s)


def read(bootstrap: str, topic: str, start: int = 0) -> list[tuple[int, bytes, int]]:
    """Everything from an offset on, as (offset, key, number)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[tuple[int, bytes, int]] = []
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append((message.offset() or 0, message.key() or b"", int(message.value() or b"")))
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
        elif not error.retriable():
            break
    consumer.close()
    raise AssertionError(f"the end of {topic} was not reached: {found[-1:]}")


def check(writer: Writer, found: list[tuple[int, bytes, int]]) -> None:
    """Every key's last value is one that was written last, or later than what was acknowledged."""
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert [number for _, _, number in found] == sorted(number for _, _, number in found)
    last = {key: number for _, key, number in found}
    for key, number in writer.acknowledged.items():
        assert number <= last[key] <= writer.sent[key]


def cleaned_to(broker: BrokerProcess, topic: str) -> int:
    return read_checkpoint(broker.data_dir / "cleaner-offset-checkpoint").get((topic, 0), 0)


def log_size(broker: BrokerProcess, topic: str) -> int:
    return sum(path.stat().st_size for path in folder(broker, topic).glob("*.log"))


def folder(broker: BrokerProcess, topic: str) -> Path:
    return broker.data_dir / f"{topic}-0"


def test_kill_9_while_it_compacts_loses_nothing(cluster: LocalCluster) -> None:
    survive(cluster, kills=2)


@pytest.mark.soak
def test_kill_9_again_and_again_while_it_compacts_loses_nothing(cluster: LocalCluster) -> None:
    survive(cluster, kills=60)


def survive(cluster: LocalCluster, kills: int) -> None:
    broker = cluster.brokers[0]
    topic = make_topic(broker.address, assignment=[(0, [0])], configs=COMPACT)
    writer = Writer(broker.address, topic)
    for kill in range(kills):
        writer.write(3000)
        writer.write(500 + 37 * kill, wait_s=0.05 * (kill % 4))  # some of it is under way
        broker.kill()
        broker.start()
        cluster.wait_ready()
        check(writer, read(broker.address, topic))
    writer.write(1000)
    until(lambda: log_size(broker, topic) < 60_000, timeout=DEADLINE_S)
    found = read(broker.address, topic)
    check(writer, found)
    assert len(found) < writer.number / 3
    assert not list(folder(broker, topic).glob("*.swap"))


def test_replicas_compact_each_for_itself_and_any_of_them_can_lead(cluster: LocalCluster) -> None:
    address = cluster.brokers[0].address
    configs = {**COMPACT, "min.insync.replicas": "2"}
    topic = make_topic(address, assignment=[(0, [0, 1, 2])], configs=configs)
    writer = Writer(cluster.bootstrap, topic)
    writer.write(3000)
    until(lambda: all(cleaned_to(b, topic) > 1000 for b in cluster.brokers), timeout=DEADLINE_S)
    first, _, last = cluster.brokers
    first.kill()
    writer.write(2000)
    check(writer, read(cluster.bootstrap, topic))
    # One that has lost everything takes the compacted log as it is.
    last.kill()
    first.start()
    shutil.rmtree(folder(last, topic))
    last.start()
    cluster.wait_ready()
    writer.write(1000)
    found = read(cluster.bootstrap, topic)
    check(writer, found)
    assert {key: number for _, key, number in found} == writer.acknowledged
    until(lambda: all(on_disk(b, topic) == writer.acknowledged for b in cluster.brokers), timeout=DEADLINE_S)


def on_disk(broker: BrokerProcess, topic: str) -> dict[bytes | None, int]:
    """The last number of each key in a broker's own log; it may be looked at in the middle of a swap."""
    found: dict[bytes | None, int] = {}
    for path in sorted(folder(broker, topic).glob("*.log")):
        with suppress(FileNotFoundError, CorruptBatch):
            found.update((record.key, int(record.value or b"0")) for record in decode_records(path.read_bytes()))
    return found


def test_a_topic_is_deleted_and_made_anew_while_it_is_compacted(cluster: LocalCluster) -> None:
    broker = cluster.brokers[0]
    name = ""
    for _ in range(3):
        if name:
            with Raw(broker.address) as raw:
                (row,) = delete_topics(raw, name)
                assert row.error_code is Error.none
        topic = make_topic(broker.address, assignment=[(0, [0])], configs=COMPACT)
        writer = Writer(broker.address, topic)
        writer.write(3000)
        name = topic
    check(writer, read(broker.address, name))


def test_deleted_records_stay_deleted_and_times_are_found(cluster: LocalCluster) -> None:
    broker = cluster.brokers[0]
    topic = make_topic(broker.address, assignment=[(0, [0])], configs=COMPACT)
    writer = Writer(broker.address, topic)
    writer.write(3000)
    until(lambda: cleaned_to(broker, topic) > 2000, timeout=DEADLINE_S)
    with Raw(broker.address) as raw:
        assert delete_records(raw, topic, 2900).error_code is Error.none
        assert list_offsets(raw, topic, -2).offset == 2900
        assert list_offsets(raw, topic, -1).offset == 3000
        found = read(broker.address, topic, 2900)
        assert found[0][0] >= 2900
        assert found[-1][0] == 2999
        assert list_offsets(raw, topic, 1).offset in [offset for offset, _, _ in found]


def test_a_damaged_log_is_left_alone_and_still_served_and_others_are_compacted(cluster: LocalCluster) -> None:
    broker = cluster.brokers[0]
    unclean = {**COMPACT, "min.cleanable.dirty.ratio": "1.0"}  # never, for now
    topic = make_topic(broker.address, assignment=[(0, [0])], configs=unclean)
    writer = Writer(broker.address, topic)
    writer.write(2000)
    victim = sorted(folder(broker, topic).glob("*.log"))[0]
    with victim.open("r+b") as file:
        file.seek(-1, 2)
        byte = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([byte[0] ^ 1]))
    with Raw(broker.address) as raw:
        set_configs(raw, topic, min_cleanable_dirty_ratio="0.05")
    until(lambda: "compacted no more" in broker.log_path.read_text(), timeout=DEADLINE_S)
    other = make_topic(broker.address, assignment=[(0, [0])], configs=COMPACT)
    Writer(broker.address, other).write(2000)
    until(lambda: cleaned_to(broker, other) > 1000, timeout=DEADLINE_S)
    assert cleaned_to(broker, topic) == 0
    assert log_size(broker, topic) > 20_000
