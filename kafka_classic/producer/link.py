"""A connection to a broker that never waits: what cannot be written now is kept, what has come is cut into answers."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kafka_classic.client.connection import Bytes
from kafka_classic.client.produce_packed import VERSION
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.lane import Lane
from kafka_classic.wire.apis import Api

_HEADER = struct.Struct(">ihhih")  # size, api, version, correlation id, length of the client id
_CHUNK = 64 << 10
_LARGEST_ANSWER = 64 << 20
# What a link may raise, and an answer that cannot be read: the connection is of no more use.
BROKEN = (OSError, ValueError, IndexError, struct.error)


class Request(NamedTuple):
    """A Produce that is sent and not answered."""

    correlation_id: int
    batches: Sequence[Batch]
    deadline: float


class Link:
    """A non-blocking socket to the broker `node`; any of BROKEN out of it means that it is lost."""

    def __init__(self, node: int, address: str, sock: socket.socket, client_id: str) -> None:
        sock.setblocking(False)
        self.node = node
        self.address = address
        self.socket = sock
        self.fd = sock.fileno()
        self.requests: deque[Request] = deque()
        self.due: deque[Lane] = deque()
        self.backlog = b""
        self.write_by = 0.0  # what is left of a request
        self.lost = False
        self._inbox = b""
        self._client_id = client_id.encode()
        self._fixed = _HEADER.size - 4 + len(self._client_id)
        self.next_correlation_id = 0

    def send(self, body: Sequence[Bytes]) -> None:
        """Write one Produce under the next correlation id, or as much of it as the socket takes."""
        number = self.next_correlation_id
        self.next_correlation_id = number + 1 & 0x7FFFFFFF
        size = self._fixed + sum(map(len, body))
        header = _HEADER.pack(size, Api.PRODUCE, VERSION, number, len(self._client_id))
        frame = b"".join((header, self._client_id, *body))
        if self.backlog:
            self.backlog += frame
        else:
            self._write(frame)

    def write_on(self) -> None:
        """Write more of what the socket did not take before."""
        if self.backlog:
            self._write(self.backlog)

    def receive(self) -> list[bytes]:
        """Return the answers that have come, without their sizes; an answer that is not whole yet is kept."""
        answers: list[bytes] = []
        while True:
            try:
                data = self.socket.recv(_CHUNK)
            except BlockingIOError:
                return answers
            if not data:
                raise ConnectionResetError(104, "the broker closed the connection")
            inbox = self._inbox + data if self._inbox else data
            at = 0
            while len(inbox) - at >= 4:
                size = int.from_bytes(inbox[at : at + 4], "big", signed=True)
                if not 4 <= size <= _LARGEST_ANSWER:
                    raise ValueError(f"an answer of {size} bytes")
                if len(inbox) - at - 4 < size:
                    break
                answers.append(inbox[at + 4 : at + 4 + size])
                at += 4 + size
            self._inbox = inbox[at:]
            if len(data) < _CHUNK:
                return answers

    def close(self) -> None:
        self.lost = True
        self.socket.close()

    def _write(self, data: bytes) -> None:
        try:
            written = self.socket.send(data)
        except BlockingIOError:
            written = 0
        self.backlog = data[written:] if written < len(data) else b""
