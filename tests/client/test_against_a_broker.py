"""The client against a real broker: every admin call, and records there and back."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

import pytest

from kafka_classic.client import admin, simple
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Refused, UnknownTopic
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.writer import Acknowledged, Writer
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import NewRecord
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.errors import Error, KafkaError

NewTopicName = Callable[..., str]


@pytest.fixture
def cluster(kafka_bootstrap: str) -> Iterator[Cluster]:
    with Cluster(kafka_bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(cluster: Cluster) -> NewTopicName:
    def create(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = f"client-{uuid.uuid4().hex[:12]}"
        # Nothing expires: the tests choose timestamps as they like.
        settings = {"retention.ms": "-1", **(configs or {})}
        admin.create_topics(cluster, [admin.NewTopic(name, partitions, 1, settings)])
        return name

    return create


def _records(count: int, size: int = 100, start: int = 1_700_000_000_000) -> list[NewRecord]:
    return [
        (b"key %d" % i, b"%d " % i + bytes(size), (("n", b"%d" % i), ("null", None)), start + i) for i in range(count)
    ]


def test_the_cluster_describes_itself(cluster: Cluster, kafka_cluster: LocalCluster) -> None:
    found = admin.describe_cluster(cluster)
    assert [(broker.id, broker.port) for broker in found.brokers] == [(0, kafka_cluster.brokers[0].port)]
    assert found.cluster_id == cluster.metadata(()).cluster_id
    assert found.controller == 0


def test_a_topic_lives_from_its_creation_to_its_deletion(cluster: Cluster) -> None:
    name = f"life-{uuid.uuid4().hex[:8]}"
    (created,) = admin.create_topics(cluster, [admin.NewTopic(name, 3, 1, {"retention.ms": "60000"})])
    assert (created.name, created.partitions, created.replication_factor) == (name, 3, 1)
    (topic,) = admin.describe_topics(cluster, [name])
    assert topic.id == created.id
    assert [(one.index, one.leader, one.isr) for one in topic.partitions] == [(i, 0, (0,)) for i in range(3)]
    assert name in admin.list_topics(cluster)
    admin.create_partitions(cluster, {name: 5})
    assert len(cluster.topic(name).partitions) == 5
    admin.delete_topics(cluster, [name])
    assert name not in admin.list_topics(cluster)
    with pytest.raises(UnknownTopic, match="there is no topic"):
        cluster.topic(name)


def test_a_topic_that_is_only_checked_is_not_created(cluster: Cluster) -> None:
    name = f"checked-{uuid.uuid4().hex[:8]}"
    admin.create_topics(cluster, [admin.NewTopic(name, 1, 1)], validate_only=True)
    assert name not in admin.list_topics(cluster)


def test_what_cannot_be_done_is_refused_with_kafkas_code(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic(2)
    refusals: list[tuple[Callable[[], object], Error]] = [
        (lambda: admin.create_topics(cluster, [admin.NewTopic(name)]), Error.topic_already_exists),
        (lambda: admin.create_topics(cluster, [admin.NewTopic("../x")]), Error.invalid_topic_exception),
        (lambda: admin.create_topics(cluster, [admin.NewTopic("many", 1, 9)]), Error.invalid_replication_factor),
        (lambda: admin.create_topics(cluster, [admin.NewTopic("none", 0, 1)]), Error.invalid_partitions),
        (lambda: admin.create_topics(cluster, [admin.NewTopic("c", 1, 1, {"no.such": "1"})]), Error.invalid_config),
        (lambda: admin.create_partitions(cluster, {name: 1}), Error.invalid_partitions),
        (lambda: admin.delete_topics(cluster, ["nope"]), Error.unknown_topic_or_partition),
        (lambda: admin.describe_topics(cluster, ["nope"]), Error.unknown_topic_or_partition),
        (
            lambda: admin.alter_configs(cluster, admin.Resource.TOPIC, name, {"retention.ms": "soon"}),
            Error.invalid_config,
        ),
        (
            lambda: admin.describe_configs(cluster, admin.Resource.TOPIC, "nope"),
            Error.unknown_topic_or_partition,
        ),
    ]
    for call, code in refusals:
        with pytest.raises(Refused) as raised:
            call()
        assert raised.value.code == code
        assert len(raised.value.message) > 20


def test_settings_are_read_set_and_put_back(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic()

    def largest() -> admin.Setting:
        (setting,) = admin.describe_configs(cluster, admin.Resource.TOPIC, name, ["max.message.bytes"])
        return setting

    before = largest()
    assert before.is_default
    admin.alter_configs(cluster, admin.Resource.TOPIC, name, {"max.message.bytes": "12345"})
    assert (largest().value, largest().source) == ("12345", admin.Source.TOPIC)
    with pytest.raises(KafkaError, match=r"MESSAGE_TOO_LARGE: partition 0 of .*max\.message\.bytes"):
        simple.produce(cluster, name, 0, _records(1, size=20_000))
    admin.alter_configs(cluster, admin.Resource.TOPIC, name, {"max.message.bytes": None})
    assert largest() == before
    assert any(
        (one.name, one.value) == ("broker.id", "0")
        for one in admin.describe_configs(cluster, admin.Resource.BROKER, "0")
    )


def test_offsets_are_found_by_place_and_by_time(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic()
    at = name, 0
    for start in (1000, 3000, 2000):
        simple.produce(cluster, name, 0, [(None, b"x", (), start + i) for i in range(10)])

    def offset(when: int) -> int:
        return admin.list_offsets(cluster, {at: when})[at].offset

    assert [offset(admin.EARLIEST), offset(admin.LATEST), offset(admin.MAX_TIMESTAMP)] == [0, 30, 19]
    assert [offset(0), offset(1005), offset(1500), offset(5000)] == [0, 5, 10, -1]
    assert admin.offsets_of_topic(cluster, name, admin.LATEST) == {0: 30}


def test_records_before_an_offset_are_deleted(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic()
    simple.produce(cluster, name, 0, _records(20))
    assert admin.delete_records(cluster, {(name, 0): 7}) == {(name, 0): 7}
    assert admin.offsets_of_topic(cluster, name, admin.EARLIEST) == {0: 7}
    assert simple.fetch(cluster, name, 0, 7).records[0].offset == 7
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        simple.fetch(cluster, name, 0, 3)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records(cluster, {(name, 0): 1000})


def test_the_sizes_on_the_brokers_disks_are_told(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic(2)
    simple.produce(cluster, name, 1, _records(10, size=1000))
    ((directory,),) = admin.describe_log_dirs(cluster).values()
    assert directory.error == Error.none
    assert directory.replicas[name, 0].size == 0
    assert directory.replicas[name, 1].size > 10_000


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back_as_they_were_sent(cluster: Cluster, new_topic: NewTopicName, codec: Codec) -> None:
    name = new_topic()
    sent = [*_records(300), (None, None, (), 1), (b"", b"", (), 2), (b"k", bytes(900_000), (), 3)]
    assert simple.produce(cluster, name, 0, sent, codec=codec) == 0
    found = [one.record for one in simple.consume(cluster, {(name, 0): 0}, until=simple.end(cluster, [name]))]
    assert [(one.key, one.value, one.headers, one.timestamp) for one in found] == sent
    assert [one.offset for one in found] == list(range(len(sent)))


def test_several_partitions_are_written_and_read_together(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic(4)
    acknowledged: list[Acknowledged] = []
    with Writer(cluster, batch_bytes=4000, on_acknowledged=acknowledged.append) as writer:
        for i, record in enumerate(_records(2000)):
            writer.write(name, i % 4, record)
    assert sum(one.records for one in acknowledged) == 2000
    small = FetchLimits(max_bytes=20_000, partition_max_bytes=10_000)
    found: dict[int, list[int]] = {}
    start, end = simple.beginning(cluster, [name]), simple.end(cluster, [name])
    for one in simple.consume(cluster, start, until=end, limits=small):
        found.setdefault(one.partition, []).append(one.record.offset)
    assert found == {index: list(range(500)) for index in range(4)}


def test_a_long_poll_ends_when_a_record_comes(cluster: Cluster, new_topic: NewTopicName) -> None:
    name = new_topic()
    stream = simple.consume(cluster, {(name, 0): 0}, count=1, limits=FetchLimits(max_wait_ms=60_000))
    producer = threading.Thread(target=lambda: simple.produce(cluster, name, 0, _records(1)))
    producer.start()
    began = time.monotonic()
    assert next(stream).record.key == b"key 0"
    producer.join()
    assert time.monotonic() - began < 50  # not the whole wait of the poll


def test_a_topic_that_is_not_there_is_made_by_the_broker_when_asked_for(cluster: Cluster) -> None:
    name = f"auto-{uuid.uuid4().hex[:8]}"
    assert cluster.topic(name, auto_create=True).name == name
    assert simple.produce(cluster, name, 0, _records(1)) == 0


def test_an_idempotent_writer_goes_on_over_a_killed_broker(
    cluster: Cluster, kafka_cluster: LocalCluster, new_topic: NewTopicName
) -> None:
    name = new_topic()
    # Of now: a broker that starts forgets producers whose last record is older than producer.id.expiration.ms.
    sent = _records(3000, start=int(time.time() * 1000))
    broker = kafka_cluster.brokers[0]
    acknowledged = threading.Semaphore(0)

    def crash() -> None:
        acknowledged.acquire(timeout=60.0)
        broker.kill()
        broker.start()

    crasher = threading.Thread(target=crash)
    crasher.start()
    with Writer(
        cluster, idempotent=True, batch_bytes=2000, timeout=60.0, on_acknowledged=lambda _: acknowledged.release()
    ) as writer:
        for record in sent:
            writer.write(name, 0, record)
    crasher.join()
    broker.wait_ready()
    found = [one.record.key for one in simple.consume(cluster, {(name, 0): 0}, until=simple.end(cluster, [name]))]
    assert found == [key for key, _, _, _ in sent]


def test_a_consumer_goes_on_over_a_restarted_broker(
    cluster: Cluster, kafka_cluster: LocalCluster, new_topic: NewTopicName
) -> None:
    name = new_topic()
    simple.produce(cluster, name, 0, _records(100))
    stream = simple.consume(cluster, {(name, 0): 0}, count=200)
    first = [next(stream).record.offset for _ in range(100)]
    kafka_cluster.brokers[0].restart()
    simple.produce(cluster, name, 0, _records(100))
    assert first + [one.record.offset for one in stream] == list(range(200))
