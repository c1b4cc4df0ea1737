"""A fetcher delivers every record of every partition in order, whatever happens to their leaders."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.simple import consume, fetch
from kafka_classic.records.batch import iter_batches
from kafka_classic.records.encode import encode_batch
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import fetched, metadata
from tests.client.scripted import Hangup, Request, ScriptedBroker

LONG = 30.0
QUICK = Backoff(first=0.001, longest=0.01)
LIMITS = FetchLimits(max_wait_ms=20)


def batch(base: int, count: int = 10) -> bytes:
    return encode_batch([(None, b"value %d" % i, (), 1000) for i in range(base, base + count)], base_offset=base)


class Leader:
    """Serves a log of batches of ten records; waits as long as asked for when there is nothing."""

    def __init__(self, batches: int = 10) -> None:
        self.batches = [batch(10 * i) for i in range(batches)]
        self.quiet = threading.Event()

    def __call__(self, request: Request) -> object:
        answers: dict[tuple[str, int], tuple[Error, int, bytes]] = {}
        for topic in request.body.topics:
            for one in topic.partitions:
                answers[str(topic.topic), int(one.partition)] = self.read(int(one.fetch_offset))
        if not any(records for _, _, records in answers.values()):
            self.quiet.wait(request.body.max_wait.total_seconds())
        return fetched(answers)

    def read(self, offset: int) -> tuple[Error, int, bytes]:
        end = 10 * len(self.batches)
        if not 0 <= offset <= end:
            return Error.offset_out_of_range, end, b""
        # Two batches, and a part of a third, as a limit in bytes cuts it.
        first = offset // 10
        part = b"".join(self.batches[first + 2 : first + 3])[:40]
        return Error.none, end, b"".join(self.batches[first : first + 2]) + part


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def broker(leader: Leader) -> Iterator[ScriptedBroker]:
    with ScriptedBroker({Api.FETCH: leader}) as scripted:
        scripted.handlers[Api.METADATA] = lambda _: metadata({0: scripted.port}, {"t": [0, 0, 0]})
        yield scripted
        leader.quiet.set()


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[Cluster]:
    with Cluster(broker.address, backoff=QUICK) as made:
        yield made


def test_all_partitions_are_read_to_their_ends_in_order(cluster: Cluster) -> None:
    until = {("t", 0): 100, ("t", 1): 57, ("t", 2): 0}
    found: dict[int, list[int]] = {}
    for one in consume(cluster, {("t", 0): 0, ("t", 1): 23, ("t", 2): 0}, until=until, limits=LIMITS):
        assert one.record.value == b"value %d" % one.record.offset
        found.setdefault(one.partition, []).append(one.record.offset)
    assert found == {0: list(range(100)), 1: list(range(23, 57))}


def test_reading_ends_after_a_count(cluster: Cluster) -> None:
    found = list(consume(cluster, {("t", 0): 5}, count=17, limits=LIMITS))
    assert [one.record.offset for one in found] == list(range(5, 22))
    assert list(consume(cluster, {("t", 0): 5}, count=0)) == []


def test_reading_ends_when_nothing_comes_for_a_while(cluster: Cluster) -> None:
    found = list(consume(cluster, {("t", 0): 90}, idle=0.2, limits=LIMITS))
    assert [one.record.offset for one in found] == list(range(90, 100))


def test_nothing_to_read_is_no_thread_and_no_request(cluster: Cluster, broker: ScriptedBroker) -> None:
    assert list(consume(cluster, {("t", 0): 7}, until={("t", 0): 7})) == []
    assert broker.count(Api.FETCH) == 0


def test_new_records_are_delivered_as_they_come(cluster: Cluster, leader: Leader) -> None:
    stream = consume(cluster, {("t", 0): 95}, limits=FetchLimits(max_wait_ms=5))
    try:
        assert [next(stream).record.offset for _ in range(5)] == list(range(95, 100))
        leader.batches.append(batch(100))
        assert [next(stream).record.offset for _ in range(10)] == list(range(100, 110))
    finally:
        stream.close()  # type: ignore[attr-defined]


def test_closing_ends_a_long_poll_at_once(cluster: Cluster, broker: ScriptedBroker) -> None:
    arrived = threading.Event()

    def silent(request: Request) -> None:
        arrived.set()

    broker.handlers[Api.FETCH] = silent
    with Fetcher(cluster, {("t", 0): 0}, FetchLimits(max_wait_ms=600_000)) as fetcher:
        assert arrived.wait(LONG)
        assert fetcher.next(0.0) is None
        assert _fetching_threads() == {"leader-finder", "fetch-from-0"}
    assert _fetching_threads() == set()


def _fetching_threads() -> set[str]:
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith(("leader-finder", "fetch-from-"))}


def test_partitions_follow_their_leader(cluster: Cluster, broker: ScriptedBroker, leader: Leader) -> None:
    moved = threading.Event()

    def first(request: Request) -> object:
        if broker.count(Api.FETCH) > 2:
            moved.set()
            return fetched({("t", 0): (Error.not_leader_or_follower, -1, b"")})
        return leader(request)

    with ScriptedBroker({Api.FETCH: leader}) as other:
        ports = {0: broker.port, 1: other.port}
        for one in (broker, other):
            one.handlers[Api.METADATA] = lambda _: metadata(ports, {"t": [1 if moved.is_set() else 0]})
        broker.handlers[Api.FETCH] = first
        found = list(consume(cluster, {("t", 0): 0}, until={("t", 0): 100}, limits=LIMITS))
        assert [one.record.offset for one in found] == list(range(100))
        assert other.count(Api.FETCH) > 0


def test_a_lost_connection_costs_no_record(cluster: Cluster, broker: ScriptedBroker, leader: Leader) -> None:
    def flaky(request: Request) -> object:
        if broker.count(Api.FETCH) % 2:
            raise Hangup
        return leader(request)

    broker.handlers[Api.FETCH] = flaky
    found = list(consume(cluster, {("t", 0): 0, ("t", 1): 50}, until={("t", 0): 100, ("t", 1): 100}, limits=LIMITS))
    assert sorted((one.partition, one.record.offset) for one in found) == [
        *((0, offset) for offset in range(100)),
        *((1, offset) for offset in range(50, 100)),
    ]


def test_an_offset_that_is_not_in_the_log_is_reported_with_what_to_do(cluster: Cluster) -> None:
    with pytest.raises(KafkaError, match="offset 5000 is not in the log, which begins at 0: read from the beginning"):
        list(consume(cluster, {("t", 0): 5000}, limits=LIMITS))


def test_an_offset_that_is_not_in_the_log_may_be_replaced(cluster: Cluster) -> None:
    found = list(
        consume(
            cluster, {("t", 0): 5000}, count=1, limits=LIMITS, out_of_range=lambda _topic, _partition, _at, start: start
        )
    )
    assert found[0].record.offset == 0


def test_a_damaged_record_is_never_delivered(cluster: Cluster, leader: Leader) -> None:
    damaged = bytearray(leader.batches[5])
    damaged[-3] ^= 1
    leader.batches[5] = bytes(damaged)
    stream = consume(cluster, {("t", 0): 0}, limits=LIMITS)
    assert [next(stream).record.offset for _ in range(50)] == list(range(50))
    with pytest.raises(KafkaError, match="partition 0 of 't': the records from offset") as raised:
        next(stream)
    assert raised.value.code == Error.corrupt_message


def test_an_error_that_will_not_pass_ends_the_reading(cluster: Cluster, broker: ScriptedBroker) -> None:
    broker.handlers[Api.FETCH] = lambda _: fetched({("t", 0): (Error.topic_authorization_failed, -1, b"")})
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        list(consume(cluster, {("t", 0): 0}))


def test_a_topic_that_is_not_there_ends_the_reading(cluster: Cluster, broker: ScriptedBroker) -> None:
    broker.handlers[Api.METADATA] = lambda _: metadata(
        {0: broker.port}, errors={"nope": Error.unknown_topic_or_partition}
    )
    with pytest.raises(KafkaError, match="there is no topic 'nope'"):
        list(consume(cluster, {("nope", 0): 0}))


def test_one_fetch_returns_the_records_from_an_offset_and_where_to_go_on(cluster: Cluster) -> None:
    result = fetch(cluster, "t", 0, 43)
    assert [record.offset for record in result.records] == list(range(43, 60))
    assert (result.next_offset, result.high_watermark, result.log_start_offset) == (60, 100, 0)


def test_p7_pulls_keep_a_buffer_ready_and_a_slow_reader_bounds_it(
    cluster: Cluster, broker: ScriptedBroker, leader: Leader
) -> None:
    leader.batches = [batch(10 * i) for i in range(200)]
    stream = consume(cluster, {("t", 0): 0}, limits=LIMITS)
    try:
        next(stream)
        done = threading.Event()
        while broker.count(Api.FETCH) < 2:  # while the application works on the first message, more is fetched
            done.wait(0.01)
        # The fetching thread stops when its queue is full: wait until two looks in a row see the same count.
        seen = -1
        while seen != broker.count(Api.FETCH):
            seen = broker.count(Api.FETCH)
            done.wait(0.2)
        assert seen < 20
    finally:
        stream.close()  # type: ignore[attr-defined]


def test_the_batches_of_this_test_are_sound() -> None:
    assert [header.next_offset for _, header in iter_batches(batch(0) + batch(10))] == [10, 20]
