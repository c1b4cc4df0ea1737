"""One connection's requests: in order, whole, and untouched by what others do in the same turn of the loop."""

from __future__ import annotations

import random

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from tests.broker.calls import create_topics, new_topic
from tests.broker.raw import Raw, batch, fetch, fetch_frame, fetched, produce, produce_frame, produced


@pytest.fixture
def address(kafka_cluster: LocalCluster) -> str:
    return kafka_cluster.brokers[0].address


def values(raw: Raw, topic: str, since: int = 0) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = since
    while True:
        error, high_watermark, records = fetch(raw, topic, at)
        assert error == 0
        if at >= high_watermark:
            return found
        for record in decode_records(records):
            found.append(record.value)
            at = record.offset + 1


def test_a_fetch_that_is_woken_in_the_middle_of_anothers_requests_disturbs_neither(
    address: str, kafka_topic: str
) -> None:
    """The woken connection has requests of its own waiting: both use the one receive buffer."""
    rng = random.Random(3)
    for _ in range(20):
        with Raw(address) as waiting, Raw(address) as busy:
            _, end, _ = fetch(busy, kafka_topic, 0)
            behind = [b"behind %d " % n + rng.randbytes(100).hex().encode() for n in range(20)]
            waiting.send(
                fetch_frame(kafka_topic, end, max_wait_ms=60_000)
                + b"".join(produce_frame(kafka_topic, batch(value)) for value in behind)
            )
            produce(busy, "unknown-" + kafka_topic, batch(b"the broker has read the above by now"))
            mine = [b"mine %d " % n + rng.randbytes(100).hex().encode() for n in range(50)]
            # The fetch behind the first produce ends the turn while the other 49 stand in the buffer.
            busy.send(
                produce_frame(kafka_topic, batch(mine[0]))
                + fetch_frame(kafka_topic, 0, partition_max_bytes=1)
                + b"".join(produce_frame(kafka_topic, batch(value)) for value in mine[1:])
            )
            assert produced(busy, kafka_topic)[0] == 0
            assert fetched(busy, kafka_topic)[0] == 0
            for _ in mine[1:]:
                assert produced(busy, kafka_topic)[0] == 0
            assert fetched(waiting, kafka_topic)[0] == 0
            for _ in behind:
                assert produced(waiting, kafka_topic)[0] == 0
            with Raw(address) as reader:
                written = values(reader, kafka_topic, end)
            assert [v for v in written if v and v.startswith(b"mine")] == mine
            assert [v for v in written if v and v.startswith(b"behind")] == behind


def test_answers_come_in_the_order_of_the_requests(address: str, kafka_topic: str) -> None:
    with Raw(address) as raw:
        frames = b""
        for number in range(300):
            if number % 3 == 0:
                frames += produce_frame(kafka_topic, batch(b"v"), correlation_id=number)
            elif number % 3 == 1:
                frames += fetch_frame(kafka_topic, 0, correlation_id=number, partition_max_bytes=100)
            else:
                frames += produce_frame("no-such-" + kafka_topic, batch(b"v"), correlation_id=number)
        raw.send(frames)
        for number in range(300):
            assert int.from_bytes(raw.frame()[:4], "big") == number


@pytest.mark.parametrize("size", [65_400, 65_536, 131_072, 262_000, 262_144, 300_000, 999_000])
def test_requests_of_any_size_are_read_whole_around_the_buffers_edges(
    address: str, kafka_topic: str, size: int
) -> None:
    with Raw(address) as raw:
        sent = []
        for number in range(6):
            sent += [b"small %d" % number, (b"%d " % number) * (size // 2)]
            raw.send(produce_frame(kafka_topic, batch(sent[-2])) + produce_frame(kafka_topic, batch(sent[-1])))
        for _ in sent:
            assert produced(raw, kafka_topic)[0] == 0
        assert values(raw, kafka_topic) == sent


def test_a_connection_that_writes_many_partitions_in_turn_mixes_none_up(address: str, kafka_topic: str) -> None:
    from kafka_classic.client.admin import create_partitions
    from kafka_classic.client.cluster import Cluster

    with Cluster(address) as cluster:
        create_partitions(cluster, {kafka_topic: 12})
    with Raw(address) as raw:
        for round_ in range(5):
            raw.send(
                b"".join(produce_frame(kafka_topic, batch(b"%d %d" % (p, round_)), partition=p) for p in range(14))
            )
            for partition in range(14):
                error, offset = produced(raw, kafka_topic)
                if partition < 12:
                    assert (error, offset) == (0, round_)
                else:
                    assert Error(error) is Error.unknown_topic_or_partition
        for partition in range(12):
            _, _, records = fetch(raw, kafka_topic, 0, partition=partition)
            assert [r.value for r in decode_records(records)] == [b"%d %d" % (partition, n) for n in range(5)]


def test_many_classic_partitions_are_flushed_at_once_without_stopping_the_loop(address: str, kafka_topic: str) -> None:
    from kafka_classic.client.admin import NewTopic, create_topics
    from kafka_classic.client.cluster import Cluster

    name = kafka_topic + "-classic"
    with Cluster(address) as cluster:
        create_topics(cluster, [NewTopic(name, partitions=60, configs={"classic": "true", "flush.messages": "1"})])
    with Raw(address) as raw, Raw(address) as reader:
        for _ in range(3):
            raw.send(b"".join(produce_frame(name, batch(b"x"), partition=p) for p in range(60)))
            for _ in range(60):
                assert produced(raw, name)[0] == 0
        for partition in range(60):
            at = 0
            while at < 3 * len(batch(b"x")):  # each is exposed once it is flushed (P5)
                error, at, _ = fetch(reader, name, at, partition=partition, max_wait_ms=60_000)
                assert error == 0


def test_a_name_that_differs_only_in_dot_and_underscore_is_refused(address: str, kafka_topic: str) -> None:
    with Raw(address) as raw:
        made = create_topics(raw, new_topic(kafka_topic + ".a"), new_topic(kafka_topic + "_a"))
        assert [row.error_code for row in made] == [Error.none, Error.invalid_topic_exception]
