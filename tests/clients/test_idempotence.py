"""Idempotent producers whose broker ends and starts again: nothing is lost, nothing doubled, nothing out of order."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients import with_aiokafka, with_kafka_python, with_librdkafka
from tests.clients.conftest import MakeTopic
from tests.clients.on_disk import batches_on_disk
from tests.clients.parties import DEADLINE_S, Sent, read
from tests.clients.with_librdkafka import Librdkafka

PARTITIONS = 2
AT_A_TIME = 6  # messages in a row, then a pause: some requests carry one batch, some several
PAUSE_S = 0.004


def _librdkafka(bootstrap: str, topic: str, enough: threading.Event) -> int:
    settings = {"enable.idempotence": True, "linger.ms": 1, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
    producer = with_librdkafka.producer_of(bootstrap, settings)
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    numbers = itertools.count()
    while not enough.wait(PAUSE_S):
        for number in itertools.islice(numbers, AT_A_TIME):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert not errors
    return next(numbers)


def _kafka_python(bootstrap: str, topic: str, enough: threading.Event) -> int:
    producer = with_kafka_python.producer_of(bootstrap, enable_idempotence=True, linger_ms=1, retry_backoff_ms=20)
    futures = []
    numbers = itertools.count()
    while not enough.wait(PAUSE_S):
        futures += [
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
            for number in itertools.islice(numbers, AT_A_TIME)
        ]
    for future in futures:
        future.get(timeout=DEADLINE_S)
    producer.close()
    return next(numbers)


def _aiokafka(bootstrap: str, topic: str, enough: threading.Event) -> int:
    async def run() -> int:
        numbers = itertools.count()
        futures = []
        async with with_aiokafka.producing(
            bootstrap, enable_idempotence=True, linger_ms=1, retry_backoff_ms=20
        ) as producer:
            while not enough.is_set():
                futures += [
                    await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                    for number in itertools.islice(numbers, AT_A_TIME)
                ]
                await asyncio.to_thread(enough.wait, PAUSE_S)
            await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
        return next(numbers)

    return asyncio.run(run())


PRODUCERS = {"librdkafka": _librdkafka, "kafka-python": _kafka_python, "aiokafka": _aiokafka}


def test_producers_that_send_while_their_broker_restarts_lose_double_and_disorder_nothing(
    restarted: LocalCluster, make_topic_restarted: MakeTopic, end: Callable[[], object]
) -> None:
    # All at once: a restart takes seconds, the producers do not mind each other.
    topics = {name: make_topic_restarted(partitions=PARTITIONS) for name in PRODUCERS}
    watching = with_librdkafka.consumer_of(restarted.bootstrap)

    def written(name: str) -> int:
        try:
            ends = watching.get_watermark_offsets(TopicPartition(topics[name], 0), timeout=DEADLINE_S)
        except KafkaException:  # the broker is not there yet
            return 0
        return int(ends[1]) if ends is not None else 0

    def until_more(name: str, than: int) -> None:
        until(lambda: written(name) > than, f"more messages of {name}")

    enough = threading.Event()
    with ThreadPoolExecutor(len(PRODUCERS)) as pool:
        sending = {
            name: pool.submit(produce, restarted.bootstrap, topics[name], enough) for name, produce in PRODUCERS.items()
        }
        try:
            for name in PRODUCERS:
                until_more(name, than=50)
            end()
            restarted.brokers[0].start()
            restarted.brokers[0].wait_ready()
            for name in PRODUCERS:
                until_more(name, than=0)
                until_more(name, than=written(name) + 50)
        finally:
            enough.set()
        sent = {name: future.result(2 * DEADLINE_S) for name, future in sending.items()}
    watching.close()
    for name, topic in topics.items():
        for partition in range(PARTITIONS):
            found = [int(m.value or b"") for m in read(Librdkafka(), restarted.bootstrap, topic, partition=partition)]
            assert found == list(range(partition, sent[name], PARTITIONS)), name


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_batches_carry_a_producer_id_when_and_only_when_they_should(
    bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic, idempotent: bool
) -> None:
    topic = make_topic()
    producer = with_librdkafka.producer_of(bootstrap, {"enable.idempotence": idempotent})
    with_librdkafka.deliver(producer, topic, [Sent(b"first")])
    with_librdkafka.deliver(producer, topic, [Sent(b"second"), Sent(b"third")])
    headers = [lying.header for lying in batches_on_disk(cluster, topic)]
    if not idempotent:
        assert all((h.producer_id, h.producer_epoch, h.base_sequence) == (-1, -1, -1) for h in headers)
        return
    assert len({h.producer_id for h in headers}) == 1
    assert headers[0].producer_id >= 0
    assert [h.base_sequence for h in headers] == [h.base_offset for h in headers]


def test_every_idempotent_producer_gets_an_id_of_its_own(
    bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for _ in range(5):
        producer = with_librdkafka.producer_of(bootstrap, {"enable.idempotence": True})
        with_librdkafka.deliver(producer, topic, [Sent(b"mine")])
    assert len({lying.header.producer_id for lying in batches_on_disk(cluster, topic)}) == 5
