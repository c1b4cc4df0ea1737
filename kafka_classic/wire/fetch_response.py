"""Fetch responses packed by hand, without the records: this is the way of every message out of the broker.

The frame comes in pieces, and the caller sends each partition's records between two of them straight from the file, by
sendfile (P10). The frame's size, in the first piece, counts the records too. Measured in bench/wire.py; the twin that
the tests compare this with is kio's own writer.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kafka_classic.wire.produce import topic_bytes
from kafka_classic.wire.varint import uvarint

Topic = str | UUID

FIRST_FLEXIBLE: Final = 12
FIRST_WITH_ENDPOINTS: Final = 16
NO_TAGS: Final = b"\0"

INT32: Final = struct.Struct(">i")
# size, correlation id(, header tags), throttle time(, error, session id)
HEAD_4: Final = struct.Struct(">iii")
HEAD_7: Final = struct.Struct(">iiihi")
HEAD_12: Final = struct.Struct(">iiBihi")
# partition, error, high watermark, last stable offset(, log start offset), no aborted transactions(, preferred replica)
# and, in classic versions, the size of the records
PARTITION_4: Final = struct.Struct(">ihqqii")
PARTITION_5: Final = struct.Struct(">ihqqqii")
PARTITION_11: Final = struct.Struct(">ihqqqiii")
PARTITION_12: Final = struct.Struct(">ihqqqBi")


class PartitionOut(NamedTuple):
    """One partition of a response, without its records: those are sent from the file."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records_size: int
    preferred_read_replica: int = -1
    tags: bytes = NO_TAGS  # from version 12 on: see `partition_tags`


class Endpoint(NamedTuple):
    """Where a broker listens, told along so that a client finds a new leader without asking again (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def write_fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error: int,
    session_id: int,
    topics: Sequence[tuple[Topic, Sequence[PartitionOut]]],
    node_endpoints: Sequence[Endpoint] = (),
) -> list[bytes]:
    """Return the frame in one piece more than there are partitions with records; each one's records go in between."""
    if version >= FIRST_FLEXIBLE:
        pieces, size = _flexible(version, topics, node_endpoints)
    else:
        pieces, size = _classic(version, topics)
    for piece in pieces:
        size += len(piece)
    # The head comes last because only now the size is known; it counts itself, but not its own size bytes.
    if version >= FIRST_FLEXIBLE:
        head = HEAD_12.pack(size + HEAD_12.size - 4, correlation_id, 0, throttle_ms, error, session_id)
    elif version >= 7:
        head = HEAD_7.pack(size + HEAD_7.size - 4, correlation_id, throttle_ms, error, session_id)
    else:
        head = HEAD_4.pack(size + HEAD_4.size - 4, correlation_id, throttle_ms)
    pieces[0] = head + pieces[0]
    return pieces


def _flexible(
    version: int, topics: Sequence[tuple[Topic, Sequence[PartitionOut]]], node_endpoints: Sequence[Endpoint]
) -> tuple[list[bytes], int]:
    pieces: list[bytes] = []
    run = [uvarint(len(topics) + 1)]
    all_records = 0
    for topic, partitions in topics:
        run += (topic_bytes(topic, True), uvarint(len(partitions) + 1))
        for index, code, high_watermark, stable, start, records, replica, tags in partitions:
            run += (PARTITION_12.pack(index, code, high_watermark, stable, start, 0, replica), uvarint(records + 1))
            if records:
                all_records += records
                pieces.append(b"".join(run))
                run = [tags]
            else:
                run.append(tags)
        run.append(NO_TAGS)
    run.append(_endpoints(node_endpoints) if node_endpoints and version >= FIRST_WITH_ENDPOINTS else NO_TAGS)
    pieces.append(b"".join(run))
    return pieces, all_records


def _classic(version: int, topics: Sequence[tuple[Topic, Sequence[PartitionOut]]]) -> tuple[list[bytes], int]:
    pieces: list[bytes] = []
    run = [INT32.pack(len(topics))]
    all_records = 0
    for topic, partitions in topics:
        run += (topic_bytes(topic, False), INT32.pack(len(partitions)))
        for index, code, high_watermark, stable, start, records, replica, _ in partitions:
            if version >= 11:
                run.append(PARTITION_11.pack(index, code, high_watermark, stable, start, -1, replica, records))
            elif version >= 5:
                run.append(PARTITION_5.pack(index, code, high_watermark, stable, start, -1, records))
            else:
                run.append(PARTITION_4.pack(index, code, high_watermark, stable, -1, records))
            if records:
                all_records += records
                pieces.append(b"".join(run))
                run = []
    pieces.append(b"".join(run))
    return pieces, all_records


def partition_tags(
    diverging_epoch: tuple[int, int] | None = None, current_leader: tuple[int, int] | None = None
) -> bytes:
    """Return a partition's tag buffer: (epoch, end offset) where histories part, and (leader id, leader epoch)."""
    tags = []
    if diverging_epoch is not None:
        tags.append(b"\0\x0d" + struct.pack(">iq", *diverging_epoch) + NO_TAGS)
    if current_leader is not None:
        tags.append(b"\1\x09" + struct.pack(">ii", *current_leader) + NO_TAGS)
    return uvarint(len(tags)) + b"".join(tags)


def _endpoints(endpoints: Sequence[Endpoint]) -> bytes:
    content = bytearray(uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        content += INT32.pack(node_id) + topic_bytes(host, True) + INT32.pack(port)
        content += (NO_TAGS if rack is None else topic_bytes(rack, True)) + NO_TAGS
    return b"\1\0" + uvarint(len(content)) + content
