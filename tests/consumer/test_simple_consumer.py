"""The simple consumer: any offset, any time, as often as one likes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from kafka_classic.client import admin, simple
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.consumer import Message, SimpleConsumer
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.errors import KafkaError

NewTopicName = Callable[..., str]


@pytest.fixture
def cluster(kafka_bootstrap: str) -> Iterator[Cluster]:
    with Cluster(kafka_bootstrap) as made:
        yield made


@pytest.fixture
def consumer(kafka_bootstrap: str) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(kafka_bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(cluster: Cluster) -> NewTopicName:
    def create(partitions: int = 1, **configs: str) -> str:
        name = f"simple-{uuid.uuid4().hex[:12]}"
        admin.create_topics(cluster, [admin.NewTopic(name, partitions, 1, {"retention.ms": "-1", **configs})])
        for index in range(partitions):
            for start in range(0, 100, 10):
                rows = [(None, b"%d" % i, (), 1000 + i) for i in range(start, start + 10)]
                simple.produce(cluster, name, index, rows)
        return name

    return create


def test_a_fetch_returns_messages_from_an_offset_on(consumer: SimpleConsumer, new_topic: NewTopicName) -> None:
    topic = new_topic()
    found = consumer.fetch(topic, 0, 43)
    assert found[0] == Message(topic, 0, 43, None, b"43", (), 1043)
    assert [message.offset for message in found] == list(range(43, 100))
    assert len(consumer.fetch(topic, 0, 0, max_bytes=1)) == 10  # a whole batch at the least
    assert consumer.fetch(topic, 0, 100) == []
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        consumer.fetch(topic, 0, 101)


def test_a_partition_is_read_fetch_by_fetch(consumer: SimpleConsumer, new_topic: NewTopicName) -> None:
    for topic in (new_topic(), new_topic(**{"classic": "true", "flush.messages": "1"})):
        offset, values = 0, list[int]()
        while len(values) < 100:  # in a classic topic a message is exposed once it is flushed (P5): a moment later
            found = consumer.fetch(topic, 0, offset, max_bytes=300)
            values += [int(message.value or b"-1") for message in found]
            offset = found[-1].next_offset if found else offset
        assert values == list(range(100))
        assert consumer.fetch(topic, 0, offset) == []


def test_p11_a_consumer_rewinds_and_reads_again(consumer: SimpleConsumer, new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    for index in consumer.partitions(topic):
        assert consumer.seek(topic, index, EARLIEST) == 0
    first = list(consumer.messages(count=200))
    assert sorted((message.partition, message.offset) for message in first) == [
        (p, i) for p in (0, 1) for i in range(100)
    ]
    assert list(consumer.messages(idle=0.3)) == []
    consumer.seek(topic, 0, 90)
    again = list(consumer.messages(idle=0.3))
    assert [(message.partition, message.offset) for message in again] == [(0, i) for i in range(90, 100)]
    assert (consumer.position(topic, 0), consumer.position(topic, 1)) == (100, 100)


def test_reading_stops_in_the_middle_and_goes_on_there(consumer: SimpleConsumer, new_topic: NewTopicName) -> None:
    topic = new_topic()
    consumer.seek(topic, 0, 0)
    messages = consumer.messages(until={(topic, 0): 50})
    for message in messages:
        if message.offset == 7:
            break
    assert consumer.position(topic, 0) == 7  # still in hand
    assert [message.offset for message in consumer.messages(until={(topic, 0): 50})] == list(range(7, 50))
    assert consumer.position(topic, 0) == 50


def test_offsets_before_a_time(consumer: SimpleConsumer, new_topic: NewTopicName, cluster: Cluster) -> None:
    topic = new_topic()
    admin.delete_records(cluster, {(topic, 0): 20})
    assert consumer.offsets_before(topic, 0, LATEST) == [100]
    assert consumer.offsets_before(topic, 0, EARLIEST, 5) == [20]
    assert consumer.offsets_before(topic, 0, 1042, 2) == [42, 20]
    assert consumer.offsets_before(topic, 0, 10**12) == [100]  # later than all


def test_the_brokers_are_found_in_zookeeper(kafka_cluster: LocalCluster, new_topic: NewTopicName) -> None:
    topic = new_topic()
    with SimpleConsumer(zookeeper=kafka_cluster.zookeeper) as consumer:
        assert len(consumer.fetch(topic, 0, 0)) == 100
    with pytest.raises(LookupError, match="no broker is registered"):
        SimpleConsumer(zookeeper=f"{kafka_cluster.zookeeper}/nothing-here")
    with pytest.raises(ValueError, match="bootstrap="):
        SimpleConsumer()
