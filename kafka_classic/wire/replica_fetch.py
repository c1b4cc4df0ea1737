"""Fetch, version 13, as a follower sends it and reads it: by topic id, packed by hand, the records left where they are.

Version 13 is the last that names the follower in the body; ids rather than names, so that a topic which was deleted and
created anew is never taken for the old one.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import MalformedRequest
from kafka_classic.wire.produce import topic_id
from kafka_classic.wire.varint import read_uvarint, skip_tags, uvarint

VERSION: Final = 13
_HEADER: Final = struct.Struct(">hhih")
_HEAD: Final = struct.Struct(">iiiibii")  # replica, max wait, min and max bytes, isolation, session id and epoch
_ROW: Final = struct.Struct(">iiqiqix")  # index, leader epoch, offset, last epoch, log start, max bytes, no tags
_TAIL: Final = b"\1\1\0"  # nothing forgotten, no rack, no tags
_ANSWER: Final = struct.Struct(">ihi")  # throttle time, error, session id
_RESULT: Final = struct.Struct(">ihqqq")  # index, error, high watermark, last stable offset, log start
_NO_SESSION: Final = -1


class Wanted(NamedTuple):
    """One partition that a follower asks for."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    log_start: int


class Got(NamedTuple):
    """What the leader answers for it; `records` are whole batches, perhaps with a part of one at the end."""

    topic_id: UUID
    partition: int
    error: int
    high_watermark: int
    log_start: int
    records: memoryview


class Limits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


def pack_replica_fetch(
    correlation_id: int, client_id: bytes, replica_id: int, limits: Limits, wanted: Iterable[Wanted]
) -> bytes:
    """Return the whole frame; the partitions of one topic stand together."""
    max_wait, min_bytes, max_bytes, partition_max = limits
    topics: dict[UUID, list[bytes]] = {}
    for id, index, epoch, offset, start in wanted:
        topics.setdefault(id, []).append(_ROW.pack(index, epoch, offset, -1, start, partition_max))
    pieces = [
        _HEADER.pack(Api.FETCH, VERSION, correlation_id, len(client_id)),
        client_id,
        b"\0",
        _HEAD.pack(replica_id, max_wait, min_bytes, max_bytes, 0, 0, _NO_SESSION),
        uvarint(len(topics) + 1),
    ]
    for id, rows in topics.items():
        pieces += (id.bytes, uvarint(len(rows) + 1), *rows, b"\0")
    pieces.append(_TAIL)
    body = b"".join(pieces)
    return len(body).to_bytes(4, "big") + body


def read_replica_fetch(frame: bytearray) -> tuple[int, list[Got]]:
    """Return the error of the whole answer and its rows; `frame` is without its size bytes."""
    view = memoryview(frame)
    try:
        pos = skip_tags(frame, 4, len(frame))
        _, failure, _ = _ANSWER.unpack_from(frame, pos)
        topics, pos = read_uvarint(frame, pos + _ANSWER.size)
        rows: list[Got] = []
        for _ in range(topics - 1):
            id = topic_id(bytes(view[pos : pos + 16]))
            count, pos = read_uvarint(frame, pos + 16)
            for _ in range(count - 1):
                index, error, high_watermark, _, start = _RESULT.unpack_from(frame, pos)
                aborted, pos = read_uvarint(frame, pos + _RESULT.size)
                if aborted > 1:
                    raise MalformedRequest("a leader's answer names aborted transactions")
                size, pos = read_uvarint(frame, pos + 4)  # past the preferred replica
                end = pos + max(size - 1, 0)
                if end > len(frame):
                    raise MalformedRequest("a leader's records run past the end of its answer")
                rows.append(Got(id, index, error, high_watermark, start, view[pos:end]))
                pos = skip_tags(frame, end, len(frame))
            pos = skip_tags(frame, pos, len(frame))
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedRequest(f"a leader's answer to FETCH is garbage: {error}") from None
    return failure, rows
