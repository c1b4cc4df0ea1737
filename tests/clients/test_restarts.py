"""A broker that stops, is killed and starts again under its clients, and one that deletes what they read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from tests.clients import with_librdkafka
from tests.clients.conftest import MakeTopic
from tests.clients.on_disk import batches_on_disk
from tests.clients.parties import CODECS, DEADLINE_S, Party, Refused, Sent, numbered, values
from tests.clients.waiting import until
from tests.clients.with_aiokafka import deliver as deliver_async
from tests.clients.with_aiokafka import producing
from tests.clients.with_kafka_python import deliver as deliver_python
from tests.clients.with_kafka_python import producer_of
from tests.clients.with_librdkafka import Librdkafka, deliver, got, next_message

PARTITIONS = 3
COUNT = 3000


def _clean_stop(cluster: LocalCluster) -> None:
    cluster.brokers[0].stop()


def _kill(cluster: LocalCluster) -> None:
    cluster.brokers[0].kill()


ENDS = pytest.mark.parametrize("end", [_clean_stop, _kill], ids=["clean stop", "kill -9"])


@contextmanager
def _restart_beside(cluster: LocalCluster, end: Callable[[LocalCluster], None]) -> Iterator[threading.Event]:
    """End the broker and start it again on another thread, once the event is set; leaves when it serves."""
    now = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            if now.wait(DEADLINE_S):
                end(cluster)
                cluster.brokers[0].start()
                cluster.brokers[0].wait_ready()
        except BaseException as error:
            failed.append(error)

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield now
    finally:
        beside.join(DEADLINE_S)
    assert not failed, failed


def _messages() -> list[Sent]:
    return [Sent(b"%d" % i, partition=i % PARTITIONS) for i in range(COUNT)]


def _expect_all_once_in_order(bootstrap: str, topic: str) -> None:
    for partition in range(PARTITIONS):
        found = [int(m.value or b"") for m in Librdkafka().read(bootstrap, topic, partition=partition)]
        assert found == list(range(partition, COUNT, PARTITIONS))


@ENDS
def test_an_idempotent_librdkafka_loses_doubles_and_disorders_nothing(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[LocalCluster], None]
) -> None:
    topic = make_topic_restarted(partitions=PARTITIONS)
    producer = with_librdkafka.producer_of(
        restarted.bootstrap,
        {
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
        },
    )
    sent = _messages()
    with _restart_beside(restarted, end) as now:
        deliver(producer, topic, sent[:100])
        now.set()
        deliver(producer, topic, sent[100:])
    _expect_all_once_in_order(restarted.bootstrap, topic)


@ENDS
def test_an_idempotent_kafka_python_loses_doubles_and_disorders_nothing(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[LocalCluster], None]
) -> None:
    topic = make_topic_restarted(partitions=PARTITIONS)
    producer = producer_of(restarted.bootstrap, enable_idempotence=True, batch_size=400, linger_ms=1)
    sent = _messages()
    with _restart_beside(restarted, end) as now:
        deliver_python(producer, topic, sent[:100])
        now.set()
        deliver_python(producer, topic, sent[100:])
    producer.close()
    _expect_all_once_in_order(restarted.bootstrap, topic)


@ENDS
def test_an_idempotent_aiokafka_loses_doubles_and_disorders_nothing(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[LocalCluster], None]
) -> None:
    topic = make_topic_restarted(partitions=PARTITIONS)
    sent = _messages()

    async def run(now: threading.Event) -> None:
        async with producing(
            restarted.bootstrap, enable_idempotence=True, max_batch_size=400, linger_ms=1, retry_backoff_ms=50
        ) as producer:
            await deliver_async(producer, topic, sent[:100])
            now.set()
            await deliver_async(producer, topic, sent[100:])

    with _restart_beside(restarted, end) as now:
        asyncio.run(run(now))
    _expect_all_once_in_order(restarted.bootstrap, topic)


@ENDS
def test_what_was_acknowledged_is_there_after_a_restart(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[LocalCluster], None]
) -> None:
    ordinary = make_topic_restarted(partitions=len(CODECS), configs={"segment.bytes": "4096"})
    classic = make_topic_restarted(partitions=len(CODECS), configs={"segment.bytes": "4096", "classic": "true"})
    topics = {ordinary: numbered(100, size=100), classic: numbered(100, size=100)}
    for topic, sent in topics.items():
        for partition, codec in enumerate(CODECS):
            mine = [m._replace(partition=partition) for m in sent]
            Librdkafka().produce(restarted.bootstrap, topic, mine, codec=codec)
    before = {
        (topic, p): [lying.header for lying in batches_on_disk(restarted, topic, p)]
        for topic in topics
        for p in range(len(CODECS))
    }
    end(restarted)
    restarted.brokers[0].start()
    restarted.brokers[0].wait_ready()
    for (topic, partition), headers in before.items():
        assert [lying.header for lying in batches_on_disk(restarted, topic, partition)] == headers
        assert values(Librdkafka().read(restarted.bootstrap, topic, partition=partition)) == values(topics[topic])
        # And the log goes on where it was.
        Librdkafka().produce(restarted.bootstrap, topic, [Sent(b"after", partition=partition)])
        fresh = batches_on_disk(restarted, topic, partition)[len(headers)]
        assert fresh.header.base_offset == headers[-1].next_offset


@ENDS
def test_a_consumer_reads_on_after_a_restart(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[LocalCluster], None]
) -> None:
    topic = make_topic_restarted()
    Librdkafka().produce(restarted.bootstrap, topic, numbered(10))
    settings = {"enable.partition.eof": False, "reconnect.backoff.max.ms": 200}
    consumer = with_librdkafka.consumer_of(restarted.bootstrap, settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []

    def next_ones(wanted: int) -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) >= wanted

    until(lambda: next_ones(10), "the first ten messages")
    end(restarted)
    restarted.brokers[0].start()
    restarted.brokers[0].wait_ready()
    Librdkafka().produce(restarted.bootstrap, topic, [Sent(b"after")])
    until(lambda: next_ones(11), "the message after the restart")
    consumer.close()
    assert found == [*values(numbered(10)), b"after"]


SMALL = {"segment.bytes": "2000", "retention.bytes": "6000"}


def test_an_offset_that_retention_deleted_is_refused_or_reset_as_the_consumer_chose(
    restarted: LocalCluster, make_topic_restarted: MakeTopic
) -> None:
    topic = make_topic_restarted(configs=SMALL)
    for message in numbered(60, size=200):
        Librdkafka().produce(restarted.bootstrap, topic, [message])
    watching = with_librdkafka.consumer_of(restarted.bootstrap)

    def start() -> int:
        return int(watching.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)[0])

    until(lambda: start() > 0, "the deletion of old segments")
    watching.close()
    with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE|AUTO_OFFSET_RESET"):
        Librdkafka().read(restarted.bootstrap, topic, 0)
    consumer = with_librdkafka.consumer_of(restarted.bootstrap, {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while (message := next_message(consumer, deadline)) is not None:
        found.append(got(message))
    consumer.close()
    assert found[0].offset > 0
    assert [m.offset for m in found] == list(range(found[0].offset, 60))
    assert values(found) == values(numbered(60, size=200)[found[0].offset :])


def test_a_consumer_reads_right_messages_while_retention_deletes_behind_it(
    party: Party, restarted: LocalCluster, make_topic_restarted: MakeTopic
) -> None:
    topic = make_topic_restarted(configs=SMALL)
    settings = {"auto.offset.reset": "earliest", "fetch.message.max.bytes": 500}
    consumer = with_librdkafka.consumer_of(restarted.bootstrap, settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []

    def poll() -> None:
        message = consumer.poll(0)
        if message is not None and message.error() is None:
            found.append(got(message))

    for message in numbered(80, size=200):
        party.produce(restarted.bootstrap, topic, [message])
        poll()

    def at_end() -> bool:
        poll()
        return bool(found) and found[-1].offset == 79

    until(at_end, "the last message")
    consumer.close()
    sent = values(numbered(80, size=200))
    assert all(m.value == sent[m.offset] for m in found)
    assert [m.offset for m in found] == sorted({m.offset for m in found})
