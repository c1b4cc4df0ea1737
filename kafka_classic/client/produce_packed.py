"""Produce, version 8, packed by hand: kio's writer copies the records twice, and they are all there is to it.

Version 8 is the newest that is not flexible; every broker since Kafka 2.4 speaks it, and it carries all five codecs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from kafka_classic.client.connection import Bytes
from kafka_classic.client.frames import Frame
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.offsets import by_topic

VERSION = 8
_HEAD = struct.Struct(">hhii")  # no transactional id, acks, timeout, count of topics
_PARTITION = struct.Struct(">ii")  # index, size of the records
_SIZE = struct.Struct(">i")
_RESULT = struct.Struct(">ihqqqi")  # index, error, base offset, log append time, log start, count of record errors


class Produced(NamedTuple):
    """A leader's answer for one partition; offsets are -1 where there is an error."""

    error: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str | None


def pack_produce(batches: Mapping[TopicPartition, bytes], acks: int, timeout_ms: int) -> list[Bytes]:
    """Return the pieces of a request's body; the batches are not copied."""
    if len(batches) == 1:
        # With one message a request, the rest of the body would cost more than the message.
        ((at, batch),) = batches.items()
        return [_head_of_one(*at, acks, timeout_ms) + _SIZE.pack(len(batch)), batch]
    topics = by_topic(batches)
    pieces: list[Bytes] = [_HEAD.pack(-1, acks, timeout_ms, len(topics))]
    for topic, partitions in topics.items():
        name = topic.encode()
        pieces.append(struct.pack(f">h{len(name)}si", len(name), name, len(partitions)))
        for index, batch in partitions:
            pieces += _PARTITION.pack(index, len(batch)), batch
    return pieces


@lru_cache(maxsize=1024)
def _head_of_one(topic: str, index: int, acks: int, timeout_ms: int) -> bytes:
    name = topic.encode()
    return _HEAD.pack(-1, acks, timeout_ms, 1) + struct.pack(f">h{len(name)}sii", len(name), name, 1, index)


def read_produced(body: Frame) -> dict[TopicPartition, Produced]:
    """Return the answer for each partition."""
    found: dict[TopicPartition, Produced] = {}
    (topics,) = struct.unpack_from(">i", body)
    pos = 4
    for _ in range(topics):
        topic, pos = read_string(body, pos)
        (partitions,) = struct.unpack_from(">i", body, pos)
        pos += 4
        for _ in range(partitions):
            index, error, base_offset, append_time, log_start, errors = _RESULT.unpack_from(body, pos)
            pos += _RESULT.size
            reasons: list[str | None] = []
            for _ in range(errors):
                reason, pos = read_string(body, pos + 4)
                reasons.append(reason)
            message, pos = read_string(body, pos)
            words = [word for word in (message, *reasons) if word]
            found[topic or "", index] = Produced(error, base_offset, append_time, log_start, "; ".join(words) or None)
    return found


def read_string(body: Frame, pos: int) -> tuple[str | None, int]:
    """Return a string that may be null, and where it ends."""
    (size,) = struct.unpack_from(">h", body, pos)
    pos += 2
    if size < 0:
        return None, pos
    if pos + size > len(body):
        raise ValueError(f"a string of {size} bytes runs past the end")
    return str(body[pos : pos + size], "utf-8"), pos + size
