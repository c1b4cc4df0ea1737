"""A client that says exactly what a test tells it to, right or wrong, over a real socket."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from kafka_classic.records.encode import encode_batch
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request

CLIENT = "raw"
NOW_MS = int(time.time() * 1000)  # of this run: retention would delete older records in the middle of a test


class Raw:
    """One connection; every read has a generous limit of its own, so that a hang fails the test."""

    def __init__(self, address: str, timeout: float = 60.0) -> None:
        self.address = address
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.sock.recv(min(1 << 20, count - len(data)))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def frame(self) -> bytes:
        """The next response, without its size."""
        (size,) = struct.unpack(">i", self.exactly(4))
        return self.exactly(size)

    def is_closed(self) -> bool:
        """Wait until the other side closes, discarding what it still says."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def call(self, api: Api, version: int, body: Any, correlation_id: int = 7) -> Any:
        self.send(write_request(api, version, correlation_id, CLIENT, body))
        echoed, answer = read_response(api, version, self.frame())
        assert echoed == correlation_id
        return answer


def header(api: int, version: int, correlation_id: int = 7) -> bytes:
    """A request header of the old kind (not flexible)."""
    name = CLIENT.encode()
    return struct.pack(f">hhih{len(name)}s", api, version, correlation_id, len(name), name)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(f">h{len(raw)}s", len(raw), raw)


def produce_frame(
    topic: str,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = 1,
    correlation_id: int = 7,
    version: int = 7,
    timeout_ms: int = 30_000,
) -> bytes:
    """A Produce request of version 7, made by hand."""
    body = struct.pack(">hhii", -1, acks, timeout_ms, 1) + text(topic)
    body += struct.pack(">iii", 1, partition, len(records)) + records
    return framed(header(Api.PRODUCE, version, correlation_id) + body)


def produce(raw: Raw, topic: str, records: bytes, **more: Any) -> tuple[int, int]:
    """Send one Produce and read (error code, base offset)."""
    raw.send(produce_frame(topic, records, **more))
    return produced(raw, topic)


def produced(raw: Raw, topic: str) -> tuple[int, int]:
    answer = raw.frame()
    at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    error, offset = struct.unpack_from(">hq", answer, at)
    return error, offset


def fetch_frame(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    correlation_id: int = 7,
) -> bytes:
    """A Fetch request of version 11 without a session, made by hand."""
    body = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + text(topic) + struct.pack(">i", 1)
    body += struct.pack(">iiqqi", partition, -1, offset, -1, partition_max_bytes)
    body += struct.pack(">i", 0) + text("")
    return framed(header(Api.FETCH, 11, correlation_id) + body)


def fetch(raw: Raw, topic: str, offset: int, **more: Any) -> tuple[int, int, bytes]:
    """Send one Fetch and read (error code, high watermark, records)."""
    raw.send(fetch_frame(topic, offset, **more))
    return fetched(raw, topic)


def fetched(raw: Raw, topic: str) -> tuple[int, int, bytes]:
    answer = raw.frame()
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    error, high_watermark, _, _, aborted, _, size = struct.unpack_from(">hqqqiii", answer, at)
    assert aborted <= 0
    at += struct.calcsize(">hqqqiii")
    return error, high_watermark, answer[at : at + max(size, 0)]


def batch(*values: bytes, **more: Any) -> bytes:
    return encode_batch([(None, value, (), NOW_MS) for value in values], **more)
