"""Who drives the sockets, who is called back, and who must be woken: with threads that stop, raise or do nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import pytest

from kafka_classic import Producer
from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import Unreachable
from kafka_classic.producer import ProducerClosed, RecordFuture
from kafka_classic.producer.decisions import Decisions
from kafka_classic.producer.memory import Memory
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error
from tests.client.scripted import Request
from tests.producer.scripted import TOPIC, Log, answer, leader, write

QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 10}


@pytest.fixture
def log() -> Log:
    return Log()


def run(act: Any) -> threading.Thread:
    """On a daemon thread: what hangs there fails a test and does not stop it."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_flush_ends_though_a_broker_that_answers_nothing_reads_nothing_either(log: Log) -> None:
    go = threading.Event()

    def script(request: Request) -> Any:
        assert go.wait(60)

    settings = {**QUICK, "acks": 0, "request_timeout_ms": 200, "delivery_timeout_ms": 300}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        try:
            for _ in range(30):  # more than the sockets' buffers hold
                producer.send(TOPIC, bytes(1_000_000))
            producer.flush(20)
        finally:
            producer.close(0)
            go.set()


def test_a_callback_may_close_the_producer_though_a_caller_calls_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    callers: list[threading.Thread] = []

    def script(request: Request) -> Any:
        assert go.wait(30)
        return write(log, request)

    def close(_: RecordFuture) -> None:
        callers.append(threading.current_thread())
        producer.close()

    with leader(log, script) as broker:
        producer = Producer(broker.address)
        sender = producer._sender
        future = producer.send(TOPIC, b"v")
        future.add_done_callback(close)
        serve = sender._serve

        def serve_callers(timeout: float) -> bool:
            if threading.current_thread() is not sender._thread:
                return serve(timeout)
            until(lambda: sender._stopped)
            return False

        monkeypatch.setattr(sender, "_serve", serve_callers)
        sender._poller.ring()
        waiter = run(lambda: future.result(30))
        until(sender._driving.locked, "a caller drives")
        go.set()
        waiter.join(10)
        assert not waiter.is_alive()
        until(lambda: not sender._thread.is_alive(), "the producer's thread has ended")
        assert callers == [waiter]


def test_callbacks_go_on_after_one_that_was_interrupted() -> None:
    decisions = Decisions(threading.Lock(), Memory(1))
    told: list[int] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    decisions.calls = [interrupted, lambda: told.append(1)]
    with pytest.raises(KeyboardInterrupt):
        decisions.call_back()
    run(decisions.call_back).join(10)
    assert told == [1]
    assert decisions.all_called()


def test_a_callback_that_exits_does_not_end_the_producers_thread(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()
    with leader(log) as broker, Producer(broker.address, linger_ms=1) as producer:

        def leave(_: RecordFuture) -> None:
            called.set()
            sys.exit(1)

        producer.partitions(TOPIC)
        lane = producer._sender.lane(TOPIC, 0)
        with producer._sender.lock:  # nothing is sent before it has its callback
            lane.retry_at = producer._sender._clock() + 60
        future = producer.send(TOPIC, b"v")
        future.add_done_callback(leave)
        with producer._sender.lock:
            producer._sender._delivery._recovery.later(lane)
        assert called.wait(30)
        future = producer.send(TOPIC, b"next")
        until(future.done, "a message that nobody waits for acknowledged", timeout=4)
        assert producer._sender._thread.is_alive()


def test_a_full_batch_whose_lane_must_wait_wakes_the_thread(log: Log) -> None:
    def script(request: Request) -> Any:
        return answer(Error.not_leader_or_follower, -1)

    settings = {
        "batch_size": 0,
        "retry_backoff_ms": 60_000,
        "retry_backoff_max_ms": 60_000,
        "request_timeout_ms": 100,
        "delivery_timeout_ms": 150,
    }
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        producer.send(TOPIC, b"first").exception(30)
        sender = producer._sender
        until(lambda: sender._asleep and not sender.memory.used, "the thread waits for whatever comes")
        producer.send(TOPIC, b"second")
        assert not sender._watching


def test_what_is_never_answered_is_given_up_though_nobody_waits_for_it(log: Log) -> None:
    silent = threading.Event()

    def script(request: Request) -> Any:
        return None if silent.is_set() else write(log, request)

    settings = {**QUICK, "request_timeout_ms": 100, "delivery_timeout_ms": 150}
    with leader(log, script) as broker, Producer(broker.address, settings) as producer:
        producer.send(TOPIC, b"first").result(30)
        silent.set()
        sender = producer._sender
        until(lambda: sender._asleep and not sender.memory.used, "the thread waits for whatever comes")
        future = producer.send(TOPIC, b"second")
        until(future.done, "the second given up", timeout=4)


def test_callbacks_are_not_called_by_those_who_find_leaders(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for a message whose leader is not known would keep them from finding it."""
    go = threading.Event()
    callers: list[str] = []
    with leader(log, lambda _: None) as broker, Producer(broker.address, acks=0) as producer:
        sender, look_for = producer._sender, producer._scout._look_for
        call_back = sender._decisions.call_back

        def call_back_later() -> bool:
            return (go.is_set() or threading.current_thread() is not sender._thread) and call_back()

        def look_for_later(*at: Any) -> None:
            assert go.wait(30)
            go.clear()
            look_for(*at)

        monkeypatch.setattr(sender._decisions, "call_back", call_back_later)
        monkeypatch.setattr(producer._scout, "_look_for", look_for_later)
        future = producer.send(TOPIC, b"v")
        future.add_done_callback(lambda _: callers.append(threading.current_thread().name))
        go.set()
        until(future.done)
        go.set()
        producer.flush(30)
    assert callers in (["MainThread"], ["kafka-producer-sender"])


def test_the_scout_goes_on_after_a_failure_that_nobody_foresaw(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with leader(log) as broker, Producer(broker.address, QUICK) as producer:
        leader_now, failures = producer._cluster.leader_now, [LookupError("on purpose")]

        def fail_once(name: str, index: int) -> int:
            if failures:
                raise failures.pop()
            return leader_now(name, index)

        monkeypatch.setattr(producer._cluster, "leader_now", fail_once)
        assert producer.send(TOPIC, b"v").result(10).offset == 0
    assert "on purpose" in caplog.text


@pytest.mark.parametrize("name", ["learn", "connect"])
def test_a_thread_that_could_not_be_started_is_missed_once_only(
    name: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def fail_once(thread: threading.Thread) -> None:
        if failures and thread.name.startswith(f"kafka-producer-{name}"):
            raise failures.pop()
        start(thread)

    with leader(log) as broker, Producer(broker.address, {**QUICK, "max_block_ms": 5000}) as producer:
        monkeypatch.setattr(threading.Thread, "start", fail_once)
        if name == "learn":
            with pytest.raises(RuntimeError):
                producer.send(TOPIC, b"v")
        assert producer.send(TOPIC, b"v").result(10).offset == 0
        assert not failures


def test_two_who_close_at_once_do_it_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with leader(log) as broker:
        producer = Producer(broker.address)
        both, ended, stop, flush = threading.Barrier(2), [], producer._scout.stop, producer._sender.flush

        def flush_together(deadline: float) -> bool:
            done = flush(deadline)
            both.wait(30)
            return done

        monkeypatch.setattr(producer._sender, "flush", flush_together)

        def stop_and_note() -> None:
            ended.append(1)
            stop()

        monkeypatch.setattr(producer._scout, "stop", stop_and_note)
        threads = [run(producer.close), run(producer.close)]
        for thread in threads:
            thread.join(30)
        assert ended == [1]


def test_a_producer_that_could_not_be_made_leaves_no_threads(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with leader(log) as broker:

        class Registry:
            def __init__(self, *_: object) -> None:
                pass

            def bootstrap(self) -> str:
                return broker.address

            def watch(self, *_: object) -> None:
                raise LookupError("on purpose")

            def close(self) -> None:
                pass

        monkeypatch.setattr("kafka_classic.producer.registry.WatchedRegistry", Registry)
        before = threading.active_count()
        with pytest.raises(LookupError):
            Producer(zookeeper="127.0.0.1:1")
        assert threading.active_count() == before


def test_a_host_that_cannot_be_a_name_is_one_that_cannot_be_reached() -> None:
    with pytest.raises(Unreachable, match="its host name is unknown"):
        Connection("a..b", 9092)


def test_a_close_does_not_wait_for_a_broker_that_says_nothing_to_a_new_connection(log: Log) -> None:
    asked, go = threading.Event(), threading.Event()

    def say_nothing(_: Request) -> Any:
        asked.set()
        assert go.wait(60)

    with leader(log) as broker:
        try:
            with Producer(broker.address, QUICK) as producer:
                producer.send(TOPIC, b"v").result(30)
                broker.handlers[Api.API_VERSIONS] = say_nothing
                broker.hang_up()
                producer._scout.refresh()
                assert asked.wait(30)
            thread = producer._scout._thread
            assert thread is not None
            assert thread.is_alive()
        finally:
            go.set()


def test_a_producer_ends_in_a_process_that_is_forked_and_goes_on_in_its_own(log: Log) -> None:
    go = threading.Event()

    def script(request: Request) -> Any:
        assert go.wait(60)
        return write(log, request)

    with leader(log, script) as broker, Producer(broker.address) as producer:
        future = producer.send(TOPIC, b"v")
        until(lambda: broker.count(Api.PRODUCE), "the message is on its way")
        held, forked = threading.Event(), threading.Event()

        def hold() -> None:
            with producer._sender.lock:
                held.set()
                assert forked.wait(30)

        holder = run(hold)
        assert held.wait(30)
        child = os.fork()
        if not child:
            code = 1
            signal.alarm(30)
            try:
                with pytest.raises(ProducerClosed):
                    producer.send(TOPIC, b"of the child")
                with pytest.raises(ProducerClosed):
                    producer.send("unknown", b"of the child")
                with pytest.raises(TimeoutError):
                    future.result()
                producer.flush()
                producer.close()
                code = 0
            finally:
                os._exit(code)
        forked.set()
        holder.join()
        assert os.waitpid(child, 0)[1] == 0
        go.set()
        assert future.result(10).offset == 0
        assert producer.send(TOPIC, b"w").result(10).offset == 1
