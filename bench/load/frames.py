"""Requests packed once and sent many times, so that the client costs next to nothing."""

from __future__ import annotations

import os
import time
from struct import Struct

from kafka_classic.records.encode import encode_batch

PRODUCE, FETCH = 0, 1
HEAD = Struct(">hhih")
FETCH_HEAD = Struct(">iiiibii")
FETCH_PARTITION = Struct(">iiqqi")
CLIENT_ID = b"bench"
INT = Struct(">i")
LONG = Struct(">q")


def batch(count: int, size: int) -> bytes:
    """One batch of `count` messages of `size` random bytes."""
    now = int(time.time() * 1000)
    value = os.urandom(size)
    return encode_batch([(None, value, (), now)] * count)


def batch_below(limit: int, size: int) -> tuple[bytes, int]:
    """The largest batch of `size`-byte messages under `limit` bytes, and how many they are."""
    count = limit // (size + 10)
    return batch(count, size), count


def produce_frame(
    version: int, topic: str, partition: int, records: bytes, acks: int = 1, correlation: int = 1
) -> bytes:
    """A Produce request of one batch; from version 9 on in the flexible form."""
    out = bytearray(HEAD.pack(PRODUCE, version, correlation, len(CLIENT_ID)) + CLIENT_ID)
    name = topic.encode()
    if version >= 9:
        out += b"\0\0" + acks.to_bytes(2, "big", signed=True) + INT.pack(30_000)
        out += b"\2" + _uvarint(len(name) + 1) + name + b"\2" + INT.pack(partition)
        out += _uvarint(len(records) + 1) + records + b"\0\0\0"
    else:
        out += b"\xff\xff" + acks.to_bytes(2, "big", signed=True) + INT.pack(30_000)
        out += INT.pack(1) + len(name).to_bytes(2, "big") + name
        out += INT.pack(1) + INT.pack(partition) + INT.pack(len(records)) + records
    return INT.pack(len(out)) + bytes(out)


def base_offset_at(version: int, topic: str) -> int:
    """Where the base offset stands in the answer to `produce_frame` (frame size included)."""
    if version >= 9:
        return 4 + 4 + 1 + 1 + len(_uvarint(len(topic) + 1)) + len(topic) + 1 + 4 + 2
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int, max_wait_ms: int = 500) -> bytes:
    """A Fetch request of version 11, without a session."""
    name = topic.encode()
    body = HEAD.pack(FETCH, 11, 1, len(CLIENT_ID)) + CLIENT_ID
    body += FETCH_HEAD.pack(-1, max_wait_ms, 1, max_bytes, 0, 0, -1)
    body += INT.pack(1) + len(name).to_bytes(2, "big") + name + INT.pack(1)
    body += FETCH_PARTITION.pack(partition, -1, offset, -1, max_bytes)
    body += INT.pack(0) + b"\0\0"
    return INT.pack(len(body)) + body


# size, correlation id, throttle time, error, session id, topics | name | partitions, then this
FETCH_ANSWER_HEAD = 4 + 4 + 4 + 2 + 4 + 4 + 2 + 4
FETCH_ANSWER_PARTITION = Struct(">ihqqqiii")


def fetch_answer_head(topic: str) -> int:
    """How many bytes of the answer to `fetch_frame` come before the records."""
    return FETCH_ANSWER_HEAD + len(topic) + FETCH_ANSWER_PARTITION.size


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
