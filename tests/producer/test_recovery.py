"""A leader that fails in every way it can: nothing twice, nothing out of order, nothing acknowledged is missing."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_classic import Producer
from kafka_classic.client.errors import RequestTimedOut
from kafka_classic.producer import DeliveryTimedOut, RecordFuture
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import metadata
from tests.client.scripted import Request
from tests.producer.scripted import FAULTS, TOPIC, Log, answer, batch_of, leader, write

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}
IMPATIENT = {**QUICK, "request_timeout_ms": 150, "delivery_timeout_ms": 200}
COUNT = 60


@pytest.fixture
def log() -> Log:
    return Log()


def send(producer: Producer, count: int = COUNT, first: int = 0) -> list[RecordFuture]:
    """Messages that are a batch each."""
    return [producer.send(TOPIC, b"%d" % i) for i in range(first, first + count)]


def numbers(log: Log) -> list[int]:
    return [int(value) for value in log.values if value is not None]


@pytest.mark.parametrize("in_flight", [1, 5])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_failure_loses_doubles_and_reorders_nothing(fault: str, in_flight: int, log: Log) -> None:
    came = iter(range(COUNT * 10))

    def script(request: Request) -> Any:
        return FAULTS[fault](log, request) if next(came) in (0, 7, 8) else write(log, request)

    settings = {**QUICK, "batch_size": 0, "max_in_flight_requests_per_connection": in_flight}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        futures = send(producer)
        producer.flush(30)
        assert [future.result(0).offset for future in futures] == list(range(COUNT))
    assert numbers(log) == list(range(COUNT))


@pytest.mark.parametrize("seed", range(6))
def test_any_failures_lose_double_and_reorder_nothing(seed: int, log: Log) -> None:
    rng = random.Random(seed)
    names = list(FAULTS)

    def script(request: Request) -> Any:
        return FAULTS[rng.choice(names)](log, request) if rng.random() < 0.4 else write(log, request)

    settings = {**QUICK, "batch_size": rng.choice([0, 100])}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        futures = send(producer)
        producer.flush(60)
        assert [future.result(0).offset for future in futures] == list(range(COUNT))
    assert numbers(log) == list(range(COUNT))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_given_up_blocks_nothing_behind_it(seed: int, log: Log) -> None:
    """Some batches are never answered, written or not, until their time is up."""
    rng = random.Random(seed)
    silent = threading.Event()

    def script(request: Request) -> Any:
        if silent.is_set() and rng.random() < 0.5:
            if rng.random() < 0.5:
                log.append(batch_of(request))
            return None
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address, {**IMPATIENT, "batch_size": 0}) as producer:
        futures = send(producer, 5)
        producer.flush(30)
        silent.set()
        futures += send(producer, 20, 5)
        producer.flush(30)
        silent.clear()
        # What is sent behind a request that was not answered may be given up with it; then the way is free.
        while futures[-1].exception(30) is not None or len(futures) < 30:
            futures += send(producer, 1, len(futures))
    found = numbers(log)
    assert found == sorted(set(found))
    acknowledged = {i for i, future in enumerate(futures) if future.exception(0) is None}
    assert acknowledged <= set(found)
    assert all(isinstance(error, DeliveryTimedOut) for error in (f.exception(0) for f in futures) if error)


def test_what_was_given_up_is_fenced_when_it_comes_late(log: Log) -> None:
    held: list[bytes] = []

    def script(request: Request) -> Any:
        if numbers(log) == [0] and not held:
            held.append(batch_of(request))
            return None
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address, IMPATIENT) as producer:
        assert producer.send(TOPIC, b"0").result(30).offset == 0
        given_up = producer.send(TOPIC, b"1")
        # Sent once, and its answer not waited for again: its connection was lost with it.
        assert isinstance(given_up.exception(30), DeliveryTimedOut) or numbers(log) == [0, 1]
        producer.send(TOPIC, b"2").result(30)
        late = log.append(held[0])
    if given_up.exception(0) is not None:
        assert late[0] is Error.invalid_producer_epoch
    assert numbers(log) in ([0, 2], [0, 1, 2])


def test_a_batch_that_is_refused_leaves_no_gap(log: Log) -> None:
    def script(request: Request) -> Any:
        if b"too large" in batch_of(request):
            return answer(Error.message_too_large, -1)
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address, {**QUICK, "batch_size": 0}) as producer:
        futures = [producer.send(TOPIC, b"too large" if i % 5 == 3 else b"%d" % i) for i in range(COUNT)]
        producer.flush(30)
    assert numbers(log) == [i for i in range(COUNT) if i % 5 != 3]
    for i, future in enumerate(futures):
        error = future.exception(0)
        assert (error is None) == (i % 5 != 3)
        assert error is None or (isinstance(error, KafkaError) and error.code is Error.message_too_large)
    assert max(log.epochs) > 0


def test_a_leader_that_forgot_the_producer_is_told_under_a_new_epoch(log: Log) -> None:
    refusals = iter([Error.unknown_producer_id])

    def script(request: Request) -> Any:
        refusal = next(refusals, None) if log.values else None
        return answer(refusal, -1) if refusal else write(log, request)

    with leader(log, script) as broker, Producer(broker.address, QUICK) as producer:
        assert [producer.send(TOPIC, b"%d" % i).result(30).offset for i in range(2)] == [0, 1]
    assert (numbers(log), log.epochs) == ([0, 1], [0, 1])


def test_when_the_epochs_are_used_up_another_producer_id_is_asked_for(log: Log) -> None:
    refusals = iter([Error.unknown_producer_id])

    def script(request: Request) -> Any:
        refusal = next(refusals, None) if log.values else None
        return answer(refusal, -1) if refusal else write(log, request)

    with leader(log, script) as broker, Producer(broker.address, QUICK) as producer:
        producer.send(TOPIC, b"0").result(30)
        (lane,) = producer._sender.lanes.values()
        assert lane.producer is not None
        lane.producer = lane.producer._replace(epoch=2**15 - 1)
        asked = broker.count(Api.INIT_PRODUCER_ID)
        log.state.producers.clear()
        producer.send(TOPIC, b"1").result(30)
        assert broker.count(Api.INIT_PRODUCER_ID) == asked + 1
    assert numbers(log) == [0, 1]


def test_nothing_goes_without_a_number_when_the_epochs_are_used_up_by_what_expired(log: Log) -> None:
    """The batch behind it stands in its link's row by then, which asks for no producer id."""
    with leader(log) as broker, Producer(broker.address, QUICK) as producer:
        producer.send(TOPIC, b"0").result(30)
        sender = producer._sender
        (lane,) = sender.lanes.values()
        log.state.producers.clear()
        with sender.lock:
            assert lane.producer is not None
            lane.producer = lane.producer._replace(epoch=2**15 - 1)
            lane.gap = True
            batch = sender._gathering.new_batch(lane, [(None, b"1", (), 0)], 30)
            assert sender.memory.take(batch.size)
            sender._delivery.enqueue(batch)
            sender._delivery._recovery.expire(lane, sender._clock())
            sender._delivery.pump(lane.link)
        assert batch.wait(sender._clock() + 30)
    assert (numbers(log), log.epochs) == ([0, 1], [0, 0])


def test_until_a_leader_knows_the_producer_one_batch_is_in_flight(log: Log) -> None:
    """A leader takes any number as the first of a producer: the second batch must not be it."""
    first_came, go = threading.Event(), threading.Event()

    def script(request: Request) -> Any:
        first_came.set()
        assert go.wait(30)
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address, {**QUICK, "batch_size": 0}) as producer:
        futures = send(producer, 10)
        assert first_came.wait(30)
        with producer._sender.lock:
            (lane,) = producer._sender.lanes.values()
            assert (lane.in_flight, lane.proven) == (1, False)
        go.set()
        assert [future.result(30).offset for future in futures] == list(range(10))
        assert lane.proven


def test_no_more_requests_are_in_flight_than_allowed(log: Log) -> None:
    most = 0

    def script(request: Request) -> Any:
        nonlocal most
        (link,) = producer._sender._delivery.links.values()
        most = max(most, len(link.requests))
        return write(log, request)

    settings = {**QUICK, "batch_size": 0, "max_in_flight_requests_per_connection": 3}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        send(producer, 200)
    assert most == 3
    assert numbers(log) == list(range(200))


@pytest.fixture
def mute() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_never_answers_is_told_of(mute: str) -> None:
    with Producer(mute, request_timeout_ms=100) as producer, pytest.raises(RequestTimedOut, match="did not answer"):
        producer.send(TOPIC, b"v")


def test_a_leader_that_never_answers_holds_up_no_other(log: Log, mute: str) -> None:
    settings = {**QUICK, "request_timeout_ms": 2000, "delivery_timeout_ms": 2500}
    with leader(log) as broker, Producer(broker.address, settings) as producer:
        ports = {0: broker.port, 1: int(mute.rpartition(":")[2])}
        broker.handlers[Api.METADATA] = lambda _: metadata(ports, {TOPIC: [0], "mute": [1]})
        lost = producer.send("mute", b"v")
        for future in send(producer, 10):
            future.result(30)
        assert not lost.done()
        assert isinstance(lost.exception(30), DeliveryTimedOut)


def test_callbacks_come_in_order_and_may_send_more(log: Log) -> None:
    told: list[int] = []
    with leader(log) as broker, Producer(broker.address, {**QUICK, "batch_size": 0}) as producer:

        def again(future: RecordFuture) -> None:
            told.append(future.result(0).offset)
            if len(told) <= COUNT:
                producer.send(TOPIC, b"%d" % (COUNT + len(told) - 1)).add_done_callback(again)

        for future in send(producer):
            future.add_done_callback(again)
        while len(log.values) < 2 * COUNT:
            producer.flush(30)
        producer.flush(30)
    assert told == sorted(told) == list(range(2 * COUNT))


def test_a_flush_returns_after_the_callbacks(log: Log) -> None:
    with leader(log) as broker, Producer(broker.address, QUICK) as producer:
        for i in range(50):
            told: list[RecordFuture] = []
            future = producer.send(TOPIC, b"%d" % i)
            future.add_done_callback(told.append)
            producer.flush(30)
            assert told == [future]


def test_a_batch_grows_while_its_leader_is_slow(log: Log) -> None:
    go = threading.Event()

    def script(request: Request) -> Any:
        assert go.wait(30)
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address, QUICK) as producer:
        first = producer.send(TOPIC, b"0")
        with pytest.raises(TimeoutError):
            first.result(0.05)  # on its way
        futures = send(producer, 50, 1)
        with pytest.raises(TimeoutError):
            futures[0].result(0.05)  # lingered long enough, and kept open
        futures += send(producer, 50, 51)
        go.set()
        producer.flush(30)
    assert numbers(log) == list(range(101))
    assert len(log.sizes) <= 4


def test_who_waits_does_not_sleep_when_another_thread_has_just_read_the_answer(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leader(log) as broker, Producer(broker.address) as producer:
        producer.send(TOPIC, b"first").result(30)
        sender = producer._sender
        wait, waited = sender._poller.wait, []

        def note(timeout: float) -> Any:
            if threading.current_thread() is threading.main_thread():
                waited.append(timeout)
            return wait(timeout)

        monkeypatch.setattr(sender._poller, "wait", note)
        # What it waits for comes true after its first look, and nothing will happen any more on any socket.
        looks = iter([False])
        assert sender.wait_until(lambda: next(looks, True), sender._clock() + 60)
        assert set(waited) <= {0.0}


def test_what_lingers_goes_though_a_caller_heard_the_bell_that_was_for_the_thread(log: Log) -> None:
    with leader(log) as broker, Producer(broker.address, linger_ms=1) as producer:
        producer.send(TOPIC, b"first").result(30)
        sender = producer._sender
        until(lambda: sender._asleep, "the producer's thread waits")
        # A caller drives, and hears it; it is woken for the thread's sake when that one leaves.
        sender._poller.ring()
        sender._heard = True
        sender._poller.hush()
        sender.wait_until(lambda: True, sender._clock() + 60)
        future = producer.send(TOPIC, b"second")
        until(future.done, "a message that nobody waits for acknowledged", timeout=4)
