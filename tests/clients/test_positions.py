"""Reading from anywhere: any offset, any time, past either end, and waiting at the end for what comes."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time

import aiokafka
import kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_classic.testing.waiting import until
from tests.clients import with_librdkafka
from tests.clients.conftest import PARTIES, MakeTopic
from tests.clients.parties import DEADLINE_S, Party, Refused, Sent, need_kcat, numbered, read, values
from tests.clients.with_aiokafka import consuming
from tests.clients.with_kafka_python import consumer_of
from tests.clients.with_librdkafka import Librdkafka, next_message

PATIENCE_MS = 25_000  # longer than all of a test takes: a consumer that is not woken fails by the deadline
ROUNDS = 5


def test_any_offset_can_be_read_from(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"segment.bytes": "4096"})
    sent = numbered(200, size=80)
    # Batches of many and of one, so that an offset falls inside a batch, on its start, and between segments.
    for part in (sent[:90], sent[90:91], sent[91:]):
        Librdkafka().produce(bootstrap, topic, part)
    starts = [0, 1, 45, 89, 90, 91, 199, 200]
    for start, found in zip(starts, party.read_from(bootstrap, topic, starts), strict=True):
        assert values(found) == values(sent[start:])
        assert [m.offset for m in found] == list(range(start, 200))


def test_an_offset_past_the_end_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Librdkafka().produce(bootstrap, topic, numbered(3))
    with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE|AUTO_OFFSET_RESET"):
        read(Librdkafka(), bootstrap, topic, 4)
    consumer = consumer_of(bootstrap)
    at = kafka.TopicPartition(topic, 0)
    consumer.assign([at])
    consumer.seek(at, 4)
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        until(lambda: consumer.poll(timeout_ms=500), "the error")
    consumer.close()


def test_a_consumer_seeks_back_and_forth(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Librdkafka().produce(bootstrap, topic, numbered(100))
    places = (70, 3, 99, 0, 50)
    consumer = with_librdkafka.consumer_of(bootstrap)
    deadline = time.monotonic() + DEADLINE_S
    consumer.assign([TopicPartition(topic, 0, 10)])
    assert next_message(consumer, deadline).offset() == 10
    for place in places:
        consumer.seek(TopicPartition(topic, 0, place))
        assert next_message(consumer, deadline).offset() == place
    consumer.close()

    async def run() -> list[int]:
        at = aiokafka.TopicPartition(topic, 0)
        async with consuming(bootstrap) as consumer:
            consumer.assign([at])
            found = []
            for place in places:
                consumer.seek(at, place)
                found.append((await asyncio.wait_for(consumer.getone(), DEADLINE_S)).offset)
            await consumer.seek_to_beginning(at)
            found.append((await asyncio.wait_for(consumer.getone(), DEADLINE_S)).offset)
            return found

    assert asyncio.run(run()) == [*places, 0]


def test_a_consumer_begins_at_either_end(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Librdkafka().produce(bootstrap, topic, numbered(10))
    consumer = consumer_of(bootstrap)
    at = kafka.TopicPartition(topic, 0)
    consumer.assign([at])
    consumer.seek_to_end(at)
    assert consumer.position(at) == 10
    consumer.seek_to_beginning(at)
    assert consumer.position(at) == 0
    assert consumer.beginning_offsets([at]) == {at: 0}
    assert consumer.end_offsets([at]) == {at: 10}
    consumer.close()
    low_level = with_librdkafka.consumer_of(bootstrap)
    assert low_level.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S) == (0, 10)
    low_level.close()


def test_a_time_leads_to_the_first_message_of_that_time_or_later(
    party: Party, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"segment.bytes": "2048"})
    first = int(time.time() * 1000) - 1_000_000
    times = [first + 100 * i for i in range(100)]
    sent = [Sent(b"%d" % t + b"." * 50, timestamp=t) for t in times]
    for at in range(0, 100, 7):
        Librdkafka().produce(bootstrap, topic, sent[at : at + 7])
    numbers = (0, 1, 6, 7, 50, 98, 99)
    assert party.offsets_at(bootstrap, topic, [times[n] for n in numbers]) == list(numbers)
    assert party.offsets_at(bootstrap, topic, [times[n] - 1 for n in numbers]) == list(numbers)
    assert party.offsets_at(bootstrap, topic, [times[-1] + 1]) in ([None], [100])


def test_a_time_is_found_inside_a_compressed_batch(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    first = int(time.time() * 1000) - 1_000_000
    Librdkafka().produce(bootstrap, topic, [Sent(b"m", timestamp=first + 10 * i) for i in range(50)], codec="lz4")
    assert party.offsets_at(bootstrap, topic, [first + 123]) == [13]


def test_kcat_reads_from_a_time(bootstrap: str, make_topic: MakeTopic) -> None:
    need_kcat()
    topic = make_topic()
    first = int(time.time() * 1000) - 1_000_000
    Librdkafka().produce(bootstrap, topic, [Sent(b"%d" % i, timestamp=first + i) for i in range(50)])
    command = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-o", f"s@{first + 40}", "-e", "-q"]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    assert done.stdout.split() == [b"%d" % i for i in range(40, 50)]


def test_a_waiting_librdkafka_gets_each_message_as_it_comes(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    settings = {"fetch.wait.max.ms": PATIENCE_MS, "enable.partition.eof": False}
    consumer = with_librdkafka.consumer_of(bootstrap, settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + DEADLINE_S
    for message in numbered(ROUNDS):
        Librdkafka().produce(bootstrap, topic, [message])
        assert next_message(consumer, deadline).value() == message.value
    consumer.close()


def test_a_waiting_kafka_python_gets_each_message_as_it_comes(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    consumer = consumer_of(bootstrap, fetch_max_wait_ms=PATIENCE_MS)
    at = kafka.TopicPartition(topic, 0)
    consumer.assign([at])
    consumer.seek(at, 0)
    deadline = time.monotonic() + DEADLINE_S
    for message in numbered(ROUNDS):
        consumer.poll(timeout_ms=1)  # a fetch is on its way before the message is
        Librdkafka().produce(bootstrap, topic, [message])
        found: list[bytes] = []
        while not found:
            assert time.monotonic() < deadline, "the waiting fetch was not woken"
            found = [record.value for record in consumer.poll(timeout_ms=1000).get(at, ())]
        assert found == [message.value]
    consumer.close()


def test_a_waiting_aiokafka_gets_each_message_as_it_comes(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sent = numbered(ROUNDS)

    async def run() -> None:
        at = aiokafka.TopicPartition(topic, 0)
        async with consuming(bootstrap, fetch_max_wait_ms=PATIENCE_MS) as consumer:
            consumer.assign([at])
            consumer.seek(at, 0)
            for message in sent:
                waiting = asyncio.create_task(consumer.getone())
                await asyncio.to_thread(Librdkafka().produce, bootstrap, topic, [message])
                assert (await asyncio.wait_for(waiting, DEADLINE_S)).value == message.value

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_a_waiting_kcat_gets_each_message_as_it_comes(bootstrap: str, make_topic: MakeTopic) -> None:
    need_kcat()
    topic = make_topic()
    command = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-c", str(ROUNDS), "-u", "-q"]
    command += ["-X", f"fetch.wait.max.ms={PATIENCE_MS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as reading:
        assert reading.stdout is not None
        timer = threading.Timer(DEADLINE_S, reading.kill)
        timer.start()
        for message in numbered(ROUNDS):
            Librdkafka().produce(bootstrap, topic, [message])
            assert reading.stdout.readline().rstrip(b"\n") == message.value
        assert reading.wait(DEADLINE_S) == 0
        timer.cancel()


def test_a_consumer_with_small_limits_still_gets_every_message(bootstrap: str, make_topic: MakeTopic) -> None:
    # The first batch is always sent whole, or a consumer with a limit below its size would stand still.
    topic = make_topic(partitions=3)
    for partition in range(3):
        Librdkafka().produce(bootstrap, topic, numbered(20, size=3000, partition=partition))
    consumer = consumer_of(bootstrap, max_partition_fetch_bytes=100, fetch_max_bytes=200)
    places = [kafka.TopicPartition(topic, partition) for partition in range(3)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, found.values())) < 60:
        assert time.monotonic() < deadline, found
        for at, records in consumer.poll(timeout_ms=1000).items():
            found[at.partition] += [record.offset for record in records]
    consumer.close()
    assert all(offsets == list(range(20)) for offsets in found.values())


def test_a_consumer_of_many_partitions_gets_all_of_them(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=50)
    PARTIES[0].produce(bootstrap, topic, [Sent(b"%d" % i, partition=i % 50) for i in range(500)])
    consumer = with_librdkafka.consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(50)])
    deadline = time.monotonic() + DEADLINE_S
    found: dict[int, list[int]] = {}
    ended = 0
    while ended < 50:
        message = next_message(consumer, deadline)
        if message is None:
            ended += 1
        else:
            found.setdefault(message.partition(), []).append(int(message.value()))
    consumer.close()
    assert found == {partition: list(range(partition, 500, 50)) for partition in range(50)}
