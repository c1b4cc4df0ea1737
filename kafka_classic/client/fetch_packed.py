"""Fetch, version 11, packed by hand: the records of an answer stay where they were received, nothing copies them.

Version 11 is the newest that is not flexible; every broker since Kafka 2.3 speaks it, and it carries all five codecs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from kafka_classic.client.connection import Bytes
from kafka_classic.client.frames import Frame
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.offsets import by_topic
from kafka_classic.client.produce_packed import read_string

VERSION = 11
_HEAD = struct.Struct(">iiiibiii")  # replica, max wait, min and max bytes, isolation, session id and epoch, topics
_PARTITION = struct.Struct(">iiqqi")  # index, leader epoch, fetch offset, log start offset, max bytes
_TAIL = struct.pack(">ih", 0, 0)  # nothing forgotten, no rack
_ANSWER = struct.Struct(">ihii")  # throttle time, error, session id, count of topics
_RESULT = struct.Struct(">ihqqqi")  # index, error, high watermark, last stable, log start, count of aborted
_CONSUMER, _NO_SESSION = -1, -1
_ABORTED_SIZE = 16


class FetchLimits(NamedTuple):
    """How long a broker may wait for how much, and how much it may answer; Kafka's names and defaults."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    partition_max_bytes: int = 1 << 20


class Fetched(NamedTuple):
    """A leader's answer for one partition; `records` are whole batches, perhaps with a part of one at the end."""

    error: int
    high_watermark: int
    log_start_offset: int
    records: Frame


def pack_fetch(offsets: Mapping[TopicPartition, int], limits: FetchLimits) -> list[Bytes]:
    """Return the pieces of a request's body: from which offset on, for each partition."""
    topics = by_topic(offsets)
    pieces: list[Bytes] = [
        _HEAD.pack(_CONSUMER, limits.max_wait_ms, limits.min_bytes, limits.max_bytes, 0, 0, _NO_SESSION, len(topics))
    ]
    for topic, partitions in topics.items():
        name = topic.encode()
        pieces.append(struct.pack(f">h{len(name)}si", len(name), name, len(partitions)))
        pieces += (_PARTITION.pack(index, -1, offset, -1, limits.partition_max_bytes) for index, offset in partitions)
    pieces.append(_TAIL)
    return pieces


def read_fetched(body: Frame) -> tuple[int, dict[TopicPartition, Fetched]]:
    """Return the error of the whole answer, and the answer for each partition."""
    view = memoryview(body)
    found: dict[TopicPartition, Fetched] = {}
    _, failure, _, topics = _ANSWER.unpack_from(view)
    pos = _ANSWER.size
    for _ in range(topics):
        topic, pos = read_string(view, pos)
        (partitions,) = struct.unpack_from(">i", view, pos)
        pos += 4
        for _ in range(partitions):
            index, error, high_watermark, _, log_start, aborted = _RESULT.unpack_from(view, pos)
            pos += _RESULT.size + max(aborted, 0) * _ABORTED_SIZE + 4  # and the preferred replica
            (size,) = struct.unpack_from(">i", view, pos)
            pos += 4
            records = view[pos : pos + max(size, 0)]
            if len(records) < size:
                raise ValueError(f"records of {size} bytes run past the end")
            pos += len(records)
            found[topic or "", index] = Fetched(error, high_watermark, log_start, records)
    return failure, found
