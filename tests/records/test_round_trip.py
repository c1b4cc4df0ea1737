"""What is encoded is decoded, in every codec, and a plain twin agrees with every hot path."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_classic.records.batch import HEADER_SIZE, check_batch, iter_batches, seal
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record, decode_batch, decode_records
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.records.walk import count_records
from tests.records import plain
from tests.records.strategies import NOW, batches

MIXED: list[NewRecord] = [
    (None, b"a", (), 1000),
    (b"k", None, (), 999),
    (b"", b"", (("h", b"1"), ("h", None), ("", b""), ("ключ", b"\xff")), 5000),
    (b"k" * 300, b"v" * 70_000, (), -1),
]


def as_read(records: list[NewRecord], base_offset: int = 0, deltas: list[int] | None = None) -> list[Record]:
    return [
        Record(base_offset + delta, timestamp, key, value, tuple(headers))
        for delta, (key, value, headers, timestamp) in zip(deltas or range(len(records)), records, strict=True)
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_decodes_to_what_was_encoded(codec: Codec) -> None:
    batch = encode_batch(MIXED, codec, base_offset=7, producer_id=5, producer_epoch=1, base_sequence=3)
    header = check_batch(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (7, 10, 11, 4)
    assert (header.base_timestamp, header.max_timestamp, header.codec) == (1000, 5000, codec)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 3)
    assert (header.is_control, header.is_transactional, header.is_log_append_time) == (False, False, False)
    assert decode_batch(batch) == as_read(MIXED, 7)


@settings(deadline=None, max_examples=100)
@given(batches)
def test_the_encoder_writes_what_its_plain_twin_writes(records: list[NewRecord]) -> None:
    assert encode_batch(records) == plain.encode(records)


@settings(deadline=None, max_examples=100)
@given(batches, st.sampled_from([bytes, bytearray, memoryview]))
def test_decoder_and_counter_read_what_the_plain_twin_wrote(
    records: list[NewRecord], kind: type[bytes] | type[bytearray] | type[memoryview]
) -> None:
    batch = kind(plain.encode(records))
    assert decode_batch(batch) == as_read(records)
    assert count_records(batch, HEADER_SIZE, len(batch)) == len(records)


@settings(deadline=None, max_examples=60)
@given(batches, st.sampled_from(Codec), st.integers(0, 2**40), st.binary(max_size=5))
def test_every_codec_at_every_place_decodes_to_what_was_encoded(
    records: list[NewRecord], codec: Codec, base_offset: int, before: bytes
) -> None:
    batch = before + encode_batch(records, codec, base_offset=base_offset) + b"more"
    assert decode_batch(batch, len(before)) == as_read(records, base_offset)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 70_000])
@pytest.mark.parametrize("key", [None, b"key"])
def test_long_batches_cross_the_widths_of_the_offset_delta(count: int, key: bytes | None) -> None:
    records: list[NewRecord] = [(key, b"%04d" % (i % 10_000), (), NOW + i % 3) for i in range(count)]
    batch = encode_batch(records)
    assert decode_batch(batch) == as_read(records)
    assert count_records(batch, HEADER_SIZE, len(batch)) == count
    records[count // 2] = (key, b"longer", (), NOW)
    assert decode_batch(encode_batch(records)) == as_read(records)


@pytest.mark.parametrize("alike", [1, 100])
def test_offsets_may_have_gaps_as_wide_as_an_int32(alike: int) -> None:
    deltas = [*range(alike), 2**20, 2**31 - 1]
    records: list[NewRecord] = [(None, b"value", (), NOW)] * len(deltas)
    batch = encode_batch(records, base_offset=5, deltas=deltas)
    assert batch[8:] == plain.encode(records, deltas)[8:]
    assert check_batch(batch).last_offset == 5 + 2**31 - 1
    assert decode_batch(batch) == as_read(records, 5, deltas)


def test_a_gap_within_a_run_of_alike_records_is_seen() -> None:
    deltas = [*range(30), *range(31, 61)]
    records: list[NewRecord] = [(None, b"value", (), NOW)] * len(deltas)
    assert decode_batch(plain.encode(records, deltas)) == as_read(records, 0, deltas)


@pytest.mark.parametrize("count", [1, 100])
def test_log_append_time_is_the_timestamp_of_every_record(count: int) -> None:
    batch = encode_batch([(None, b"v", (), NOW + i) for i in range(count)], log_append_time=42)
    assert check_batch(batch).is_log_append_time
    assert check_batch(batch).max_timestamp == 42
    assert [record.timestamp for record in decode_batch(batch)] == [42] * count


def test_a_consumer_is_given_no_control_records_and_no_partial_batch() -> None:
    one = encode_batch([(None, b"1", (), NOW)], transactional=True)
    control = encode_batch([(b"\0\0\0\1", b"\0\0\0\0\0\0", (), NOW)], control=True, base_offset=1)
    two = encode_batch([(None, b"2", (), NOW)], Codec.LZ4, base_offset=2)
    fetched = one + control + two + two[:-1]
    assert [record.value for record in decode_records(fetched)] == [b"1", b"2"]
    assert [record.offset for record in decode_records(memoryview(fetched))] == [0, 2]
    assert [header.is_control for _, header in iter_batches(fetched)] == [False, True, False]
    assert len(decode_batch(control)) == 1


def test_a_batch_emptied_by_compaction_holds_no_records() -> None:
    batch = bytearray(encode_batch(MIXED)[:HEADER_SIZE])
    seal(batch, batch_length=HEADER_SIZE - 12, record_count=0)
    assert decode_batch(batch) == []
    assert count_records(batch, HEADER_SIZE, HEADER_SIZE) == 0


def test_values_may_be_any_buffer_of_bytes() -> None:
    records: list[NewRecord] = [(bytearray(b"k"), memoryview(b"v"), (), NOW)] * 2  # type: ignore[list-item]
    assert [(record.key, record.value) for record in decode_batch(encode_batch(records))] == [(b"k", b"v")] * 2


@pytest.mark.parametrize("value", ["text", 5])
def test_a_value_that_is_not_bytes_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode_batch([(None, value, (), NOW)])  # type: ignore[list-item]


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])
