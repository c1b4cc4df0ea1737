"""Fetch requests read by hand: this is how every message is asked for.

Measured (bench/wire.py): kio's native parser is two to three times as fast, but makes objects that would have to be
turned into these, and aborts the process when a count lies, so that a request would have to be walked before it.
The twin that the tests compare this with is kio's own reader. The response is in `fetch_response.py`.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from kafka_classic.wire.errors import MalformedRequest
from kafka_classic.wire.fetch_response import Endpoint, PartitionOut, write_fetch_response
from kafka_classic.wire.produce import topic_id
from kafka_classic.wire.varint import Buffer, read_uvarint, skip_tags

__all__ = ["Endpoint", "FetchPartition", "FetchRequest", "PartitionOut", "read_fetch", "write_fetch_response"]

Topic = str | UUID

FIRST_FLEXIBLE: Final = 12
FIRST_WITH_IDS: Final = 13
FIRST_WITH_REPLICA_STATE: Final = 15
MAX_PARTITIONS: Final = 1 << 18  # as in produce.py

# A named tuple's own constructor is Python code and takes twice as long.
new: Final = tuple.__new__

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
REPLICA_STATE: Final = struct.Struct(">iq")

# replica id, max wait, min bytes, max bytes, isolation level(, session id, session epoch)
HEAD_4: Final = struct.Struct(">iiiib")
HEAD_7: Final = struct.Struct(">iiiibii")
HEAD_15: Final = struct.Struct(">iiibii")
# partition(, leader epoch), fetch offset(, last fetched epoch)(, log start offset), max bytes(, tag count)
PARTITION_4: Final = struct.Struct(">iqi")
PARTITION_5: Final = struct.Struct(">iqqi")
PARTITION_9: Final = struct.Struct(">iiqqi")
PARTITION_12: Final = struct.Struct(">iiqiqi")
PARTITION_12_NO_TAGS: Final = struct.Struct(">iiqiqix")


class FetchPartition(NamedTuple):
    """One partition that is asked for."""

    topic: Topic
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequest:
    """A Fetch request of any version."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "partitions",
        "rack_id",
        "replica_id",
        "session_epoch",
        "session_id",
    )

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[Topic, list[int]]]
    rack_id: str


def read_fetch(buf: Buffer, pos: int, end: int, version: int) -> FetchRequest:
    """Read the body that stands at `pos` up to `end`; raises MalformedRequest for anything that is off."""
    try:
        request, pos = (_read_flexible if version >= FIRST_FLEXIBLE else _read_classic)(buf, pos, end, version)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedRequest(f"the body of FETCH is garbage: {error}") from None
    if pos != end:
        raise MalformedRequest(f"the body of FETCH ends {abs(end - pos)} bytes away from the end of its frame")
    return request


def _read_classic(buf: Buffer, pos: int, end: int, version: int) -> tuple[FetchRequest, int]:
    request = FetchRequest()
    if version >= 7:
        (
            request.replica_id,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
        ) = HEAD_7.unpack_from(buf, pos)
        pos += HEAD_7.size
    else:
        (
            request.replica_id,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
        ) = HEAD_4.unpack_from(buf, pos)
        request.session_id, request.session_epoch = 0, -1
        pos += HEAD_4.size
    row = PARTITION_9 if version >= 9 else PARTITION_5 if version >= 5 else PARTITION_4
    (count,) = INT32.unpack_from(buf, pos)
    pos += 4
    _check_count(count, 6, end - pos)
    partitions: list[FetchPartition] = []
    request.partitions = partitions
    for _ in range(count):
        topic, pos = _classic_string(buf, pos, end)
        (parts,) = INT32.unpack_from(buf, pos)
        pos += 4
        _check_count(parts, row.size, end - pos, len(partitions))
        after = pos + parts * row.size
        rows = row.iter_unpack(buf[pos:after])
        if version >= 9:
            partitions += [
                new(FetchPartition, (topic, p, e, offset, -1, start, most)) for p, e, offset, start, most in rows
            ]
        elif version >= 5:
            partitions += [
                new(FetchPartition, (topic, p, -1, offset, -1, start, most)) for p, offset, start, most in rows
            ]
        else:
            partitions += [new(FetchPartition, (topic, p, -1, offset, -1, -1, most)) for p, offset, most in rows]
        pos = after
    request.forgotten = []
    if version >= 7:
        (count,) = INT32.unpack_from(buf, pos)
        pos += 4
        _check_count(count, 6, end - pos)
        have = 0
        for _ in range(count):
            topic, pos = _classic_string(buf, pos, end)
            (parts,) = INT32.unpack_from(buf, pos)
            pos += 4
            _check_count(parts, 4, end - pos, have)
            have += parts
            request.forgotten.append((topic, list(struct.unpack_from(f">{parts}i", buf, pos))))
            pos += parts * 4
    request.rack_id = ""
    if version >= 11:
        request.rack_id, pos = _classic_string(buf, pos, end)
    return request, pos


def _read_flexible(buf: Buffer, pos: int, end: int, version: int) -> tuple[FetchRequest, int]:
    request = FetchRequest()
    if version >= FIRST_WITH_REPLICA_STATE:
        request.replica_id = -1
        (
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
        ) = HEAD_15.unpack_from(buf, pos)
        pos += HEAD_15.size
    else:
        (
            request.replica_id,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
        ) = HEAD_7.unpack_from(buf, pos)
        pos += HEAD_7.size
    with_ids = version >= FIRST_WITH_IDS
    count, pos = read_uvarint(buf, pos)
    _check_count(count - 1, 3, end - pos)
    partitions: list[FetchPartition] = []
    request.partitions = partitions
    topic: Topic
    for _ in range(count - 1):
        topic, pos = _compact_topic(buf, pos, end, with_ids)
        parts, pos = read_uvarint(buf, pos)
        _check_count(parts - 1, PARTITION_12_NO_TAGS.size, end - pos, len(partitions))
        pos = _flexible_partitions(buf, pos, end, parts - 1, topic, partitions)
        pos = skip_tags(buf, pos, end)
    count, pos = read_uvarint(buf, pos)
    _check_count(count - 1, 3, end - pos)
    request.forgotten = []
    have = 0
    for _ in range(count - 1):
        topic, pos = _compact_topic(buf, pos, end, with_ids)
        parts, pos = read_uvarint(buf, pos)
        _check_count(parts - 1, 4, end - pos, have)
        have += parts
        request.forgotten.append((topic, list(struct.unpack_from(f">{parts - 1}i", buf, pos))))
        pos = skip_tags(buf, pos + (parts - 1) * 4, end)
    request.rack_id, pos = _compact_string(buf, pos, end)
    return request, _request_tags(buf, pos, end, request, version)


def _flexible_partitions(
    buf: Buffer, pos: int, end: int, count: int, topic: Topic, partitions: list[FetchPartition]
) -> int:
    # Consumers send no tags, so their partitions all have one size; a follower's have to be walked.
    size = PARTITION_12_NO_TAGS.size
    after = pos + count * size
    if not any(buf[pos + size - 1 : after : size]):
        partitions += [new(FetchPartition, (topic, *row)) for row in PARTITION_12_NO_TAGS.iter_unpack(buf[pos:after])]
        return after
    for _ in range(count):
        partitions.append(FetchPartition(topic, *PARTITION_12.unpack_from(buf, pos)))
        pos = skip_tags(buf, pos + PARTITION_12.size, end)
    return pos


def _request_tags(buf: Buffer, pos: int, end: int, request: FetchRequest, version: int) -> int:
    if buf[pos] == 0:
        return pos + 1
    after = skip_tags(buf, pos, end)  # all of it is there; now look for the follower's id
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if tag == 1 and version >= FIRST_WITH_REPLICA_STATE:
            request.replica_id = REPLICA_STATE.unpack_from(buf, pos)[0]
            if skip_tags(buf, pos + REPLICA_STATE.size, pos + size) != pos + size:
                raise MalformedRequest("the replica state is not as long as it says")
        pos += size
    return after


def _classic_string(buf: Buffer, pos: int, end: int) -> tuple[str, int]:
    (size,) = INT16.unpack_from(buf, pos)
    after = pos + 2 + size
    if size < 0 or after > end:
        raise MalformedRequest(f"a string has the length {size}")
    return str(buf[pos + 2 : after], "utf-8"), after


def _compact_string(buf: Buffer, pos: int, end: int) -> tuple[str, int]:
    size, pos = read_uvarint(buf, pos)
    after = pos + size - 1
    if size == 0 or after > end:
        raise MalformedRequest(f"a string has the length {size - 1}")
    return str(buf[pos:after], "utf-8"), after


def _compact_topic(buf: Buffer, pos: int, end: int, with_ids: bool) -> tuple[Topic, int]:
    if with_ids:
        return topic_id(bytes(buf[pos : pos + 16])), pos + 16
    return _compact_string(buf, pos, end)


def _check_count(count: int, least: int, room: int, have: int = 0) -> None:
    if count < 0 or count * least > room or count + have > MAX_PARTITIONS:
        raise MalformedRequest(f"an array claims {count} elements where {room} bytes follow")
