"""A connection agrees on versions, matches answers to requests, and says clearly what went wrong."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.metadata.v13 import MetadataRequest

from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import Closed, ConnectionLost, RequestTimedOut, Unreachable
from kafka_classic.client.probe import registered_brokers
from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.bodies import RequestHeader, api_versions_body, unsupported_api_versions, write_response
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import metadata
from tests.client.scripted import Hangup, Request, ScriptedBroker

EVERYTHING = MetadataRequest(topics=None, include_topic_authorized_operations=False)
LONG = 30.0
SHORT = 0.2


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        scripted.handlers[Api.METADATA] = lambda _: metadata({7: scripted.port})
        yield scripted


@pytest.fixture
def connect(broker: ScriptedBroker) -> Iterator[Callable[..., Connection]]:
    made: list[Connection] = []

    def make(timeout: float = LONG) -> Connection:
        made.append(Connection("127.0.0.1", broker.port, timeout=timeout))
        return made[-1]

    yield make
    for connection in made:
        connection.close()


def test_the_newest_version_both_sides_speak_is_used(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    answer = connect().request(Api.METADATA, EVERYTHING)
    assert [(b.node_id, b.port) for b in answer.brokers] == [(7, broker.port)]
    assert broker.requests[-1].header.api_version == SERVED[Api.METADATA][1]


def test_a_broker_that_knows_only_older_versions_is_spoken_to_in_those(
    broker: ScriptedBroker, connect: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kafka_classic.wire.bodies.advertised", lambda: {Api.METADATA: (0, 1), Api.API_VERSIONS: (0, 2)}
    )
    connection = connect()
    assert connection.version(Api.METADATA) == 1
    assert len(connection.request(Api.METADATA, EVERYTHING).brokers) == 1


def test_a_broker_that_refuses_our_hello_is_asked_again_in_a_version_it_named(
    broker: ScriptedBroker, connect: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kafka_classic.wire.bodies.advertised", lambda: {Api.METADATA: (0, 9), Api.API_VERSIONS: (0, 2)}
    )

    def hello(request: Request) -> object:
        if request.header.api_version > 2:
            return unsupported_api_versions(request.header.correlation_id)
        return api_versions_body()

    broker.handlers[Api.API_VERSIONS] = hello
    assert connect().version(Api.METADATA) == 9
    assert [request.header.api_version for request in broker.requests] == [SERVED[Api.API_VERSIONS][1], 2]


def test_a_broker_that_refuses_our_hello_without_a_range_is_asked_again_in_version_0(
    broker: ScriptedBroker, connect: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hello(request: Request) -> object:
        version = request.header.api_version
        with monkeypatch.context() as context:
            if version:
                context.setattr("kafka_classic.wire.bodies.advertised", dict)
                return unsupported_api_versions(request.header.correlation_id)
        return api_versions_body()

    broker.handlers[Api.API_VERSIONS] = hello
    connect()
    assert [request.header.api_version for request in broker.requests] == [SERVED[Api.API_VERSIONS][1], 0]


def test_a_broker_that_refuses_every_hello_is_reported_as_too_old(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    broker.handlers[Api.API_VERSIONS] = lambda request: unsupported_api_versions(request.header.correlation_id)
    with pytest.raises(KafkaError, match="older than Kafka") as raised:
        connect()
    assert raised.value.code == Error.unsupported_version


def test_an_api_the_broker_does_not_serve_is_refused_before_anything_is_sent(
    broker: ScriptedBroker, connect: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_classic.wire.bodies.advertised", lambda: {Api.LIST_OFFSETS: (0, 0)})
    connection = connect()
    with pytest.raises(KafkaError, match="does not serve METADATA"):
        connection.request(Api.METADATA, EVERYTHING)
    with pytest.raises(KafkaError, match="in versions 0 to 0, we speak 1 to 11: use a newer broker"):
        connection.version(Api.LIST_OFFSETS)
    assert broker.count(Api.METADATA) == 0


def test_a_refused_connection_says_how_to_see_what_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unreachable) as raised:
        Connection("127.0.0.1", port)
    assert raised.value.code == Error.network_exception
    assert raised.value.message == (
        f"cannot reach broker 127.0.0.1:{port}: connection refused; is it running? try `kafka-classic status`"
    )


def test_an_unknown_host_is_reported_as_such() -> None:
    with pytest.raises(Unreachable, match=r"cannot reach broker no-such-host\.invalid:9092: its host name is unknown"):
        Connection("no-such-host.invalid", 9092)


def test_requests_are_pipelined_and_answers_matched_in_order(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    connection = connect()
    pending = [connection.send(Api.METADATA, EVERYTHING) for _ in range(50)]
    last = pending[-1].result()  # whoever waits reads for all
    assert last.brokers[0].node_id == 7
    assert all(one.done for one in pending)
    assert connection.in_flight == 0
    assert [one.result().brokers[0].node_id for one in pending] == [7] * 50
    assert pending[0].result() == pending[0].result()


def test_many_threads_share_one_connection(broker: ScriptedBroker, connect: Callable[..., Connection]) -> None:
    broker.handlers[Api.METADATA] = lambda request: metadata({request.header.correlation_id: 1})
    connection = connect()

    def ask(_: int) -> bool:
        pending = connection.send(Api.METADATA, EVERYTHING)
        return bool(pending.result().brokers[0].node_id == pending.correlation_id)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(400)))


def test_an_earlier_answer_is_handed_over_while_the_reader_waits_for_a_later_one(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    release = threading.Event()
    asked = iter([None, release])

    def answer(request: Request) -> object:
        wait = next(asked)
        if wait is not None:
            wait.wait(LONG)
        return metadata({1: 1})

    broker.handlers[Api.METADATA] = answer
    connection = connect()
    first, second = (connection.send(Api.METADATA, EVERYTHING) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(second.result)
        assert first.result().brokers[0].node_id == 1
        assert not reader.done()
        release.set()
        assert reader.result(LONG).brokers[0].node_id == 1


def test_a_large_answer_arrives_whole(broker: ScriptedBroker, connect: Callable[..., Connection]) -> None:
    topics = {f"topic-{i:04}": [0] * 10 for i in range(500)}
    broker.handlers[Api.METADATA] = lambda _: metadata({0: 1}, topics)
    answer = connect().request(Api.METADATA, EVERYTHING)
    assert {topic.name for topic in answer.topics} == set(topics)


def test_an_answer_that_comes_byte_by_byte_is_put_together(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    def drip(request: Request) -> None:
        frame = write_response(request.header, metadata({7: 1}))
        request.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(frame)):
            request.connection.sendall(frame[i : i + 1])

    broker.handlers[Api.METADATA] = drip
    connection = connect()
    for _ in range(3):
        assert connection.request(Api.METADATA, EVERYTHING).brokers[0].node_id == 7


@pytest.mark.parametrize("sent", [0, 3, 4, 7, 20])
def test_a_connection_closed_before_the_answer_is_whole_fails_all_requests_in_flight(
    broker: ScriptedBroker, connect: Callable[..., Connection], sent: int
) -> None:
    all_sent = threading.Event()

    def cut_off(request: Request) -> None:
        all_sent.wait(LONG)
        request.connection.sendall(write_response(request.header, metadata({7: 1}))[:sent])
        raise Hangup

    broker.handlers[Api.METADATA] = cut_off
    connection = connect()
    pending = [connection.send(Api.METADATA, EVERYTHING) for _ in range(3)]
    all_sent.set()
    for one in pending:
        with pytest.raises(ConnectionLost, match=r"closed the connection .*3 requests unanswered") as raised:
            one.result()
        assert raised.value.code == Error.network_exception
    assert not connection.usable
    with pytest.raises(ConnectionLost):
        connection.request(Api.METADATA, EVERYTHING)


def test_a_broker_that_does_not_answer_in_time_loses_the_connection(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    broker.handlers[Api.METADATA] = lambda _: None
    connection = connect()
    with pytest.raises(RequestTimedOut, match="did not answer METADATA in time") as raised:
        connection.request(Api.METADATA, EVERYTHING, timeout=SHORT)
    assert raised.value.code == Error.request_timed_out
    assert not connection.usable


def test_a_waiter_behind_another_reader_times_out_as_well(
    broker: ScriptedBroker, connect: Callable[..., Connection]
) -> None:
    broker.handlers[Api.METADATA] = lambda _: None
    connection = connect()
    patient = connection.send(Api.METADATA, EVERYTHING, LONG)
    hasty = connection.send(Api.METADATA, EVERYTHING, SHORT)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(patient.result)
        with pytest.raises(RequestTimedOut):
            hasty.result()
        with pytest.raises(RequestTimedOut):
            reader.result(LONG)


def test_a_broker_that_reads_nothing_cannot_block_a_sender_for_ever() -> None:
    with ScriptedBroker() as broker:
        blocked = threading.Event()
        broker.handlers[Api.METADATA] = lambda _: blocked.wait(LONG) and None
        connection = Connection("127.0.0.1", broker.port, timeout=SHORT)
        try:
            connection.send(Api.METADATA, EVERYTHING)
            with pytest.raises(RequestTimedOut, match="did not read a request"):
                connection.send_unanswered(Api.PRODUCE, 8, [bytes(64 << 20)])
        finally:
            blocked.set()
            connection.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",  # what a TLS port says to us
        struct.pack(">i", -5),
        struct.pack(">ii", 2, 0),
        struct.pack(">iih", 6, 12345, 0),  # somebody else's correlation id
        b"\xff" * 100,
    ],
)
def test_garbage_is_reported_as_not_kafka(
    broker: ScriptedBroker, connect: Callable[..., Connection], garbage: bytes
) -> None:
    broker.handlers[Api.METADATA] = lambda _: garbage
    connection = connect()
    with pytest.raises(ConnectionLost, match="does not speak Kafka's protocol"):
        connection.request(Api.METADATA, EVERYTHING)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff" * 40, b"\x00" * 500])
def test_an_answer_with_a_garbage_body_fails_that_request_alone(
    broker: ScriptedBroker, connect: Callable[..., Connection], body: bytes
) -> None:
    def answer(request: Request) -> bytes:
        return struct.pack(">ii", 4 + len(body), request.header.correlation_id) + body

    broker.handlers[Api.METADATA] = answer
    connection = connect()
    with pytest.raises(KafkaError, match="cannot be read"):
        connection.request(Api.METADATA, EVERYTHING)
    broker.handlers[Api.METADATA] = lambda _: metadata({7: 1})
    assert connection.request(Api.METADATA, EVERYTHING).brokers[0].node_id == 7


def test_a_hello_answered_with_garbage_is_reported(broker: ScriptedBroker, connect: Callable[..., Connection]) -> None:
    broker.handlers[Api.API_VERSIONS] = lambda request: struct.pack(">iih", 6, request.header.correlation_id, 0)
    with pytest.raises(KafkaError, match="cannot be read"):
        connect()


def test_close_wakes_everybody_who_waits(broker: ScriptedBroker, connect: Callable[..., Connection]) -> None:
    arrived = threading.Semaphore(0)
    broker.handlers[Api.METADATA] = lambda _: arrived.release()
    connection = connect()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(connection.request, Api.METADATA, EVERYTHING) for _ in range(4)]
        for _ in waiting:
            assert arrived.acquire(timeout=LONG)
        connection.close()
        for one in waiting:
            with pytest.raises(Closed, match="was closed"):
                one.result(LONG)
    connection.close()
    with pytest.raises(Closed):
        connection.request(Api.METADATA, EVERYTHING)


def test_a_probe_lists_the_brokers_that_one_of_them_knows(broker: ScriptedBroker) -> None:
    assert registered_brokers("127.0.0.1", broker.port) == {7: ("127.0.0.1", broker.port)}


def test_our_name_and_id_reach_the_broker(broker: ScriptedBroker) -> None:
    Connection("127.0.0.1", broker.port, client_id="störung").close()
    hello = broker.requests[0]
    assert hello.header == RequestHeader(Api.API_VERSIONS, 4, 0, "störung", hello.header.body_at)
    assert hello.body.client_software_name == "kafka-classic"
