"""Three brokers hold each record: who is asked, what is acknowledged when, and what each of them has in the end."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import kio.schema.list_offsets.v11.request as list_offsets_request
import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.fetch import read
from kafka_classic.broker.offsets import listed
from kafka_classic.log.directory import LogDir
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import BrokerSettings
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.fetch import FetchPartition
from tests.broker.calls import (
    create_topics,
    delete_records,
    fetch_all,
    list_offsets,
    metadata,
    new_topic,
    produce_all,
    rows_of,
)
from tests.broker.conftest import make_topic
from tests.broker.raw import Raw, batch, fetch, produce, produce_frame, produced
from tests.broker.test_idempotence import Producer
from tests.broker.test_review import hosting

OFFSETS: Any = list_offsets_request

ALL = -1
LATEST = -1


def partition_of(address: str, topic: str) -> Any:
    with Raw(address) as raw:
        told = metadata(raw, topic).topics[0].partitions
    return told[0] if told else SimpleNamespace(leader_id=None, isr_nodes=())


def seen_by_all(three: LocalCluster, topic: str, leader: int, in_sync: int = 3) -> None:
    """Wait until every live broker tells this leader and so many replicas in sync."""
    for broker in three.brokers:
        if broker.alive():
            address = broker.address
            until(lambda address=address: partition_of(address, topic).leader_id == leader)  # type: ignore[misc]
            until(lambda address=address: len(partition_of(address, topic).isr_nodes) == in_sync)  # type: ignore[misc]


@pytest.fixture
def replicated(three: LocalCluster) -> str:
    """A topic of one partition on all three, led by broker 0."""
    topic = make_topic(three.brokers[0].address, assignment=[(0, [0, 1, 2])], configs={"min.insync.replicas": "2"})
    seen_by_all(three, topic, 0)
    return topic


@contextmanager
def paused(three: LocalCluster, *ids: int) -> Iterator[None]:
    for id in ids:
        three.brokers[id].pause()
    try:
        yield
    finally:
        for id in ids:
            three.brokers[id].resume()


def log_of(three: LocalCluster, broker: int, topic: str) -> bytes:
    files: list[Path] = sorted((three.brokers[broker].data_dir / f"{topic}-0").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


class TestWriting:
    def test_every_replica_has_every_byte(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            for n in range(50):
                assert produce(leader, replicated, batch(b"%d" % n), acks=ALL) == (0, n)
        written = log_of(three, 0, replicated)
        assert len(written) > 50 * 60
        # Acknowledged is what all in sync have: no waiting here.
        assert log_of(three, 1, replicated) == log_of(three, 2, replicated) == written

    def test_a_request_of_many_partitions_is_answered_when_all_are_replicated(self, three: LocalCluster) -> None:
        address = three.brokers[1].address
        topic = make_topic(address, assignment=[(0, [1, 0]), (1, [1, 2]), (2, [1, 0])])
        with Raw(address) as leader:
            rows = produce_all(leader, 9, {topic: {n: batch(b"x", b"y") for n in range(3)}}, acks=ALL)
            assert {(row.error_code, row.base_offset) for row in rows.values()} == {(Error.none, 0)}
            for n in range(3):
                assert fetch(leader, topic, 0, partition=n)[1] == 2

    def test_many_requests_in_flight_are_answered_in_order(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            leader.send(b"".join(produce_frame(replicated, batch(b"%d" % n), acks=ALL) for n in range(20)))
            assert [produced(leader, replicated) for _ in range(20)] == [(0, n) for n in range(20)]

    def test_acks_of_all_wait_and_hold_nobody_else_up(self, three: LocalCluster, replicated: str) -> None:
        address = three.brokers[0].address
        with Raw(address) as waiting, Raw(address) as other, paused(three, 1, 2):
            waiting.send(produce_frame(replicated, batch(b"a"), acks=ALL, timeout_ms=60_000))
            until(lambda: produce(other, replicated, batch(b"b"), acks=1)[0] == 0)
            assert fetch(other, replicated, 0)[1:] == (0, b"")  # nobody sees what not all have
            assert produce(other, replicated, batch(b"c"), acks=ALL, timeout_ms=1)[0] == Error.request_timed_out.value
            three.brokers[1].resume()
            three.brokers[2].resume()
            assert produced(waiting, replicated)[0] == 0
            until(lambda: fetch(other, replicated, 0)[1] >= 3)

    def test_too_few_in_sync_are_told_before_and_after_the_write(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader, paused(three, 1, 2):
            # In sync when it is written, and given up by ZooKeeper while it waits.
            producer = Producer(leader, replicated)
            written = producer.batch(0)
            leader.send(produce_frame(replicated, written, acks=ALL, timeout_ms=120_000))
            assert produced(leader, replicated)[0] == Error.not_enough_replicas_after_append.value
            # Sent again, it is told that it is there: else a client might send the same under another number.
            again = produce(leader, replicated, written, acks=ALL)[0]
            assert again == Error.not_enough_replicas_after_append.value
            assert produce(leader, replicated, producer.batch(1), acks=ALL)[0] == Error.not_enough_replicas.value
            assert produce(leader, replicated, batch(b"b"), acks=ALL)[0] == Error.not_enough_replicas.value
            assert produce(leader, replicated, batch(b"c"), acks=1)[0] == 0
        seen_by_all(three, replicated, 0)
        with Raw(three.brokers[0].address) as leader:
            assert produce(leader, replicated, batch(b"d"), acks=ALL) == (0, 2)

    def test_nothing_is_acknowledged_for_others_while_zookeeper_is_away(
        self, three: LocalCluster, replicated: str
    ) -> None:
        """Others may have been given the partition meanwhile; one that no other holds nobody can be given."""
        address = three.brokers[0].address
        alone = make_topic(address, assignment=[(0, [0])])
        keeper = three.zookeeper_server
        assert keeper is not None
        with Raw(address) as leader:
            keeper.pause()
            try:
                in_doubt = Error.request_timed_out.value
                until(lambda: produce(leader, replicated, batch(b"x"), acks=ALL, timeout_ms=50)[0] == in_doubt)
                assert produce(leader, replicated, batch(b"y"), acks=1)[0] == 0
                assert produce(leader, alone, batch(b"z"), acks=ALL)[0] == 0
            finally:
                keeper.resume()
        seen_by_all(three, replicated, partition_of(address, replicated).leader_id)
        where = three.brokers[partition_of(address, replicated).leader_id].address
        with Raw(where) as leader:
            until(lambda: produce(leader, replicated, batch(b"w"), acks=ALL)[0] == 0)


class TestAsking:
    def test_a_follower_takes_no_writes_and_sends_old_consumers_away(
        self, three: LocalCluster, replicated: str
    ) -> None:
        with Raw(three.brokers[1].address) as follower:
            assert produce(follower, replicated, batch(b"x"))[0] == Error.not_leader_or_follower.value
            row = rows_of(fetch_all(follower, 10, {replicated: {0: 0}}))[replicated, 0]
            assert row.error_code is Error.not_leader_or_follower
            assert list_offsets(follower, replicated, LATEST).error_code is Error.not_leader_or_follower
            assert delete_records(follower, replicated, 0).error_code is Error.not_leader_or_follower

    def test_who_asks_in_another_leader_epoch_is_told(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            now = partition_of(leader.address, replicated).leader_epoch
            for epoch, error in ((now - 1, Error.fenced_leader_epoch), (now + 1, Error.unknown_leader_epoch)):
                if epoch >= 0:
                    row = rows_of(fetch_all(leader, 12, {replicated: {0: 0}}, leader_epoch=epoch))[replicated, 0]
                    assert row.error_code is error

    def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there(
        self, three: LocalCluster, replicated: str
    ) -> None:
        with Raw(three.brokers[0].address) as leader, Raw(three.brokers[2].address) as near:
            for n in range(5):
                assert produce(leader, replicated, batch(b"%d" % n), acks=ALL) == (0, n)
            row = rows_of(fetch_all(leader, 11, {replicated: {0: 0}}, rack="rack-2"))[replicated, 0]
            assert (row.error_code, row.preferred_read_replica, row.records) == (Error.none, 2, b"")
            for rack in ("rack-0", "nowhere", ""):
                row = rows_of(fetch_all(leader, 11, {replicated: {0: 0}}, rack=rack))[replicated, 0]
                assert row.preferred_read_replica == -1
                assert row.records
            until(lambda: fetch(near, replicated, 0)[1] == 5)
            assert fetch(near, replicated, 0) == fetch(leader, replicated, 0)
            # It has read more than this one knows to be committed: not lost, only not here yet.
            assert fetch(near, replicated, 6)[0] == Error.offset_not_available.value

    def test_librdkafka_reads_from_the_replica_in_its_rack(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            for n in range(5):
                assert produce(leader, replicated, batch(b"%d" % n), acks=ALL) == (0, n)
        fetched_from: list[int] = []

        def note(statistics: str) -> None:
            topics = json.loads(statistics)["topics"]
            if replicated in topics:
                fetched_from.append(topics[replicated]["partitions"]["0"]["broker"])

        consumer = Consumer(
            {
                "bootstrap.servers": three.bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "client.rack": "rack-2",
                "statistics.interval.ms": 50,
                "stats_cb": note,
                "log_level": 0,
            }
        )
        try:
            consumer.assign([TopicPartition(replicated, 0, 0)])
            values: list[bytes | None] = []

            def read_from_the_follower() -> bool:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    values.append(message.value())
                return len(values) >= 5 and fetched_from[-1:] == [2]

            until(read_from_the_follower)
            assert values == [b"%d" % n for n in range(5)]
        finally:
            consumer.close()

    def test_a_fresh_leader_says_that_it_does_not_know_yet(self, tmp_path: Path) -> None:
        """What the leader before acknowledged may be above the mark that this one was last told."""
        directory = LogDir(tmp_path, 0, "cluster")
        partition = fresh_leader(directory)
        wanted = FetchPartition("t", 0, -1, 2, -1, 0, 1 << 20)
        assert read(partition, wanted, 1 << 20, True).out.error == Error.offset_not_available.value
        assert read(partition, wanted, 1 << 20, True, version=10).out.error == 0
        assert read(partition, wanted._replace(fetch_offset=0), 1 << 20, True).out.error == 0
        assert read(partition, wanted._replace(fetch_offset=4), 1 << 20, True).out.error == 1
        assert end_told(partition) == (Error.offset_not_available, -1)
        partition.fetched(1, 3, 0.0)
        assert (partition.high_watermark, read(partition, wanted, 1 << 20, True).out.error) == (3, 0)
        assert end_told(partition) == (Error.none, 3)
        directory.close()


def end_told(partition: Partition) -> tuple[Error, int]:
    """What ListOffsets says of where the partition ends."""
    hosted = SimpleNamespace(lead=lambda topic, index: (partition, Error.none))
    row = OFFSETS.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    answer = listed(SimpleNamespace(hosted=hosted), "t", row)  # type: ignore[arg-type]
    return answer.error_code, answer.offset


def fresh_leader(directory: LogDir) -> Partition:
    """Broker 0 with three records, all from the leader before, none of which it knows to be committed."""
    hosted = hosting(directory, BrokerSettings())
    hosted.take("t", UUID(int=5), 0, Leadership(1, 4, (0, 1), (0, 1), 7), 0.0)
    (partition,) = hosted
    partition.log.append(batch(b"a", b"b", b"c"), 4)
    hosted.take("t", UUID(int=5), 0, Leadership(0, 5, (0, 1), (0, 1), 8), 0.0)
    assert (partition.leading, partition.fresh, partition.high_watermark) == (True, True, 0)
    return partition


class TestFailover:
    def test_a_retry_after_failover_writes_no_duplicate(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            producer = Producer(leader, replicated)
            batches = [producer.batch(n) for n in range(3)]
            for n, records in enumerate(batches):
                assert produce(leader, replicated, records, acks=ALL) == (0, n)
        three.brokers[0].kill()
        seen_by_all(three, replicated, 1, in_sync=2)
        with Raw(three.brokers[1].address) as leader:
            assert produce(leader, replicated, batches[2], acks=ALL) == (0, 2)  # as if its answer had been lost
            assert produce(leader, replicated, producer.batch(3), acks=ALL) == (0, 3)
            gap = produce(leader, replicated, producer.batch(7), acks=ALL)
            assert gap[0] == Error.out_of_order_sequence_number.value

    def test_one_that_comes_back_drops_what_only_it_had(self, three: LocalCluster, replicated: str) -> None:
        address = three.brokers[0].address
        with Raw(address) as leader:
            assert produce(leader, replicated, batch(b"kept"), acks=ALL) == (0, 0)
            with paused(three, 1, 2):
                # A fetch that was under way takes this one along; the next nobody comes for.
                assert produce(leader, replicated, batch(b"perhaps"), acks=1) == (0, 1)
                assert produce(leader, replicated, batch(b"lost"), acks=1) == (0, 2)
                three.brokers[0].kill()
        seen_by_all(three, replicated, 1, in_sync=2)
        with Raw(three.brokers[1].address) as leader:
            assert produce(leader, replicated, batch(b"instead"), acks=ALL) in ((0, 1), (0, 2))
        three.brokers[0].start()
        three.wait_ready()
        seen_by_all(three, replicated, 1)
        assert log_of(three, 0, replicated) == log_of(three, 1, replicated) == log_of(three, 2, replicated)
        assert b"instead" in log_of(three, 0, replicated)
        assert b"lost" not in log_of(three, 0, replicated)

    def test_a_leader_whose_disk_fails_is_followed_by_another(self, three: LocalCluster, replicated: str) -> None:
        pid = three.brokers[0].pid
        assert pid is not None
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        acknowledged = 0
        with Raw(three.brokers[0].address) as leader:
            while (answer := produce(leader, replicated, batch(b"v" * 20_000), acks=ALL))[0] == 0:
                acknowledged += 1
            assert answer[0] == Error.kafka_storage_error.value
        assert 10 < acknowledged < 20
        seen_by_all(three, replicated, 1, in_sync=2)
        with Raw(three.brokers[1].address) as leader:
            assert produce(leader, replicated, batch(b"on"), acks=ALL) == (0, acknowledged)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        three.brokers[0].restart()
        seen_by_all(three, replicated, 1)
        assert log_of(three, 0, replicated) == log_of(three, 1, replicated) == log_of(three, 2, replicated)

    def test_a_follower_whose_disk_failed_and_that_is_elected_gives_way_to_another(
        self, three: LocalCluster, replicated: str
    ) -> None:
        """It is in sync until it has been silent for long enough, and may be the first in the list by then."""
        pid = three.brokers[1].pid
        assert pid is not None
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        with Raw(three.brokers[0].address) as leader:
            for number in range(20):
                assert produce(leader, replicated, batch(b"v" * 20_000)) == (0, number)
        until(lambda: f"{replicated}-0 is offline" in three.brokers[1].log_path.read_text())
        until(lambda: log_of(three, 2, replicated) == log_of(three, 0, replicated))
        assert len(partition_of(three.brokers[2].address, replicated).isr_nodes) == 3
        three.brokers[0].kill()
        seen_by_all(three, replicated, 2, in_sync=1)
        with Raw(three.brokers[2].address) as leader:
            assert produce(leader, replicated, batch(b"on")) == (0, 20)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        three.brokers[1].restart()
        three.brokers[0].start()
        three.wait_ready()
        seen_by_all(three, replicated, 2)
        until(lambda: log_of(three, 0, replicated) == log_of(three, 1, replicated) == log_of(three, 2, replicated))

    def test_a_leader_that_cannot_open_its_log_is_followed_by_another(self, three: LocalCluster) -> None:
        topic = f"t-{uuid4().hex[:12]}"
        in_the_way = three.brokers[0].data_dir / f"{topic}-0"
        in_the_way.write_text("no folder")
        with Raw(three.brokers[0].address) as raw:
            create_topics(raw, new_topic(topic, assignment=[(0, [0, 1, 2])]))
        seen_by_all(three, topic, 1, in_sync=2)
        with Raw(three.brokers[1].address) as leader:
            assert produce(leader, topic, batch(b"here"), acks=ALL) == (0, 0)
        in_the_way.unlink()
        three.brokers[0].restart()
        seen_by_all(three, topic, 1)
        assert log_of(three, 0, topic) == log_of(three, 1, topic)

    def test_a_broker_told_to_stop_gives_its_leadership_away_first(self, three: LocalCluster, replicated: str) -> None:
        with Raw(three.brokers[0].address) as leader:
            assert produce(leader, replicated, batch(b"x"), acks=ALL) == (0, 0)
        three.brokers[0].stop()
        # Nobody had to wait for a session to end.
        assert partition_of(three.brokers[1].address, replicated).leader_id == 1
        with Raw(three.brokers[1].address) as leader:
            assert produce(leader, replicated, batch(b"y"), acks=ALL) == (0, 1)
