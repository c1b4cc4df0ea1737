"""A network on loopback that can be cut: every server behind a proxy, all proxies in one thread, no root needed.

    with Network() as network:
        proxy = network.proxy(0, lambda: ("127.0.0.1", 9092))      # broker 0 is reached at proxy.address
        network.cut(0, "client")                                   # silence, as when a cable is pulled
        network.heal()                                             # what was held flows on

A link is a pair of names, the caller's and the server's: a broker's id, "zookeeper" or "client". Who calls a broker is
told by the client id of the first request on a connection: `broker-2-fetcher-0` is broker 2, any other is a client. So
a connection waits for that before it goes through. In front of ZooKeeper every broker has a proxy of its own.

    (accepted) -- the caller is known, its link is whole --> connected -- one side ends, all passed on --> closed
                                                             connected -- reset(), an error -------------> closed

A cut is a partition, not a reset: connections stay open and silent, new ones are accepted and are silent, ends and
resets of one side are not told to the other. Nothing is read meanwhile, so what is held stays in the sockets' buffers.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import queue
import re
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

Name = int | str
Address = tuple[str, int]

CLIENT = "client"
ZOOKEEPER = "zookeeper"

_MOST_HELD = 1 << 18
_CHUNK = 1 << 16
_ENTRY = struct.Struct(">ihhih")  # size, api, version, correlation id, length of the client id
_LONGEST_ID = 1024
_BROKER = re.compile(rb"broker-(\d+)(?:-|$)")
_SLOW_STEP_S = 0.02


class Slowness(NamedTuple):
    """How slow a link is: bytes per second of each connection and direction (None: as fast as it goes), and delay."""

    bytes_per_second: float | None = None
    delay: float = 0.0


_FAST = Slowness()


def caller_of(start: bytes | bytearray, ended: bool = False) -> Name | None:
    """Who sends a request that begins so; None when more of it must be seen."""
    if len(start) < _ENTRY.size:
        return CLIENT if ended else None
    length = _ENTRY.unpack_from(start)[4]
    if not 0 <= length <= _LONGEST_ID:
        return CLIENT
    if len(start) < _ENTRY.size + length:
        return CLIENT if ended else None
    found = _BROKER.match(bytes(start[_ENTRY.size : _ENTRY.size + length]))
    return int(found[1]) if found else CLIENT


class _Pipe:
    """One direction of a connection: what was read and may not be written yet."""

    __slots__ = ("ended", "held", "next_read", "passed_end", "size")

    def __init__(self) -> None:
        self.held: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.next_read = 0.0
        self.ended = False
        self.passed_end = False


class _Connection:
    """A caller's socket and, once that may be, one to the server."""

    def __init__(self, proxy: Proxy, caller: socket.socket) -> None:
        self.proxy = proxy
        self.caller = caller
        self.server: socket.socket | None = None
        self.connecting = False
        self.link: tuple[Name, Name] | None = None
        self.there = _Pipe()
        self.back = _Pipe()
        self.alarm = float("inf")
        self.closed = False


class Proxy:
    """A port in front of one server; `target` is asked at every connection, so the server may move."""

    def __init__(
        self,
        network: Network,
        server: Name,
        target: Callable[[], Address],
        caller: Name | None,
        listener: socket.socket,
    ) -> None:
        self.network = network
        self.server = server
        self.target = target
        self.caller = caller
        self.listener = listener
        self.host, self.port = listener.getsockname()[:2]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Network:
    """All proxies and their links. Every method may be called from any thread and has taken effect when it returns."""

    def __init__(self, host: str = "127.0.0.1", clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()
        self._proxies: list[Proxy] = []
        self._cut: set[tuple[Name, Name]] = set()
        self._slow: dict[tuple[Name, Name], Slowness] = {}
        self._alarms: list[tuple[float, int, _Connection]] = []
        self._numbers = itertools.count()
        self._open = True
        self._thread = threading.Thread(target=self._run, name="kafka-classic-network", daemon=True)
        self._thread.start()

    # --- what is cut and what is slow

    def proxy(self, server: Name, target: Callable[[], Address], *, caller: Name | None = None, port: int = 0) -> Proxy:
        """Listen in front of a server. `caller` names who calls here, where the bytes do not tell (ZooKeeper's)."""
        listener = socket.create_server((self.host, port), backlog=128)
        listener.setblocking(False)
        made = Proxy(self, server, target, caller, listener)

        def add() -> None:
            self._proxies.append(made)
            self._selector.register(listener, selectors.EVENT_READ, made)

        self._order(add)
        return made

    def cut(self, a: Name, b: Name, *, one_way: bool = False) -> None:
        """Hold everything between a and b, whoever calls; with `one_way` only on connections that a made to b."""
        self._order(lambda: self._change(lambda: self._cut.update(_links(a, b, one_way))))

    def heal(self, a: Name | None = None, b: Name | None = None) -> None:
        """Make whole and fast again: the link between two, all links of one, or all."""

        def mend() -> None:
            healed = {link for link in (*self._cut, *self._slow) if {a, b} - {None} <= set(link)}
            self._cut -= healed
            for link in healed:
                self._slow.pop(link, None)

        self._order(lambda: self._change(mend))

    def slow(
        self,
        a: Name,
        b: Name,
        bytes_per_second: float | None = None,
        delay: float = 0.0,
        *,
        one_way: bool = False,
    ) -> None:
        """Let everything between a and b flow slowly, late, or both."""
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ValueError("a link of no bytes per second is a cut one: use cut()")
        slowness = Slowness(bytes_per_second, delay)
        self._order(lambda: self._change(lambda: self._slow.update(dict.fromkeys(_links(a, b, one_way), slowness))))

    def reset(self, a: Name, b: Name) -> None:
        """Close all connections between a and b; both sides see a reset."""
        links = _links(a, b, False)

        def close() -> None:
            for connection in [c for c in self._connections if c.link in links]:
                self._close(connection, reset=True)

        self._order(close)

    def connections(self, a: Name, b: Name) -> int:
        """Count the connections that a has made to b."""
        answer: list[int] = []
        self._order(lambda: answer.append(sum(c.link == (a, b) for c in self._connections)))
        return answer[0] if answer else 0

    def is_cut(self, a: Name, b: Name) -> bool:
        return (a, b) in self._cut

    def cuts(self) -> list[tuple[Name, Name]]:
        """The links that are cut, each as caller and server."""
        answer: list[tuple[Name, Name]] = []
        self._order(lambda: answer.extend(sorted(self._cut, key=str)))
        return answer

    # --- life

    def close(self) -> None:
        """Close all ports and connections and end the thread."""

        def end() -> None:
            self._open = False

        self._order(end)
        self._thread.join(10.0)

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _order(self, what: Callable[[], None]) -> None:
        """Have the thread do it, and wait until it is done."""
        if not self._thread.is_alive():
            return
        done = threading.Event()
        failed: list[Exception] = []

        def do() -> None:
            try:
                what()
            except Exception as error:
                failed.append(error)
            finally:
                done.set()

        self._orders.put(do)
        self._rope.send(b"!")
        while not done.wait(0.5):
            if not self._thread.is_alive():
                return
        if failed:
            raise failed[0]

    # --- the thread

    def _run(self) -> None:
        try:
            while self._open:
                wait = max(0.0, self._alarms[0][0] - self._clock()) if self._alarms else None
                for key, mask in self._selector.select(wait):
                    if key.fileobj is self._bell:
                        self._obey()
                    elif isinstance(key.data, Proxy):
                        self._accept(key.data)
                    else:
                        self._serve(key.data, key.fileobj, mask)  # type: ignore[arg-type]
                now = self._clock()
                while self._alarms and self._alarms[0][0] <= now:
                    when, _, connection = heapq.heappop(self._alarms)
                    if when == connection.alarm:
                        connection.alarm = float("inf")
                        self._pump(connection)
        finally:
            for connection in list(self._connections):
                self._close(connection)
            for proxy in self._proxies:
                proxy.listener.close()
            self._selector.close()
            self._bell.close()
            self._rope.close()

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return
            order()

    def _change(self, change: Callable[[], None]) -> None:
        change()
        for connection in list(self._connections):
            self._pump(connection)

    def _accept(self, proxy: Proxy) -> None:
        try:
            caller, _ = proxy.listener.accept()
        except OSError:
            return
        _prepare(caller)
        connection = _Connection(proxy, caller)
        self._connections.add(connection)
        if proxy.caller is not None:
            connection.link = proxy.caller, proxy.server
        self._pump(connection)

    def _serve(self, connection: _Connection, sock: socket.socket, mask: int) -> None:
        if connection.closed:
            return
        if mask & selectors.EVENT_READ:
            self._read(connection, sock)
        if not connection.closed:
            self._pump(connection)

    def _read(self, connection: _Connection, sock: socket.socket) -> None:
        pipe = connection.there if sock is connection.caller else connection.back
        speed = self._slow.get(connection.link, _FAST) if connection.link else _FAST
        most = _CHUNK
        if speed.bytes_per_second is not None:
            most = max(1, min(_CHUNK, int(speed.bytes_per_second * _SLOW_STEP_S)))
        try:
            data = sock.recv(most)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection, reset=True)
            return
        now = self._clock()
        if not data:
            pipe.ended = True
        else:
            pipe.held.append((now + speed.delay, data))
            pipe.size += len(data)
        if speed.bytes_per_second is not None:
            pipe.next_read = now + len(data) / speed.bytes_per_second
        if connection.link is None:
            caller = caller_of(b"".join(data for _, data in pipe.held), pipe.ended)
            if caller is not None:
                connection.link = caller, connection.proxy.server

    def _pump(self, connection: _Connection) -> None:
        """Pass on what may be passed on, and wait for what is possible next."""
        if connection.closed:
            return
        if connection.link is None or connection.link in self._cut:
            self._listen(connection.caller, connection, selectors.EVENT_READ if connection.link is None else 0)
            self._listen(connection.server, connection, 0)
            return
        if connection.server is None and not self._connect(connection):
            return
        assert connection.server is not None
        if connection.connecting and not self._connected(connection):
            return
        now = self._clock()
        if not (
            self._write(connection, connection.there, connection.server, now)
            and self._write(connection, connection.back, connection.caller, now)
        ):
            return
        if connection.there.passed_end and connection.back.passed_end:
            self._close(connection)
            return
        self._listen(connection.caller, connection, self._wishes(connection, connection.there, connection.back, now))
        self._listen(connection.server, connection, self._wishes(connection, connection.back, connection.there, now))

    def _connect(self, connection: _Connection) -> bool:
        host, port = connection.proxy.target()
        server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        _prepare(server)
        connection.server = server
        connection.connecting = True
        try:
            server.connect((host, port))
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection, reset=True)
            return False
        return True

    def _connected(self, connection: _Connection) -> bool:
        assert connection.server is not None
        try:
            connection.server.getpeername()
        except OSError:
            if connection.server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._close(connection, reset=True)
            else:
                self._listen(connection.caller, connection, 0)
                self._listen(connection.server, connection, selectors.EVENT_WRITE)
            return False
        connection.connecting = False
        return True

    def _write(self, connection: _Connection, pipe: _Pipe, sink: socket.socket, now: float) -> bool:
        """Write what is due; False when that ended the connection."""
        try:
            while pipe.held and pipe.held[0][0] <= now:
                due, data = pipe.held.popleft()
                try:
                    sent = sink.send(data)
                except BlockingIOError:
                    sent = 0
                pipe.size -= sent
                if sent < len(data):
                    pipe.held.appendleft((due, data[sent:]))
                    break
            if pipe.ended and not pipe.held and not pipe.passed_end:
                pipe.passed_end = True
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(connection, reset=True)
            return False
        if pipe.held and pipe.held[0][0] > now:
            self._wake(connection, pipe.held[0][0])
        return True

    def _wishes(self, connection: _Connection, incoming: _Pipe, outgoing: _Pipe, now: float) -> int:
        """What to wait for on a socket that feeds one pipe and is fed by the other."""
        wishes = 0
        if not incoming.ended and incoming.size < _MOST_HELD:
            if incoming.next_read <= now:
                wishes |= selectors.EVENT_READ
            else:
                self._wake(connection, incoming.next_read)
        if outgoing.held and outgoing.held[0][0] <= now:
            wishes |= selectors.EVENT_WRITE
        return wishes

    def _wake(self, connection: _Connection, when: float) -> None:
        if when < connection.alarm:
            connection.alarm = when
            heapq.heappush(self._alarms, (when, next(self._numbers), connection))

    def _listen(self, sock: socket.socket | None, connection: _Connection, events: int) -> None:
        if sock is None:
            return
        key = self._selector.get_map().get(sock)
        # With no event asked for epoll would still tell of a peer that hung up: a cut link must not.
        if not events:
            if key is not None:
                self._selector.unregister(sock)
        elif key is None:
            self._selector.register(sock, events, connection)
        elif key.events != events:
            self._selector.modify(sock, events, connection)

    def _close(self, connection: _Connection, *, reset: bool = False) -> None:
        if connection.closed:
            return
        connection.closed = True
        self._connections.discard(connection)
        for sock in (connection.caller, connection.server):
            if sock is not None:
                self._listen(sock, connection, 0)
                if reset:
                    with contextlib.suppress(OSError):
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()


def _links(a: Name, b: Name, one_way: bool) -> set[tuple[Name, Name]]:
    return {(a, b)} if one_way else {(a, b), (b, a)}


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
