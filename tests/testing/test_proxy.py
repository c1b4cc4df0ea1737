"""A link is cut, healed, slowed and reset, and nobody else's is."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from kafka_classic.testing.proxy import CLIENT, Network, Proxy, caller_of
from kafka_classic.testing.waiting import until

PATIENCE_S = 30.0


def frame(client_id: str | None, body: bytes = b"") -> bytes:
    """The start of a Kafka request of this client, and whatever follows."""
    name = (client_id or "").encode()
    rest = struct.pack(">hhih", 3, 12, 7, -1 if client_id is None else len(name)) + name + body
    return struct.pack(">i", len(rest)) + rest


class Echo:
    """A server that sends back what it gets; it counts its connections."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []
        self.seen = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return host, port

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            while data := sock.recv(65536):
                self.seen += data
                sock.sendall(data)
            sock.close()
        except OSError:
            pass

    def close(self) -> None:
        self.listener.close()
        for sock in self.open:
            sock.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def proxy(network: Network, echo: Echo) -> Proxy:
    """In front of broker 0."""
    return network.proxy(0, lambda: echo.address)


def call(proxy: Proxy, client_id: str | None = "somebody") -> tuple[socket.socket, bytes]:
    """A connection that has sent its first frame, and that frame."""
    sock = socket.create_connection((proxy.host, proxy.port), PATIENCE_S)
    hello = frame(client_id)
    sock.sendall(hello)
    return sock, hello


def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, f"the connection ended after {len(data)} of {size} bytes"
        data += piece
    return data


def silent(sock: socket.socket, seconds: float = 0.1) -> bool:
    sock.settimeout(seconds)
    try:
        return sock.recv(1) == b"" and False
    except TimeoutError:
        return True
    finally:
        sock.settimeout(PATIENCE_S)


def open_call(proxy: Proxy, client_id: str | None = "somebody") -> socket.socket:
    sock, hello = call(proxy, client_id)
    assert read(sock, len(hello)) == hello
    return sock


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("broker-2", 2),
        ("broker-2-fetcher-0", 2),
        ("broker-17-controller", 17),
        ("rdkafka", CLIENT),
        ("broker-", CLIENT),
        ("broker-2x", CLIENT),
        ("my-broker-2", CLIENT),
        ("", CLIENT),
        (None, CLIENT),
    ],
)
def test_a_caller_is_told_by_its_client_id_as_soon_as_that_is_there(client_id: str | None, name: int | str) -> None:
    whole = frame(client_id, b"body")
    start = whole[: 14 + len((client_id or "").encode())]
    assert caller_of(whole) == name
    assert caller_of(start) == name
    assert all(caller_of(start[:size]) is None for size in range(len(start)))
    assert caller_of(start[:5], ended=True) == CLIENT


def test_what_does_not_look_like_kafka_is_a_client() -> None:
    assert caller_of(b"\xff" * 40) == CLIENT
    assert caller_of(struct.pack(">ihhih", 40, 1, 1, 1, 30000)) == CLIENT


def test_bytes_go_through_both_ways_whole_and_in_order(proxy: Proxy) -> None:
    sock = open_call(proxy)
    sent = bytes(range(256)) * 8192
    writer = threading.Thread(target=sock.sendall, args=(sent,))
    writer.start()
    assert read(sock, len(sent)) == sent
    writer.join()


def test_the_end_of_one_side_is_told_to_the_other_once_all_is_through(proxy: Proxy, network: Network) -> None:
    sock, hello = call(proxy)
    sock.sendall(b"last words")
    sock.shutdown(socket.SHUT_WR)
    assert read(sock, len(hello) + 10) == hello + b"last words"
    assert sock.recv(1) == b""


def test_a_server_that_is_not_there_ends_the_connection(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    proxy = network.proxy(0, lambda: address)
    sock, _ = call(proxy)
    with pytest.raises(ConnectionResetError):
        sock.recv(1)


def test_a_server_may_move_to_another_port(network: Network, echo: Echo) -> None:
    targets = [("127.0.0.1", 1), echo.address]
    proxy = network.proxy(0, lambda: targets[0])
    sock, _ = call(proxy)
    with pytest.raises(ConnectionResetError):
        sock.recv(1)
    targets.pop(0)
    open_call(proxy)


def test_a_cut_link_is_silent_and_what_was_held_flows_on_after_it_is_healed(proxy: Proxy, network: Network) -> None:
    sock = open_call(proxy)
    network.cut(CLIENT, 0)
    assert network.is_cut(CLIENT, 0)
    assert network.is_cut(0, CLIENT)
    sock.sendall(b"held")
    assert silent(sock)
    network.heal()
    assert read(sock, 4) == b"held"


def test_what_the_server_sends_is_held_too(proxy: Proxy, network: Network, echo: Echo) -> None:
    sock = open_call(proxy)
    network.cut(CLIENT, 0)
    echo.open[0].sendall(b"answer")
    assert silent(sock)
    network.heal()
    assert read(sock, 6) == b"answer"


def test_a_new_connection_over_a_cut_link_is_accepted_and_silent(proxy: Proxy, network: Network, echo: Echo) -> None:
    network.cut(CLIENT, 0)
    sock, hello = call(proxy)
    assert silent(sock)
    assert echo.open == []
    network.heal()
    assert read(sock, len(hello)) == hello


def test_a_cut_link_hides_the_end_of_the_other_side(proxy: Proxy, network: Network, echo: Echo) -> None:
    sock = open_call(proxy)
    network.cut(CLIENT, 0)
    echo.open[0].shutdown(socket.SHUT_RDWR)
    assert silent(sock)
    network.heal()
    assert sock.recv(1) == b""


def test_a_cut_cuts_one_callers_links_and_not_anothers(proxy: Proxy, network: Network) -> None:
    client, follower, other = open_call(proxy), open_call(proxy, "broker-1-fetcher-0"), open_call(proxy, "broker-2")
    network.cut(0, 1)
    for sock in (client, follower, other):
        sock.sendall(b"x")
    assert read(client, 1) == read(other, 1) == b"x"
    assert silent(follower)
    network.heal(0, 1)
    assert read(follower, 1) == b"x"


def test_a_cut_goes_both_ways_or_one(network: Network, echo: Echo) -> None:
    zero, one = network.proxy(0, lambda: echo.address), network.proxy(1, lambda: echo.address)
    of_one, of_zero = open_call(zero, "broker-1"), open_call(one, "broker-0")
    network.cut(1, 0, one_way=True)
    for sock in (of_one, of_zero):
        sock.sendall(b"x")
    assert read(of_zero, 1) == b"x"
    assert silent(of_one)
    network.cut(0, 1)
    of_zero.sendall(b"y")
    assert silent(of_zero)
    network.heal(1)
    assert read(of_one, 1) + read(of_zero, 1) == b"xy"


def test_a_named_callers_link_needs_no_first_frame(network: Network, echo: Echo) -> None:
    proxy = network.proxy("zookeeper", lambda: echo.address, caller=3)
    sock = socket.create_connection((proxy.host, proxy.port), PATIENCE_S)
    sock.sendall(b"a")
    assert read(sock, 1) == b"a"
    assert network.connections(3, "zookeeper") == 1
    network.cut(3, "zookeeper")
    sock.sendall(b"b")
    assert silent(sock)


def test_a_cut_link_does_not_fill_the_memory(proxy: Proxy, network: Network) -> None:
    sock = open_call(proxy)
    network.cut(CLIENT, 0)
    sock.setblocking(False)
    taken = 0

    def full() -> bool:
        nonlocal taken
        try:
            taken += sock.send(bytes(1 << 20))
        except BlockingIOError:
            return True
        return False

    until(full)
    assert sum(c.there.size for c in network._connections) == 0


def test_a_server_that_does_not_read_does_not_fill_the_memory(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        proxy = network.proxy(0, deaf.getsockname)
        sock, _ = call(proxy)
        sock.setblocking(False)
        taken = 0

        def full() -> bool:
            nonlocal taken
            try:
                taken += sock.send(bytes(1 << 20))
            except BlockingIOError:
                (connection,) = network._connections
                return connection.there.size >= 1 << 18
            return False

        until(full)
        (connection,) = network._connections
        assert connection.there.size < 1 << 19


def test_a_delayed_link_is_late_and_whole(proxy: Proxy, network: Network) -> None:
    sock = open_call(proxy)
    network.slow(CLIENT, 0, delay=0.1)
    started = time.monotonic()
    sock.sendall(b"x" * 100_000)
    assert read(sock, 100_000) == b"x" * 100_000
    assert time.monotonic() - started >= 0.2


def test_a_slow_link_keeps_its_rate_and_is_fast_again_after_heal(proxy: Proxy, network: Network) -> None:
    sock = open_call(proxy)
    network.slow(0, CLIENT, bytes_per_second=50_000)
    started = time.monotonic()
    sock.sendall(b"x" * 15_000)
    assert read(sock, 15_000) == b"x" * 15_000
    assert time.monotonic() - started >= 0.25
    network.heal()
    writer = threading.Thread(target=sock.sendall, args=(b"y" * 4_000_000,))
    writer.start()
    assert read(sock, 4_000_000) == b"y" * 4_000_000
    assert time.monotonic() - started < 40  # at the slow rate it would take 80
    writer.join()


def test_a_link_of_no_speed_is_refused(network: Network) -> None:
    with pytest.raises(ValueError, match=r"use cut\(\)"):
        network.slow(0, 1, bytes_per_second=0)


def test_a_reset_closes_what_stands_and_lets_new_connections_through(proxy: Proxy, network: Network) -> None:
    sock, other = open_call(proxy), open_call(proxy, "broker-1")
    network.reset(CLIENT, 0)
    with pytest.raises(ConnectionResetError):
        sock.recv(1)
    other.sendall(b"x")
    assert read(other, 1) == b"x"
    open_call(proxy)


def test_a_closed_network_listens_no_more_and_may_be_closed_twice(proxy: Proxy, network: Network) -> None:
    sock = open_call(proxy)
    network.close()
    network.close()
    network.heal()
    assert sock.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((proxy.host, proxy.port), PATIENCE_S)
