"""Fetch by hand reads and writes what kio does."""

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response
from kafka_classic.wire.errors import Error, MalformedRequest
from kafka_classic.wire.fetch import (
    Endpoint,
    FetchPartition,
    FetchRequest,
    PartitionOut,
    read_fetch,
    write_fetch_response,
)
from kafka_classic.wire.fetch_response import partition_tags
from kafka_classic.wire.schema import message_class
from kafka_classic.wire.varint import uvarint
from tests.wire.messages import kio_bytes, kio_read, messages, some

VERSIONS = range(4, 19)
NIL = UUID(int=0)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def _plain(request: FetchRequest) -> tuple[Any, ...]:
    return tuple(getattr(request, name) for name in sorted(FetchRequest.__slots__))


def _plain_of_kio(request: Any) -> tuple[Any, ...]:
    def name(topic: Any) -> str | UUID:
        return topic.topic if hasattr(topic, "topic") else topic.topic_id or NIL

    expected = FetchRequest()
    expected.replica_id = request.replica_state.replica_id if hasattr(request, "replica_state") else request.replica_id
    expected.max_wait_ms = request.max_wait // timedelta(milliseconds=1)
    expected.min_bytes, expected.max_bytes = request.min_bytes, request.max_bytes
    expected.isolation_level = request.isolation_level
    expected.session_id = getattr(request, "session_id", 0)
    expected.session_epoch = getattr(request, "session_epoch", -1)
    expected.rack_id = getattr(request, "rack_id", "")
    forgotten = getattr(request, "forgotten_topics_data", ())
    expected.forgotten = [(name(topic), list(topic.partitions)) for topic in forgotten]
    expected.partitions = [
        FetchPartition(
            name(topic),
            part.partition,
            getattr(part, "current_leader_epoch", -1),
            part.fetch_offset,
            getattr(part, "last_fetched_epoch", -1),
            getattr(part, "log_start_offset", -1),
            part.partition_max_bytes,
        )
        for topic in request.topics
        for part in topic.partitions
    ]
    return _plain(expected)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@some
def test_a_request_is_read_as_kio_reads_it_wherever_it_stands(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(Api.FETCH, version, "request"))
    raw = kio_bytes(message)
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    buf = bytearray(before + raw + after)
    start, end = len(before), len(before) + len(raw)
    assert _plain(read_fetch(buf, start, end, version)) == _plain_of_kio(message)
    assert _plain(read_fetch(memoryview(buf), start, end, version)) == _plain_of_kio(message)
    for cut in range(start, end, 1 + len(raw) // 40):
        with pytest.raises(MalformedRequest):
            read_fetch(buf, start, cut, version)


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize("where", range(8))
def test_unknown_tagged_fields_at_every_level_are_skipped(version: int, where: int) -> None:
    tags = [b"\0"] * 4
    tags[where % 4] = [b"\1\x63\3abc", b"\2\x62\0\x63\1x"][where // 4]
    name = UUID(int=9).bytes if version >= 13 else b"\2t"
    topic = UUID(int=9) if version >= 13 else "t"
    head = struct.pack(">iiibii", 1, 2, 3, 0, 4, 5)
    raw = head if version >= 15 else struct.pack(">i", -1) + head
    row = struct.pack(">iiqiqi", 6, 7, 8, 9, 10, 11)
    raw += b"\2" + name + b"\3" + row + tags[0] + row + b"\0" + tags[1]
    raw += b"\2" + name + b"\2" + struct.pack(">i", 12) + tags[2]
    raw += b"\2r" + tags[3]
    request = read_fetch(raw, 0, len(raw), version)
    assert request.partitions == [FetchPartition(topic, 6, 7, 8, 9, 10, 11)] * 2
    assert request.forgotten == [(topic, [12])]
    assert (request.replica_id, request.max_wait_ms, request.session_epoch, request.rack_id) == (-1, 1, 5, "r")


def test_a_replica_state_that_lies_about_its_length_is_refused() -> None:
    raw = struct.pack(">iiibii", 1, 2, 3, 0, 4, 5) + b"\1\1\1"
    good = raw + b"\1\1\x0d" + struct.pack(">iq", 3, 4) + b"\0"
    assert read_fetch(good, 0, len(good), 15).replica_id == 3
    for size in (4, 12, 14):
        lie = raw + b"\1\1" + bytes([size]) + struct.pack(">iq", 3, 4) + bytes(size - 12 if size > 12 else 0)
        with pytest.raises(MalformedRequest):
            read_fetch(lie, 0, len(lie), 15)


@pytest.mark.parametrize("count", [2**31 - 1, 300_000, -1, -(2**31)])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_counts_that_lie_are_refused(count: int, level: int) -> None:
    lie = struct.pack(">i", count)
    raw = struct.pack(">iiiibii", -1, 1, 2, 3, 0, 4, 5)
    raw += [
        lie,
        struct.pack(">i", 1) + b"\0\1t" + lie,
        bytes(4) + lie,
        bytes(4) + struct.pack(">i", 1) + b"\0\1t" + lie,
    ][level]
    raw += bytes(100)
    with pytest.raises(MalformedRequest):
        read_fetch(raw, 0, len(raw), 7)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("lie", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\x01", b"\0", b"\xe0\xa7\x12"])
def test_compact_counts_that_lie_are_refused(lie: bytes, level: int) -> None:
    raw = struct.pack(">iiiibii", -1, 1, 2, 3, 0, 4, 5)
    raw += [lie, b"\2\2t" + lie, b"\1" + lie, b"\1\2\2t" + lie][level] + bytes(100)
    with pytest.raises(MalformedRequest):
        read_fetch(raw, 0, len(raw), 12)


def test_a_request_of_more_partitions_than_any_client_sends_is_refused() -> None:
    count = 300_000
    raw = struct.pack(">iiiib", -1, 1, 2, 3, 0) + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">i", count)
    raw += bytes(16 * count)
    with pytest.raises(MalformedRequest):
        read_fetch(raw, 0, len(raw), 4)


outs = st.builds(
    PartitionOut,
    partition=int32,
    error=st.sampled_from(Error).map(int),
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    records_size=st.sampled_from([0, 1, 126, 127, 128, 20_000]),
    preferred_read_replica=int32,
    tags=st.just(b"\0"),
)


def _whole(chunks: list[bytes], topics: list[tuple[str | UUID, list[PartitionOut]]]) -> bytes:
    """Put the records between the chunks, as the broker does with sendfile."""
    sizes = [out.records_size for _, parts in topics for out in parts if out.records_size]
    assert len(chunks) == len(sizes) + 1
    return chunks[0] + b"".join(b"r" * size + chunk for size, chunk in zip(sizes, chunks[1:], strict=True))


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@some
def test_a_response_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    names: Any = st.uuids(allow_nil=False) if version >= 13 else st.text(max_size=100)
    topics = data.draw(st.lists(st.tuples(names, st.lists(outs, max_size=3)), max_size=3))
    error, session = data.draw(st.sampled_from(Error)), data.draw(int32)
    nodes = data.draw(st.lists(st.builds(Endpoint, int32, st.text(max_size=9), int32, st.none() | st.text(max_size=9))))
    frame = _whole(write_fetch_response(version, 42, 77, error, session, topics, nodes), topics)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 42)
    body = frame[9:] if version >= 12 else frame[8:]
    answer = kio_read(message_class(Api.FETCH, version, "response"), body)
    assert kio_bytes(answer) == body
    assert answer.throttle_time == timedelta(milliseconds=77)
    assert version < 7 or (answer.error_code, answer.session_id) == (error, session)
    if version >= 16:
        assert [(n.node_id, n.host, n.port, n.rack) for n in answer.node_endpoints] == nodes
    assert len(topics) == len(answer.responses)
    for (name, parts), theirs in zip(topics, answer.responses, strict=True):
        assert name == (theirs.topic_id if version >= 13 else theirs.topic)
        for out, part in zip(parts, theirs.partitions, strict=True):
            assert (out.partition, out.error) == (part.partition_index, part.error_code)
            assert (out.high_watermark, out.last_stable_offset) == (part.high_watermark, part.last_stable_offset)
            assert part.aborted_transactions is None
            assert version < 5 or part.log_start_offset == out.log_start_offset
            assert version < 11 or part.preferred_read_replica == out.preferred_read_replica
            assert part.records == b"r" * out.records_size


@pytest.mark.parametrize("version", range(12, 19))
def test_followers_are_told_where_histories_part_and_who_leads(version: int) -> None:
    topic: str | UUID = UUID(int=1) if version >= 13 else "t"
    tags = partition_tags(diverging_epoch=(3, 44), current_leader=(5, 6))
    out = PartitionOut(0, 0, 1, 1, 0, 0, tags=tags)
    [frame] = write_fetch_response(version, 42, 0, 0, 0, [(topic, [out])])
    part = read_response(Api.FETCH, version, frame[4:])[1].responses[0].partitions[0]
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (3, 44)
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (5, 6)


def test_the_size_of_a_frame_counts_the_records_that_are_sent_between_its_chunks() -> None:
    out = PartitionOut(0, 0, 1, 1, 0, 1 << 30)
    for version in VERSIONS:
        topic: str | UUID = UUID(int=1) if version >= 13 else "t"
        chunks = write_fetch_response(version, 42, 0, 0, 0, [(topic, [out])])
        assert struct.unpack_from(">i", chunks[0])[0] == sum(map(len, chunks)) + (1 << 30) - 4
        length = uvarint((1 << 30) + 1) if version >= 12 else struct.pack(">i", 1 << 30)
        assert chunks[0].endswith(length)
