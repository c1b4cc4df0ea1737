"""A broker that stops, is killed and starts again under its clients, and one that deletes what they read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients import with_librdkafka
from tests.clients.conftest import MakeTopic
from tests.clients.on_disk import batches_on_disk
from tests.clients.parties import CODECS, DEADLINE_S, Got, Refused, Sent, numbered, read, values
from tests.clients.with_librdkafka import Librdkafka, got, next_message


class Reading:
    """A consumer of one partition that may live through a restart of its broker."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, Any] | None = None) -> None:
        quick = {"enable.partition.eof": False, "reconnect.backoff.max.ms": 200, **(settings or {})}
        self._consumer = with_librdkafka.consumer_of(bootstrap, quick)
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.found: list[Got] = []

    def poll(self, timeout: float = 0.0) -> None:
        message = self._consumer.poll(timeout)
        if message is not None and message.error() is None:
            self.found.append(got(message))

    def until_offset(self, offset: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self.found or self.found[-1].offset < offset:
            assert time.monotonic() < deadline, f"offset {offset} did not come"
            self.poll(1.0)

    def close(self) -> None:
        self._consumer.close()


def test_what_was_acknowledged_is_there_after_a_restart_and_consumers_read_on(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[], object]
) -> None:
    broker = restarted.brokers[0]
    bootstrap = restarted.bootstrap
    sent = numbered(60, size=100)
    small = {"segment.bytes": "4096"}
    topics = [make_topic_restarted(configs=small), make_topic_restarted(configs={**small, "classic": "true"})]
    for topic in topics:
        for codec in CODECS:
            Librdkafka().produce(bootstrap, topic, sent, codec=codec)
    before = {topic: [lying.header for lying in batches_on_disk(restarted, topic)] for topic in topics}
    reading = Reading(bootstrap, topics[0])
    reading.until_offset(len(sent) * len(CODECS) - 1)
    end()
    broker.start()
    broker.wait_ready()
    for topic in topics:
        assert [lying.header for lying in batches_on_disk(restarted, topic)] == before[topic]
        assert values(read(Librdkafka(), bootstrap, topic)) == values(sent) * len(CODECS)
        # And the log goes on where it was.
        Librdkafka().produce(bootstrap, topic, [Sent(b"after")])
        fresh = batches_on_disk(restarted, topic)[len(before[topic])]
        assert fresh.header.base_offset == before[topic][-1].next_offset
    reading.until_offset(len(sent) * len(CODECS))
    reading.close()
    assert values(reading.found) == [*values(sent) * len(CODECS), b"after"]


SMALL = {"segment.bytes": "2000", "retention.bytes": "6000"}


def test_an_offset_that_retention_deleted_is_refused_or_reset_as_the_consumer_chose(
    restarted: LocalCluster, make_topic_restarted: MakeTopic
) -> None:
    topic = make_topic_restarted(configs=SMALL)
    sent = numbered(60, size=200)
    producer = with_librdkafka.producer_of(restarted.bootstrap, {"batch.num.messages": 3})
    with_librdkafka.deliver(producer, topic, sent)
    watching = with_librdkafka.consumer_of(restarted.bootstrap)
    place = TopicPartition(topic, 0, 0)

    def deleted() -> bool:
        ends = watching.get_watermark_offsets(place, timeout=DEADLINE_S)
        return ends is not None and ends[0] > 0

    until(deleted, "the deletion of old segments")
    watching.close()
    with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE|AUTO_OFFSET_RESET"):
        read(Librdkafka(), restarted.bootstrap, topic, 0)
    consumer = with_librdkafka.consumer_of(restarted.bootstrap, {"auto.offset.reset": "earliest"})
    consumer.assign([place])
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while (message := next_message(consumer, deadline)) is not None:
        found.append(got(message))
    consumer.close()
    assert found[0].offset > 0
    assert [m.offset for m in found] == list(range(found[0].offset, 60))
    assert values(found) == values(sent[found[0].offset :])


def test_a_consumer_reads_right_messages_while_retention_deletes_behind_it(
    restarted: LocalCluster, make_topic_restarted: MakeTopic
) -> None:
    topic = make_topic_restarted(configs=SMALL)
    reading = Reading(restarted.bootstrap, topic, {"auto.offset.reset": "earliest", "fetch.message.max.bytes": 500})
    sent = numbered(150, size=200)
    producer = with_librdkafka.producer_of(restarted.bootstrap)
    for message in sent:
        with_librdkafka.deliver(producer, topic, [message])
        reading.poll()
    reading.until_offset(149)
    reading.close()
    assert all(m.value == sent[m.offset].value for m in reading.found)
    assert [m.offset for m in reading.found] == sorted({m.offset for m in reading.found})
