"""Classic topics: an offset is a byte position (P6), and clients of today read them all the same."""

from __future__ import annotations

import asyncio
import itertools
import random

import aiokafka
import kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients import with_librdkafka
from tests.clients.conftest import MakeTopic
from tests.clients.on_disk import Lying, batches_on_disk, partition_dir
from tests.clients.parties import CODECS, DEADLINE_S, Got, Party, Sent, numbered, read, values
from tests.clients.with_aiokafka import consuming
from tests.clients.with_kafka_python import consumer_of
from tests.clients.with_librdkafka import Librdkafka, deliver

CLASSIC = {"classic": "true", "segment.bytes": "4000", "flush.messages": "1"}
COUNT = 120
BATCH = 7


def _messages(partition: int) -> list[Sent]:
    """Bytes that no codec makes so small that they would all fit in one segment."""
    rng = random.Random(partition)
    return [Sent(b"%d " % i + rng.randbytes(130), b"%d" % i, partition=partition) for i in range(COUNT)]


def _end(bootstrap: str, topic: str, partition: int) -> int:
    consumer = with_librdkafka.consumer_of(bootstrap)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)[1])
    finally:
        consumer.close()


def _flushed(bootstrap: str, cluster: LocalCluster, topic: str, partition: int) -> list[Lying]:
    """The batches, once all of them are exposed: a classic topic shows nothing before its flush (P5)."""
    lying = batches_on_disk(cluster, topic, partition)
    end = lying[-1].header.next_offset
    until(lambda: _end(bootstrap, topic, partition) == end, "the flush of the last batch")
    return lying


_written: list[str] = []


@pytest.fixture
def written(bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic) -> str:
    """A classic topic whose partitions hold batches of several messages, each partition in another codec."""
    if not _written:
        topic = make_topic(partitions=len(CODECS), configs=CLASSIC)
        for partition, codec in enumerate(CODECS):
            producer = with_librdkafka.producer_of(
                bootstrap, {"compression.codec": codec, "batch.num.messages": BATCH, "linger.ms": 50}
            )
            deliver(producer, topic, _messages(partition))
            _flushed(bootstrap, cluster, topic, partition)
        _written.append(topic)
    return _written[0]


@pytest.mark.parametrize("codec", CODECS)
def test_an_offset_is_a_position_and_the_next_is_this_one_plus_the_length(
    written: str, cluster: LocalCluster, codec: str
) -> None:
    lying = batches_on_disk(cluster, written, CODECS.index(codec))
    assert lying[0].header.base_offset == 0
    assert all(batch.header.base_offset == batch.segment + batch.position for batch in lying)
    assert all(batch.header.next_offset == batch.header.base_offset + batch.header.size for batch in lying)
    for this, following in itertools.pairwise(lying):
        assert following.header.base_offset == this.header.base_offset + this.header.size
    assert len({batch.segment for batch in lying}) > 3
    assert max(batch.header.record_count for batch in lying) > 1
    assert not list(partition_dir(cluster, written, CODECS.index(codec)).glob("*.index"))


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_a_classic_topic_to_the_end_over_segment_borders(
    reader: Party, written: str, bootstrap: str, codec: str
) -> None:
    partition = CODECS.index(codec)
    found = read(reader, bootstrap, written, partition=partition)
    assert [(m.key, m.value) for m in found] == [(m.key, m.value) for m in _messages(partition)]
    assert all(this.offset < following.offset for this, following in itertools.pairwise(found))


def _places(found: list[Got], lying: list[Lying]) -> list[int]:
    """Numbers of messages after which to resume: the first, middle and last of a batch, and the last of a segment."""
    starts = {batch.header.base_offset for batch in lying}
    several = next(
        number
        for number, message in enumerate(found[BATCH:], BATCH)
        if message.offset in starts and found[number + 1].offset not in starts
    )
    last = next(number for number in range(several, COUNT) if found[number + 1].offset in starts)
    border = next(b.header.base_offset for a, b in itertools.pairwise(lying) if a.segment != b.segment)
    before_border = max(number for number, message in enumerate(found) if message.offset < border)
    return [several, several + 1, last, before_border, COUNT - 1]


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_resumes_from_the_offset_it_would_commit(
    reader: Party, written: str, bootstrap: str, cluster: LocalCluster, codec: str
) -> None:
    partition = CODECS.index(codec)
    whole = read(Librdkafka(), bootstrap, written, partition=partition)
    places = _places(whole, batches_on_disk(cluster, written, partition))
    starts = [whole[number].offset + 1 for number in places]
    for number, rest in zip(places, reader.read_from(bootstrap, written, starts, partition=partition), strict=True):
        assert rest == whole[number + 1 :], f"resumed after message {number}"


def test_after_any_message_at_all_the_rest_follows(written: str, bootstrap: str) -> None:
    whole = read(Librdkafka(), bootstrap, written)
    at = kafka.TopicPartition(written, 0)
    consumer = consumer_of(bootstrap)
    consumer.assign([at])
    for number in range(COUNT - 1):
        consumer.seek(at, whole[number].offset + 1)
        polled: list[int] = []
        while not polled:
            polled = [record.offset for record in consumer.poll(timeout_ms=1000, max_records=3).get(at, ())]
        assert polled == [m.offset for m in whole[number + 1 : number + 1 + len(polled)]]
    consumer.close()


def test_the_position_after_the_last_message_is_the_end_of_the_log(
    written: str, bootstrap: str, cluster: LocalCluster
) -> None:
    sizes = sum(path.stat().st_size for path in partition_dir(cluster, written).glob("*.log"))

    async def run() -> tuple[int, int]:
        at = aiokafka.TopicPartition(written, 0)
        async with consuming(bootstrap) as consumer:
            consumer.assign([at])
            consumer.seek(at, 0)
            end = (await consumer.end_offsets([at]))[at]
            while await consumer.position(at) < end:
                await consumer.getmany(at, timeout_ms=1000)
            return end, await consumer.position(at)

    assert asyncio.run(asyncio.wait_for(run(), DEADLINE_S)) == (sizes, sizes)


def test_any_client_may_produce_to_a_classic_topic_with_any_codec(
    party: Party, bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs=CLASSIC)
    sent = numbered(20, size=200)
    for codec in CODECS:
        party.produce(bootstrap, topic, sent, codec=codec)
    lying = _flushed(bootstrap, cluster, topic, 0)
    for this, following in itertools.pairwise(lying):
        assert following.header.base_offset == this.header.base_offset + this.header.size
    assert {batch.header.codec for batch in lying} == set(range(len(CODECS)))
    assert values(read(party, bootstrap, topic)) == values(sent) * len(CODECS)


def test_a_waiting_consumer_gets_a_message_once_it_is_flushed(bootstrap: str, make_topic: MakeTopic) -> None:
    # As the topic comes: many messages or a part of a second, whichever is first (P5).
    topic = make_topic(configs={"classic": "true"})
    consumer = consumer_of(bootstrap, fetch_max_wait_ms=25_000)
    at = kafka.TopicPartition(topic, 0)
    consumer.assign([at])
    consumer.seek(at, 0)
    for message in numbered(3):
        Librdkafka().produce(bootstrap, topic, [message])
        found = until(lambda: consumer.poll(timeout_ms=1000).get(at), "the message")
        assert [record.value for record in found] == [message.value]
    consumer.close()


def test_a_time_leads_into_a_classic_topic(reader: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs=CLASSIC)
    first = 1_700_000_000_000
    Librdkafka().produce(bootstrap, topic, [Sent(b"." * 100, timestamp=first + i) for i in range(60)])
    whole = until(
        lambda: [f for f in [read(Librdkafka(), bootstrap, topic)] if len(f) == 60], "the flush of all messages"
    )[0]
    assert reader.offsets_at(bootstrap, topic, [first + 31, first - 5]) == [whole[31].offset, whole[0].offset]
