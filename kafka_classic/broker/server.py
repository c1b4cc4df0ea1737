"""The sockets: listening, accepting, the shared receive buffer, and who may hold how much memory."""

from __future__ import annotations

import errno
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import gevent

from kafka_classic.broker.connection import Connection
from kafka_classic.broker.fetch import DelayedFetch
from kafka_classic.broker.handlers import HANDLERS
from kafka_classic.broker.produce import ProducePlan, produce
from kafka_classic.settings import Endpoint, SettingsError
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import RequestHeader, read_request, unsupported_api_versions, write_response
from kafka_classic.wire.errors import Error, UnsupportedVersion
from kafka_classic.wire.fetch import read_fetch, write_fetch_response
from kafka_classic.wire.varint import Buffer

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker

log = logging.getLogger(__name__)

RECEIVE_BUFFER = 1 << 18
POOLED = 1_200_000  # a request with a batch of message.max.bytes fits
MOST_POOLED = 4
ACCEPTS_A_TURN = 64
LOOKS = 4  # at each connection in the time that it may be idle


class Server:
    """Owns the connections of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.turn = broker.turn
        self.loop: Any = gevent.get_hub().loop
        self.buffer = bytearray(RECEIVE_BUFFER)
        self.view = memoryview(self.buffer)
        self.max_request = broker.settings.socket_request_max_bytes
        self.connections: set[Connection] = set()
        self._listeners: list[tuple[socket.socket, Any]] = []
        self._pool: list[bytearray] = []
        self._held = 0  # bytes of large requests under way …
        self._lent = 0  # … and how many those are
        self._waiting: deque[Connection] = deque()
        # Runs after the callbacks of all ready sockets and before the loop sleeps.
        self._end_of_turn: Any = self.loop.prepare()
        self._end_of_turn.start(self.turn.end)

    # --- listening

    def listen(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Bind every listener; returns them with the ports that were really taken."""
        bound = []
        for endpoint in endpoints:
            family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((endpoint.host, endpoint.port))
                sock.listen(self._broker.settings.socket_listen_backlog_size)
            except OSError as error:
                sock.close()
                where = f"{endpoint.host or '*'}:{endpoint.port}"
                raise SettingsError(
                    f"cannot listen on {where}: {error.strerror}; choose another in listeners"
                ) from None
            sock.setblocking(False)
            self._listeners.append((sock, self.loop.io(sock.fileno(), 1)))
            bound.append(endpoint._replace(port=sock.getsockname()[1]))
        return tuple(bound)

    def serve(self) -> None:
        """Begin to accept."""
        for (sock, watcher), endpoint in zip(self._listeners, self._broker.endpoints, strict=True):
            watcher.start(self._accept, sock, watcher, endpoint.name)

    def _accept(self, sock: socket.socket, watcher: Any, listener: str) -> None:
        settings = self._broker.settings
        for _ in range(ACCEPTS_A_TURN):
            try:
                fresh, peer = sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    # Nothing to accept with: leave it in the backlog for a while rather than spin.
                    log.warning("cannot accept a connection: %s", error.strerror)
                    watcher.stop()
                    gevent.spawn_later(0.5, watcher.start, self._accept, sock, watcher, listener)
                    return
                continue
            if len(self.connections) >= settings.max_connections:
                fresh.close()
                continue
            fresh.setblocking(False)
            fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.socket_send_buffer_bytes > 0:
                fresh.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
            if settings.socket_receive_buffer_bytes > 0:
                fresh.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.socket_receive_buffer_bytes)
            self.connections.add(Connection(self, fresh, f"{peer[0]}:{peer[1]}", listener))

    def close_idle(self) -> None:
        """Close connections on which nothing has moved for connections.max.idle.ms; called that often over LOOKS.

        A flag set on the hot path and looked at now and then costs less there than the time of day.
        """
        for connection in list(self.connections):
            if connection.active or connection.muted:  # muted: it waits for us
                connection.active = False
                connection.idle = 0
            else:
                connection.idle += 1
                if connection.idle > LOOKS:
                    connection.close()

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def close(self) -> None:
        """Stop accepting and close every connection; what was staged is written and answered first."""
        for sock, watcher in self._listeners:
            watcher.close()
            sock.close()
        self._listeners.clear()
        self.turn.end()
        for connection in list(self.connections):
            connection.close()
        self._end_of_turn.close()

    # --- memory of large requests

    def borrow(self, size: int) -> bytearray:
        """A buffer to begin a request of `size` bytes in; it grows as the bytes arrive."""
        buffer = self._pool.pop() if self._pool else bytearray(POOLED)
        self._held += len(buffer)
        self._lent += 1
        return buffer

    def grow(self, buffer: bytearray, size: int) -> bytearray:
        more = min(size, 2 * len(buffer)) - len(buffer)
        self._held += more
        buffer.extend(bytes(more))
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        self._held -= len(buffer)
        self._lent -= 1
        if len(buffer) == POOLED and len(self._pool) < MOST_POOLED:
            self._pool.append(buffer)
        if self._waiting:
            self._waiting = deque(c for c in self._waiting if not c.closed)
        while self._waiting:
            first = self._waiting.popleft()
            if self.starved():
                self._waiting.appendleft(first)
                return
            first.read_on()

    def starved(self) -> bool:
        """Whether one that has borrowed must wait: too much is held, and another is reading and will give back."""
        others_reading = self._lent - len(self._waiting) - 1
        return others_reading > 0 and self._held > self._broker.settings.queued_max_request_bytes

    def wait_for_room(self, connection: Connection) -> None:
        self._waiting.append(connection)

    # --- requests

    def produce(
        self, connection: Connection, header: RequestHeader, buf: bytearray, view: memoryview, start: int, stop: int
    ) -> ProducePlan | None:
        return produce(self._broker.hosted, self.turn, self._broker.fence, connection, header, buf, view, start, stop)

    def fetch(self, connection: Connection, header: RequestHeader, buf: bytearray, stop: int) -> None:
        broker = self._broker
        request = read_fetch(buf, header.body_at, stop, header.api_version)
        wanted, session, error = broker.sessions.resolve(request)
        if error is not Error.none:
            chunks = write_fetch_response(header.api_version, header.correlation_id, 0, error.value, 0, [])
            connection.send(b"".join(chunks))
            return
        limit = broker.settings.fetch_max_bytes
        DelayedFetch(broker, connection, header, request, wanted, session, limit).begin(self.loop)

    def handle(self, connection: Connection, header: RequestHeader, frame: bytes) -> bytes:
        """Any other request, in a greenlet: its handler may wait for ZooKeeper."""
        return self.answer(connection, header, frame, len(frame))

    def answer(self, connection: Connection, header: RequestHeader, buf: Buffer, stop: int) -> bytes:
        request = read_request(header, buf, stop)
        connection.version, connection.client_id = header.api_version, header.client_id
        return write_response(header, HANDLERS[header.api_key](self._broker, connection, request))

    def refuse(self, unsupported: UnsupportedVersion) -> bytes | None:
        """The answer to an API or version that is not served; None closes the connection."""
        if unsupported.api_key == Api.API_VERSIONS:
            return unsupported_api_versions(unsupported.correlation_id)
        log.warning("closed a connection: %s", unsupported.message)
        return None
