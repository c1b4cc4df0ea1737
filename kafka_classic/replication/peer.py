"""A connection from this broker to another: one request at a time; a greenlet waits, the event loop does not."""

from __future__ import annotations

import itertools
from typing import Any

import gevent
from gevent import socket

from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.bodies import read_response, write_request
from kafka_classic.wire.errors import MalformedRequest

LARGEST_ANSWER = 256 << 20


class Peer:
    """Brokers of one release talk to each other: there are no versions to agree on."""

    def __init__(self, host: str, port: int, client_id: str, timeout_s: float) -> None:
        self.client_id = client_id
        self._correlation_ids = itertools.count()
        self._sock: Any = socket.create_connection((host, port), timeout_s)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, api: Api, body: Any, timeout_s: float) -> Any:
        """The answer; raises OSError (a TimeoutError among them) or MalformedRequest. Close it then."""
        version = SERVED[api][1]
        correlation_id = next(self._correlation_ids)
        frame = self.exchange(write_request(api, version, correlation_id, self.client_id, body), timeout_s)
        answered, response = read_response(api, version, frame)
        if answered != correlation_id:
            raise MalformedRequest("a broker answered another request than the one that was asked")
        return response

    def next_id(self) -> int:
        return next(self._correlation_ids)

    def exchange(self, frame: bytes, timeout_s: float) -> bytearray:
        """Send a whole frame and return the answering one, without its size bytes."""
        with gevent.Timeout(timeout_s, TimeoutError(f"no answer in {timeout_s:g} s")):
            self._sock.settimeout(None)
            self._sock.sendall(frame)
            size = int.from_bytes(self._receive(4), "big")
            if size > LARGEST_ANSWER:
                raise MalformedRequest(f"a broker's answer claims {size} bytes")
            return self._receive(size)

    def _receive(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        have = 0
        while have < size:
            count = self._sock.recv_into(view[have:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            have += count
        view.release()
        return buffer

    def close(self) -> None:
        self._sock.close()
