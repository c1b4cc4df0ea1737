"""Produce by hand reads and writes what kio does, and recognises a request that comes again."""

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_request_header
from kafka_classic.wire.errors import Error, MalformedRequest
from kafka_classic.wire.produce import (
    PartitionResult,
    ProduceRequest,
    ProduceShape,
    read_produce,
    write_produce_response,
)
from kafka_classic.wire.readers import EPOCH
from kafka_classic.wire.schema import message_class
from kafka_classic.wire.varint import uvarint
from tests.wire.messages import kio_bytes, kio_read, messages, request_frame, some

VERSIONS = range(3, 14)
FLEXIBLE = range(9, 14)
Plain = tuple[str | None, int, int, list[tuple[str | UUID, list[tuple[int, bytes]]]]]

numbers = st.integers(-(2**63), 2**63 - 1)
tag_buffers = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=5)), max_size=2).map(
    lambda tags: uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in tags)
)


def _plain(request: ProduceRequest, buf: bytes | bytearray) -> Plain:
    topics = [(name, [(p, bytes(buf[start:end])) for p, start, end in parts]) for name, parts in request.topics]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def _plain_of_kio(request: Any) -> Plain:
    topics = [
        (
            topic.name if hasattr(topic, "name") else topic.topic_id or UUID(int=0),
            [(part.index, part.records or b"") for part in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, request.timeout // timedelta(milliseconds=1), topics


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@some
def test_a_request_is_read_as_kio_reads_it_wherever_it_stands(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(Api.PRODUCE, version, "request"))
    raw = kio_bytes(message)
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    buf = bytearray(before + raw + after)
    request = read_produce(buf, len(before), len(before) + len(raw), version)
    assert _plain(request, buf) == _plain_of_kio(message)
    for end in range(len(before), len(before) + len(raw), 1 + len(raw) // 40):
        with pytest.raises(MalformedRequest):
            read_produce(buf, len(before), end, version)


@pytest.mark.parametrize("version", FLEXIBLE)
@given(data=st.data())
@some
def test_tagged_fields_at_every_level_are_skipped(version: int, data: st.DataObject) -> None:
    tags = [data.draw(tag_buffers) for _ in range(3)]
    name = bytes(range(16)) if version >= 13 else b"\2t"
    records = data.draw(st.binary(max_size=300))
    raw = b"\0" + struct.pack(">hi", -1, 30) + b"\2" + name + b"\2" + struct.pack(">i", 5) + uvarint(len(records) + 1)
    raw += records + tags[0] + tags[1] + tags[2]
    topic = UUID(bytes=bytes(range(16))) if version >= 13 else "t"
    assert _plain(read_produce(raw, 0, len(raw), version), raw) == (None, -1, 30, [(topic, [(5, records)])])


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_are_an_empty_range(version: int) -> None:
    if version < 9:
        raw = b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, -1)
    else:
        name = bytes(15) + b"\1" if version >= 13 else b"\2t"
        raw = b"\0" + struct.pack(">hi", 1, 1) + b"\2" + name + b"\2" + bytes(4) + b"\0\0\0\0"
    [(_, [(partition, start, end)])] = read_produce(raw, 0, len(raw), version).topics
    assert (partition, start == end) == (0, True)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xff" + struct.pack(">hii", 1, 1, 2**31 - 1),
        b"\xff\xff" + struct.pack(">hii", 1, 1, -1),
        b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\xff\xff" + bytes(4),
        b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\0\1t" + struct.pack(">i", 2**31 - 1) + bytes(50),
        b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, 2**31 - 1),
        b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, -2),
        b"\xff\xfe" + struct.pack(">hii", 1, 1, 0),
    ],
)
def test_counts_and_lengths_that_lie_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_produce(raw, 0, len(raw), 3)


@pytest.mark.parametrize(
    "rest",
    [
        b"\xff\xff\xff\xff\x07",
        b"\xff\xff\xff\xff\xff\xff",
        b"\0\0",
        b"\2\0\1\0\0",
        b"\2\2t\xff\xff\xff\xff\x07",
        b"\2\2t\0\0\0",
        b"\2\2t\2\0\0\0\0\xff\xff\xff\xff\x07",
        b"\1\xff\xff\xff\xff\x07",
        b"\1\1\0\xff\xff\xff\xff\x07",
    ],
)
def test_compact_counts_and_lengths_that_lie_are_refused(rest: bytes) -> None:
    raw = b"\0" + struct.pack(">hi", 1, 1) + rest
    with pytest.raises(MalformedRequest):
        read_produce(raw, 0, len(raw), 9)


def test_a_request_of_more_partitions_than_any_client_sends_is_refused() -> None:
    count = 300_000
    raw = b"\xff\xff" + struct.pack(">hii", 1, 1, 1) + b"\0\1t" + struct.pack(">i", count) + bytes(8 * count)
    with pytest.raises(MalformedRequest):
        read_produce(raw, 0, len(raw), 3)


results = st.builds(
    PartitionResult,
    partition=st.integers(-(2**31), 2**31 - 1),
    error=st.sampled_from(Error).map(int),
    base_offset=numbers,
    log_append_time_ms=st.just(-1) | st.integers(0, 2**42),
    log_start_offset=numbers,
    message=st.none() | st.text(max_size=200),
)
names = st.text(max_size=200)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@some
def test_a_response_is_written_as_kio_writes_it(version: int, data: st.DataObject) -> None:
    topic_names: Any = st.uuids(allow_nil=False) if version >= 13 else names
    topics = data.draw(st.lists(st.tuples(topic_names, st.lists(results, max_size=3)), max_size=3))
    throttle = data.draw(st.integers(0, 2**31 - 1))
    frame = write_produce_response(version, 42, topics, throttle)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 42)
    body = frame[9:] if version >= 9 else frame[8:]
    cls: Any = message_class(Api.PRODUCE, version, "response")
    answer = kio_read(cls, body)
    assert kio_bytes(answer) == body
    assert answer.throttle_time == timedelta(milliseconds=throttle)
    assert len(answer.responses) == len(topics)
    for ours, theirs in zip(topics, answer.responses, strict=True):
        assert ours[0] == (theirs.topic_id if version >= 13 else theirs.name)
        for result, part in zip(ours[1], theirs.partition_responses, strict=True):
            assert (result.partition, result.error) == (part.index, part.error_code)
            assert result.base_offset == part.base_offset
            time = part.log_append_time
            assert result.log_append_time_ms == (-1 if time is None else (time - EPOCH) // timedelta(milliseconds=1))
            assert version < 5 or part.log_start_offset == result.log_start_offset
            assert version < 8 or part.error_message == result.message


def _frame(version: int, records: bytes, correlation_id: int, tags: bytes = b"\0") -> bytes:
    """Return a whole frame with one partition, size and all."""
    if version < 9:
        body = b"\xff\xff" + struct.pack(">hii", 1, 30, 1) + b"\0\1t" + struct.pack(">iii", 1, 3, len(records))
        body += records
    else:
        name = bytes(range(16)) if version >= 13 else b"\2t"
        body = b"\0" + struct.pack(">hi", 1, 30) + b"\2" + name + b"\2" + struct.pack(">i", 3)
        body += uvarint(len(records) + 1) + records + tags + b"\0\0"
    frame = request_frame(Api.PRODUCE, version, body)
    frame = frame[:4] + struct.pack(">i", correlation_id) + frame[8:]
    return struct.pack(">i", len(frame)) + frame


def _shape(version: int, frame: bytes) -> ProduceShape | None:
    header = read_request_header(frame, 4)
    request = read_produce(frame, header.body_at, len(frame), version)
    return ProduceShape.of(frame, 4, len(frame), header, request)


def _recognise(shape: ProduceShape, buf: bytearray, off: int) -> tuple[int, bytes] | None:
    """What the broker's loop does."""
    size, key_version, correlation_id = struct.unpack_from(">iIi", buf, off)
    if key_version != shape.key_version or not buf.startswith(shape.prefix, off + 12):
        return None
    found = shape.records_at(buf, off + 12 + len(shape.prefix), off + 4 + size)
    return None if found is None else (correlation_id, bytes(buf[found[0] : found[1]]))


@pytest.mark.parametrize("version", VERSIONS)
@given(
    first=st.binary(min_size=1, max_size=300), second=st.binary(min_size=1, max_size=20_000), junk=st.binary(max_size=9)
)
@some
def test_a_request_that_comes_again_with_other_records_is_recognised(
    version: int, first: bytes, second: bytes, junk: bytes
) -> None:
    shape = _shape(version, _frame(version, first, 1))
    assert shape is not None
    assert (shape.acks, shape.timeout_ms, shape.partition, shape.transactional_id) == (1, 30, 3, None)
    assert shape.topic == (UUID(bytes=bytes(range(16))) if version >= 13 else "t")
    buf = bytearray(junk + _frame(version, second, 77) + junk)
    assert _recognise(shape, buf, len(junk)) == (77, second)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_shape_packs_the_same_answers_as_the_writer_does(version: int) -> None:
    shape = _shape(version, _frame(version, b"records", 1))
    assert shape is not None
    ok = [(shape.topic, [PartitionResult(3, 0, 99, 1234, 5)])]
    assert shape.pack_ok(77, 99, 1234, 5) == write_produce_response(version, 77, ok)
    failed = [(shape.topic, [PartitionResult(3, 56, -1, -1, -1)])]
    assert shape.pack_error(77, 56) == write_produce_response(version, 77, failed)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_another_shape_is_not_recognised(version: int) -> None:
    whole = _frame(version, b"records", 1)
    shape = _shape(version, whole)
    assert shape is not None
    other = {_frame(v, b"records", 1) for v in VERSIONS if v != version}
    other |= {whole.replace(b"test", b"tess"), _frame(version, b"", 1)}
    if version >= 9:
        other.add(_frame(version, b"records", 1, b"\1\x63\0"))
        other.add(_frame(version, b"records", 1).replace(b"\x08records", b"\x88\x80\x80\x80\x80\0records"))
    for frame in other:
        assert _recognise(shape, bytearray(frame + bytes(20)), 0) is None


@pytest.mark.parametrize("version", VERSIONS)
@given(at=st.integers(0, 100), byte=st.integers(0, 255))
@some
def test_a_changed_byte_is_either_in_the_records_or_read_as_the_parser_reads_it(
    version: int, at: int, byte: int
) -> None:
    whole = _frame(version, b"records" * 3, 1)
    shape = _shape(version, whole)
    assert shape is not None
    buf = bytearray(whole)
    at = 4 + at % (len(whole) - 4)
    buf[at] = byte
    found = _recognise(shape, buf, 0)
    if found is not None:
        header = read_request_header(buf, 4)
        request = read_produce(buf, header.body_at, len(buf), version)
        assert _plain(request, buf)[3] == [(shape.topic, [(3, found[1])])]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_no_or_many_partitions_or_no_records_have_no_shape(version: int) -> None:
    assert _shape(version, _frame(version, b"", 1)) is None
    name: Any = {"topic_id": UUID(int=1)} if version >= 13 else {"name": "t"}
    cls: Any = message_class(Api.PRODUCE, version, "request")
    module: Any = __import__(cls.__module__, fromlist=["x"])
    part = module.PartitionProduceData(index=1, records=b"r")
    one, two = (module.TopicProduceData(**name, partition_data=(part,) * count) for count in (1, 2))
    for topics in ((), (one, one), (two,)):
        body = kio_bytes(cls(acks=1, timeout=timedelta(0), topic_data=topics))
        frame = request_frame(Api.PRODUCE, version, body)
        assert _shape(version, struct.pack(">i", len(frame)) + frame) is None
