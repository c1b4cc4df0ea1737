"""Produce requests and responses by hand: this is the way of every message into the broker.

Measured (bench/wire.py): kio's parser copies the records of a 1 MB request twice and its writer takes 8 to 15 µs for a
response. Here nothing is copied: a partition's records are given as positions in the buffer they came in. The twin that
the tests compare this with is kio's own reader and writer.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from kafka_classic.wire.errors import MalformedRequest
from kafka_classic.wire.shape import ProduceShape
from kafka_classic.wire.varint import Buffer, read_uvarint, skip_tags, uvarint

__all__ = ["PartitionResult", "Partitions", "ProduceRequest", "ProduceShape", "read_produce", "write_produce_response"]

Topic = str | UUID
Partitions = list[tuple[int, int, int]]  # partition, start and end of its records in the buffer

FIRST_FLEXIBLE: Final = 9
FIRST_WITH_IDS: Final = 13
MAX_PARTITIONS: Final = 1 << 18  # so that a large request of empty partitions cannot fill the memory

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
ACKS_TIMEOUT: Final = struct.Struct(">hi")
ACKS_TIMEOUT_COUNT: Final = struct.Struct(">hii")
INDEX_SIZE: Final = struct.Struct(">ii")

# index, error, base offset, log append time(, log start offset)(, no record errors)
RESULT_3: Final = struct.Struct(">ihqq")
RESULT_5: Final = struct.Struct(">ihqqq")
RESULT_8: Final = struct.Struct(">ihqqqi")
RESULT_9: Final = struct.Struct(">ihqqqB")


class ProduceRequest:
    """A Produce request; its records stay in the buffer it was read from."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[tuple[Topic, Partitions]]
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


class PartitionResult(NamedTuple):
    """What became of one partition's records; any tuple of these six will do."""

    partition: int
    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    message: str | None = None


def read_produce(buf: Buffer, pos: int, end: int, version: int) -> ProduceRequest:
    """Read the body that stands at `pos` up to `end`; raises MalformedRequest for anything that is off."""
    try:
        request, pos = (_read_flexible if version >= FIRST_FLEXIBLE else _read_classic)(buf, pos, end, version)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedRequest(f"the body of PRODUCE is garbage: {error}") from None
    if pos != end:
        raise MalformedRequest(f"the body of PRODUCE ends {abs(end - pos)} bytes away from the end of its frame")
    return request


def _read_classic(buf: Buffer, pos: int, end: int, version: int) -> tuple[ProduceRequest, int]:
    (size,) = INT16.unpack_from(buf, pos)
    pos += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(buf[pos : pos + size], "utf-8")
        pos += size
    elif size < -1:
        raise MalformedRequest(f"a transactional id has the length {size}")
    acks, timeout_ms, count = ACKS_TIMEOUT_COUNT.unpack_from(buf, pos)
    pos += 10
    _check_count(count, 6, end - pos)
    topics: list[tuple[Topic, Partitions]] = []
    left = MAX_PARTITIONS
    for _ in range(count):
        (size,) = INT16.unpack_from(buf, pos)
        pos += 2
        if size < 0:
            raise MalformedRequest("a topic has no name")
        name = str(buf[pos : pos + size], "utf-8")
        pos += size
        (parts,) = INT32.unpack_from(buf, pos)
        pos += 4
        left -= parts + 1
        _check_count(parts, 8, end - pos, left)
        partitions: Partitions = []
        for _ in range(parts):
            index, size = INDEX_SIZE.unpack_from(buf, pos)
            pos += 8
            if size < 0:
                if size < -1:
                    raise MalformedRequest(f"records have the length {size}")
                size = 0
            partitions.append((index, pos, pos + size))
            pos += size
            if pos > end:
                raise MalformedRequest("records run past the end of the request")
        topics.append((name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), pos


def _read_flexible(buf: Buffer, pos: int, end: int, version: int) -> tuple[ProduceRequest, int]:
    size, pos = read_uvarint(buf, pos)
    transactional_id = None
    if size:
        transactional_id = str(buf[pos : pos + size - 1], "utf-8")
        pos += size - 1
    acks, timeout_ms = ACKS_TIMEOUT.unpack_from(buf, pos)
    count, pos = read_uvarint(buf, pos + 6)
    _check_count(count - 1, 3, end - pos)
    topics: list[tuple[Topic, Partitions]] = []
    left = MAX_PARTITIONS
    topic: Topic
    for _ in range(count - 1):
        if version >= FIRST_WITH_IDS:
            topic = topic_id(bytes(buf[pos : pos + 16]))
            pos += 16
        else:
            size, pos = read_uvarint(buf, pos)
            if size == 0:
                raise MalformedRequest("a topic has no name")
            topic = str(buf[pos : pos + size - 1], "utf-8")
            pos += size - 1
        parts, pos = read_uvarint(buf, pos)
        left -= parts
        _check_count(parts - 1, 6, end - pos, left)
        partitions: Partitions = []
        for _ in range(parts - 1):
            (index,) = INT32.unpack_from(buf, pos)
            size, pos = read_uvarint(buf, pos + 4)
            after = pos + size - 1 if size else pos
            if after > end:
                raise MalformedRequest("records run past the end of the request")
            partitions.append((index, pos, after))
            pos = skip_tags(buf, after, end)
        pos = skip_tags(buf, pos, end)
        topics.append((topic, partitions))
    pos = skip_tags(buf, pos, end)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), pos


def _check_count(count: int, least: int, room: int, left: int = MAX_PARTITIONS) -> None:
    if count < 0 or count * least > room or left < 0 or count > MAX_PARTITIONS:
        raise MalformedRequest(f"an array claims {count} elements where {room} bytes follow")


@lru_cache(maxsize=4096)
def topic_id(raw: bytes) -> UUID:
    """Return the id in 16 bytes; ValueError if there are fewer."""
    return UUID(bytes=raw)


def write_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[tuple[int, int, int, int, int, str | None]]]],
    throttle_ms: int = 0,
) -> bytes:
    """Return the whole frame that answers a Produce request."""
    flexible = version >= FIRST_FLEXIBLE
    out = [uvarint(len(topics) + 1) if flexible else INT32.pack(len(topics))]
    for topic, results in topics:
        out.append(topic_bytes(topic, flexible))
        out.append(uvarint(len(results) + 1) if flexible else INT32.pack(len(results)))
        for index, error, base_offset, time_ms, start_offset, message in results:
            if flexible:
                out.append(RESULT_9.pack(index, error, base_offset, time_ms, start_offset, 1))
                out.append(_message(message, True) + b"\0")
            elif version >= 8:
                out.append(RESULT_8.pack(index, error, base_offset, time_ms, start_offset, 0))
                out.append(_message(message, False))
            elif version >= 5:
                out.append(RESULT_5.pack(index, error, base_offset, time_ms, start_offset))
            else:
                out.append(RESULT_3.pack(index, error, base_offset, time_ms))
        if flexible:
            out.append(b"\0")
    out.append(INT32.pack(throttle_ms) + (b"\0" if flexible else b""))
    body = b"".join(out)
    if flexible:
        return struct.pack(">iiB", len(body) + 5, correlation_id, 0) + body
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


@lru_cache(maxsize=4096)
def topic_bytes(topic: Topic, flexible: bool) -> bytes:
    """Return how a response names a topic: its id, or its name with the length before it."""
    if isinstance(topic, UUID):
        return topic.bytes
    raw = topic.encode()
    return uvarint(len(raw) + 1) + raw if flexible else INT16.pack(len(raw)) + raw


def _message(message: str | None, flexible: bool) -> bytes:
    if message is None:
        return b"\0" if flexible else b"\xff\xff"
    raw = message.encode()
    return uvarint(len(raw) + 1) + raw if flexible else INT16.pack(len(raw)) + raw
