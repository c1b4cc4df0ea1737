"""A broker that does what a test tells it: real sockets, real frames, and every fault a connection can have."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import (
    RequestHeader,
    api_versions_body,
    read_request,
    read_request_header,
    write_response,
)


class Request(NamedTuple):
    """What the scripted broker was sent. Produce and Fetch, hand-packed by our clients, come as kio's classes too."""

    header: RequestHeader
    body: Any
    connection: socket.socket


# A handler returns a response body, raw bytes to put on the wire as they are, or None for no answer at all.
Handler = Callable[[Request], Any]


class Hangup(Exception):
    """Raised by a handler: close the connection."""


class ScriptedBroker:
    """Answers each API by a handler; ApiVersions by itself unless a handler is given."""

    def __init__(self, handlers: Mapping[Api, Handler] | None = None, port: int = 0) -> None:
        self.handlers: dict[Api, Handler] = {Api.API_VERSIONS: lambda _: api_versions_body(), **(handlers or {})}
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._run(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, api: Api) -> int:
        return sum(request.header.api_key == api for request in self.requests)

    def hang_up(self) -> None:
        """Close every connection, as a broker that dies does."""
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(30.0)
            assert not thread.is_alive()
        for connection in self.connections:
            connection.close()

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            if self._closing:
                return
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            stream = connection.makefile("rb")
            while len(size := stream.read(4)) == 4:
                length = struct.unpack(">i", size)[0]
                frame = stream.read(length)
                if len(frame) < length:
                    break
                header = read_request_header(frame)
                request = Request(header, read_request(header, frame), connection)
                self.requests.append(request)
                answer = self.handlers[header.api_key](request)
                if answer is not None:
                    connection.sendall(answer if isinstance(answer, bytes) else write_response(header, answer))
        except (Hangup, OSError):
            pass
        finally:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
