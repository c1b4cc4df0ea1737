"""Partitions come to a running fetcher and leave it, their offsets are found for them, and no trouble ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import fetched, listed, metadata
from tests.client.scripted import Request, ScriptedBroker

LONG = 60.0
QUICK = Backoff(first=0.001, longest=0.01)
LIMITS = FetchLimits(max_wait_ms=20)


def batch(base: int, count: int = 10) -> bytes:
    return encode_batch([(None, b"value %d" % i, (), 1000) for i in range(base, base + count)], base_offset=base)


class Endless:
    """Serves every partition of every topic without an end, ten records a batch; a quiet one has nothing."""

    def __init__(self) -> None:
        self.quiet: set[tuple[str, int]] = set()
        self.errors: dict[str, Error] = {}
        self.ends = threading.Event()

    def __call__(self, request: Request) -> object:
        answers: dict[tuple[str, int], tuple[Error, int, bytes]] = {}
        for topic in request.body.topics:
            for one in topic.partitions:
                at = str(topic.topic), int(one.partition)
                error = self.errors.get(at[0], Error.none)
                empty = error or at in self.quiet
                answers[at] = error, 10**9, b"" if empty else batch(int(one.fetch_offset) // 10 * 10)
        if not any(error or records for error, _, records in answers.values()):
            self.ends.wait(request.body.max_wait.total_seconds())
        return fetched(answers)


@pytest.fixture
def leader() -> Endless:
    return Endless()


@pytest.fixture
def broker(leader: Endless) -> Iterator[ScriptedBroker]:
    with ScriptedBroker({Api.FETCH: leader}) as scripted:
        scripted.handlers[Api.METADATA] = lambda _: metadata({0: scripted.port}, {"t": [0] * 1000, "u": [0]})
        scripted.handlers[Api.LIST_OFFSETS] = lambda request: listed(
            {
                (str(topic.name), int(one.partition_index)): (Error.none, 500 if one.timestamp == LATEST else 20)
                for topic in request.body.topics
                for one in topic.partitions
            }
        )
        yield scripted
        leader.ends.set()


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[Cluster]:
    with Cluster(broker.address, backoff=QUICK) as made:
        yield made


def take(fetcher: Fetcher) -> Chunk:
    chunk = fetcher.next(LONG)
    assert chunk is not None
    return chunk


def test_a_partition_that_comes_while_others_are_read_is_read_too(cluster: Cluster) -> None:
    with Fetcher(cluster, {("t", 0): 0}, LIMITS) as fetcher:
        assert take(fetcher).partition == 0
        fetcher.add({("t", 1): 70})
        while (chunk := take(fetcher)).partition != 1:
            pass
        assert (chunk.offset, chunk.next_offset) == (70, 80)


def test_a_stopped_partition_brings_nothing_more_not_even_out_of_a_long_poll(
    cluster: Cluster, broker: ScriptedBroker, leader: Endless
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def held_up(request: Request) -> object:
        asked.set()
        answer.wait(LONG)
        return leader(request)

    broker.handlers[Api.FETCH] = held_up
    with Fetcher(cluster, {("t", 0): 0}, FetchLimits(max_wait_ms=600_000)) as fetcher:
        assert asked.wait(LONG)
        fetcher.stop([("t", 0)])  # returns while the broker still waits
        fetcher.add({("t", 0): 500})
        answer.set()
        assert [take(fetcher).offset for _ in range(3)] == [500, 510, 520]


def test_what_was_fetched_of_a_partition_before_its_stop_is_not_handed_on(
    cluster: Cluster, broker: ScriptedBroker
) -> None:
    with Fetcher(cluster, {("t", 0): 0, ("t", 1): 0}, LIMITS) as fetcher:
        assert take(fetcher)
        until(lambda: broker.count(Api.FETCH) >= 3)
        fetcher.stop([("t", 0)])
        assert {take(fetcher).partition for _ in range(10)} == {1}


def test_a_full_partition_holds_up_no_other(cluster: Cluster, broker: ScriptedBroker) -> None:
    chunks: list[Chunk] = []
    got: dict[int, int] = {0: 0, 1: 0}

    def sink(chunk: Chunk) -> None:
        got[chunk.partition] += 1
        if chunk.partition == 1:
            chunks.append(chunk)

    with Fetcher(cluster, {("t", 0): 0, ("t", 1): 0}, LIMITS, sink=sink, chunks=2) as fetcher:
        taken = 0
        while taken < 50:
            until(lambda: bool(chunks))
            fetcher.taken(chunks.pop(0))
            taken += 1
        assert got[0] == 2  # nobody took them


def test_room_in_a_full_partition_is_filled_while_the_others_are_quiet(
    cluster: Cluster, broker: ScriptedBroker, leader: Endless
) -> None:
    chunks: list[Chunk] = []
    leader.quiet.add(("t", 1))
    # A poll for the quiet one alone would wait for ever.
    with Fetcher(
        cluster, {("t", 0): 0, ("t", 1): 0}, FetchLimits(max_wait_ms=600_000), sink=chunks.append, chunks=1
    ) as fetcher:
        for _ in range(20):
            until(lambda: bool(chunks))
            fetcher.taken(chunks.pop())


def test_a_thousand_partitions_are_found_and_placed_by_a_handful_of_requests(
    cluster: Cluster, broker: ScriptedBroker
) -> None:
    chunks: list[Chunk] = []
    wanted = {("t", index): EARLIEST if index % 2 else LATEST for index in range(1000)}
    with Fetcher(cluster, wanted, LIMITS, sink=chunks.append):
        until(lambda: len([chunk for chunk in chunks if chunk.batches]) >= 1000)
    assert broker.count(Api.LIST_OFFSETS) == 1
    assert broker.count(Api.METADATA) <= 3
    placed = {chunk.partition: chunk.next_offset for chunk in chunks if not chunk.batches}
    assert placed == {index: 20 if index % 2 else 500 for index in range(1000)}
    first = {chunk.partition: chunk.offset for chunk in reversed(chunks) if chunk.batches}
    assert first == placed


def test_offsets_are_asked_for_until_they_are_told(cluster: Cluster, broker: ScriptedBroker) -> None:
    tells = broker.handlers[Api.LIST_OFFSETS]
    settled = threading.Event()

    def reluctant(request: Request) -> object:
        if broker.count(Api.LIST_OFFSETS) < 4:
            return listed({("t", 0): (Error.not_leader_or_follower, -1)})
        return tells(request)

    broker.handlers[Api.LIST_OFFSETS] = reluctant
    with Fetcher(cluster, {("t", 0): LATEST}, LIMITS, lasting=True, settled=settled.set) as fetcher:
        assert take(fetcher)[2:4] == (500, 500)
        assert take(fetcher)[2:4] == (500, 510)
        assert settled.is_set()


def test_a_deleted_topic_is_said_once_and_the_others_go_on_until_it_is_back(
    cluster: Cluster, broker: ScriptedBroker, leader: Endless, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka_classic.client")
    there = broker.handlers[Api.METADATA]

    def deleted(_: Request) -> object:
        return metadata({0: broker.port}, {"t": [0] * 1000}, errors={"u": Error.unknown_topic_or_partition})

    with Fetcher(cluster, {("t", 0): 0, ("u", 0): 0}, LIMITS, lasting=True) as fetcher:
        while take(fetcher).topic != "u":
            pass
        broker.handlers[Api.METADATA], leader.errors["u"] = deleted, Error.unknown_topic_or_partition
        asked = broker.count(Api.METADATA)
        while broker.count(Api.METADATA) < asked + 20:
            take(fetcher)
        said = [record.message for record in caplog.records]
        assert sum("UNKNOWN_TOPIC_OR_PARTITION" in line for line in said) == 1, said
        broker.handlers[Api.METADATA] = there
        del leader.errors["u"]
        fetcher.stop([("t", 0)])
        while take(fetcher).topic != "u":
            pass
        until(lambda: any("'u' is read again" in record.message for record in caplog.records))


def test_a_broker_that_is_away_is_said_once_and_asked_until_it_is_back(
    leader: Endless, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka_classic.client")
    with ScriptedBroker({Api.FETCH: leader}) as broker:
        handlers, port = broker.handlers, broker.port
        handlers[Api.METADATA] = lambda _: metadata({0: port}, {"t": [0]})
        cluster = Cluster(broker.address, backoff=QUICK)
        fetcher = Fetcher(cluster, {("t", 0): 0}, LIMITS, lasting=True)
        offset = take(fetcher).next_offset
    while (chunk := fetcher.next(1.0)) is not None:  # what was fetched before
        assert chunk.offset == offset
        offset = chunk.next_offset
    with ScriptedBroker(handlers, port), cluster, fetcher:
        assert take(fetcher).offset == offset
        away = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
        assert 1 <= len(away) <= 2, away  # the broker, and that nobody tells who leads now


def test_bytes_that_are_no_batch_come_as_damage_after_the_batches_before_them(
    cluster: Cluster, broker: ScriptedBroker
) -> None:
    wrong = bytearray(batch(10))
    wrong[16] = 77  # its magic
    broker.handlers[Api.FETCH] = lambda _: fetched({("t", 0): (Error.none, 100, batch(0) + bytes(wrong))})
    with Fetcher(cluster, {("t", 0): 0}, LIMITS) as fetcher:
        records = take(fetcher).records()
        assert [next(records).offset for _ in range(10)] == list(range(10))
        with pytest.raises(KafkaError, match="partition 0 of 't': the records from offset 10 on are damaged"):
            next(records)


def test_a_part_of_a_batch_is_waited_for_unless_it_comes_first(cluster: Cluster, broker: ScriptedBroker) -> None:
    seen: list[list[int]] = []

    def cutting(request: Request) -> object:
        order = [int(one.partition) for topic in request.body.topics for one in topic.partitions]
        seen.append(order)
        # As Kafka does since KIP-74: whole for the first, cut for the others.
        return fetched(
            {("t", index): (Error.none, 10**9, batch(0) if index == order[0] else batch(0)[:50]) for index in order}
        )

    broker.handlers[Api.FETCH] = cutting
    with Fetcher(cluster, {("t", index): 0 for index in range(3)}, LIMITS) as fetcher:
        assert {take(fetcher).partition for _ in range(3)} == {0, 1, 2}
    broker.handlers[Api.FETCH] = lambda _: fetched({("t", 0): (Error.none, 10**9, batch(0)[:50])})
    with (
        Fetcher(cluster, {("t", 0): 0}, LIMITS) as fetcher,
        pytest.raises(KafkaError, match="no whole batch at offset 0: raise the largest size"),
    ):
        fetcher.next(LONG)
