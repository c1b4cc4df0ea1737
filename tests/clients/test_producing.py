"""Producing: every level of acknowledgement, topics that do not exist yet, and batches that are too large."""

from __future__ import annotations

import asyncio

import kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients import with_aiokafka, with_kafka_python, with_librdkafka
from tests.clients.conftest import MakeTopic
from tests.clients.parties import DEADLINE_S, Got, Party, Refused, numbered, read, values
from tests.clients.with_librdkafka import Librdkafka, admin_of

TOO_LARGE = "MSG_SIZE_TOO_LARGE|MESSAGE_SIZE_TOO_LARGE|Message size too large"
UNKNOWN = "UNKNOWN_TOPIC|Unknown topic|TIMEOUT"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement_is_served(
    party: Party, bootstrap: str, make_topic: MakeTopic, acks: str
) -> None:
    topic = make_topic()
    sent = numbered(30)
    party.produce(bootstrap, topic, sent, acks=acks)

    def all_there() -> list[Got]:
        # With acks=0 a producer may be done before the broker is.
        found = read(Librdkafka(), bootstrap, topic)
        return found if len(found) >= len(sent) else []

    assert values(until(all_there, "the arrival of all messages")) == values(sent)


def test_each_client_is_told_the_offsets_of_its_messages(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert with_librdkafka.deliver(with_librdkafka.producer_of(bootstrap), topic, numbered(10)) == list(range(10))
    producer = with_kafka_python.producer_of(bootstrap)
    assert with_kafka_python.deliver(producer, topic, numbered(10)) == list(range(10, 20))
    producer.close()

    async def run() -> list[int]:
        async with with_aiokafka.producing(bootstrap) as producer:
            return await with_aiokafka.deliver(producer, topic, numbered(10))

    assert asyncio.run(run()) == list(range(20, 30))


def test_a_batch_over_the_topics_limit_is_refused_and_the_next_is_taken(
    party: Party, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"max.message.bytes": "2000"})
    with pytest.raises(Refused, match=TOO_LARGE):
        party.produce(bootstrap, topic, numbered(1, size=3000))
    party.produce(bootstrap, topic, numbered(1, size=1000))
    assert values(read(party, bootstrap, topic)) == values(numbered(1, size=1000))


def test_a_topic_is_created_when_a_producer_first_writes_to_it(party: Party, bootstrap: str, unmade_topic: str) -> None:
    sent = numbered(5)
    party.produce(bootstrap, unmade_topic, sent)
    assert values(read(party, bootstrap, unmade_topic)) == values(sent)
    made = admin_of(bootstrap).list_topics(unmade_topic, timeout=DEADLINE_S)
    assert len(made.topics[unmade_topic].partitions) == 1


def test_a_topic_is_created_when_a_consumer_that_may_asks_for_it(bootstrap: str, unmade_topic: str) -> None:
    consumer = with_librdkafka.consumer_of(bootstrap, {"allow.auto.create.topics": True})
    consumer.assign([TopicPartition(unmade_topic, 0, 0)])
    admin = admin_of(bootstrap)

    def created() -> bool:
        consumer.poll(0.1)
        return unmade_topic in admin.list_topics(timeout=DEADLINE_S).topics

    until(created, "the topic's creation")
    consumer.close()


def test_looking_at_a_topic_does_not_create_it(bootstrap: str, unmade_topic: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    assert unmade_topic not in admin.list_topics()
    consumer = with_kafka_python.consumer_of(bootstrap, allow_auto_create_topics=False)
    consumer.assign([kafka.TopicPartition(unmade_topic, 0)])
    assert not consumer.partitions_for_topic(unmade_topic)
    consumer.close()
    assert unmade_topic not in admin.list_topics()
    admin.close()


@pytest.mark.parametrize("name", ["with space", "umläut", "a" * 250, "..", "a/../b"])
def test_a_bad_name_is_never_created(bootstrap: str, name: str) -> None:
    producer = with_librdkafka.producer_of(bootstrap, {"message.timeout.ms": 20_000})
    with pytest.raises(Refused, match=r"TOPIC_EXCEPTION|UNKNOWN_TOPIC|INVALID_TOPIC"):
        with_librdkafka.deliver(producer, name, numbered(1))
    assert name not in admin_of(bootstrap).list_topics(timeout=DEADLINE_S).topics


def test_an_unknown_topic_stays_unknown_where_auto_creation_is_off(restarted: LocalCluster, unmade_topic: str) -> None:
    producer = with_librdkafka.producer_of(
        restarted.bootstrap, {"message.timeout.ms": 20_000, "topic.metadata.propagation.max.ms": 100}
    )
    with pytest.raises(Refused, match=UNKNOWN):
        with_librdkafka.deliver(producer, unmade_topic, numbered(1))
    other = with_kafka_python.producer_of(restarted.bootstrap, max_block_ms=1000)
    with pytest.raises(Refused, match=UNKNOWN):
        with_kafka_python.deliver(other, unmade_topic, numbered(1))
    other.close()
    assert unmade_topic not in admin_of(restarted.bootstrap).list_topics(timeout=DEADLINE_S).topics
