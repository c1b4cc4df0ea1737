"""Garbage, and batches that lie: never anything but CorruptBatch or InvalidRecord, and never much memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_classic.records.batch import HEADER_SIZE, CorruptBatch, InvalidRecord, iter_batches, read_header, seal
from kafka_classic.records.codecs import Codec, decompress
from kafka_classic.records.decode import Record, decode_batch, decode_records
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.records.walk import count_records
from tests.records import plain
from tests.records.strategies import NOW, batches

ALIKE: list[NewRecord] = [(None, b"value", (), NOW)] * 40
mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)


def mutated(data: bytes, changes: list[tuple[int, int]], cut: int = 0) -> bytes:
    changed = bytearray(data)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    return bytes(changed[: len(changed) - cut % len(changed)])


def of_records(data: bytes, count: int, codec: int = 0) -> bytes:
    """A batch with a good crc around any bytes whatever."""
    batch = bytearray(encode_batch([(None, b"", (), NOW)])[:HEADER_SIZE] + data)
    seal(batch, batch_length=len(batch) - 12, record_count=count, attributes=codec, base_timestamp=0)
    return bytes(batch)


def outcome(read: Callable[[], list[Record] | int]) -> list[Record] | int | None:
    try:
        return read()
    except InvalidRecord:
        return None


@settings(deadline=None, max_examples=200)
@given(batches, mutations, st.integers(-2, 2), st.integers(0, 3))
def test_decoder_and_counter_accept_exactly_what_their_plain_twins_accept(
    records: list[NewRecord], changes: list[tuple[int, int]], miscount: int, cut: int
) -> None:
    data = mutated(plain.encode(records)[HEADER_SIZE:], changes, cut)
    count = len(records) + miscount
    batch = of_records(data, count)
    assert outcome(lambda: decode_batch(batch)) == outcome(lambda: plain.decode(data, count, 0, 0))
    for buf in (batch, bytearray(batch), memoryview(batch)):
        counted = outcome(lambda buf=buf: count_records(buf, HEADER_SIZE, len(batch)))  # type: ignore[misc]
        assert counted == outcome(lambda: plain.count(data))


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300), st.integers(-(2**31), 2**31 - 1) | st.integers(0, 20))
def test_random_bytes_are_read_as_the_plain_twin_reads_them(data: bytes, count: int) -> None:
    batch = of_records(data, count)
    expected = outcome(lambda: plain.decode(data, count, 0, 0))
    assert outcome(lambda: decode_batch(batch)) == expected
    # What follows the batch must not help to read it.
    assert outcome(lambda: decode_batch(batch + bytes(100))) == expected
    assert outcome(lambda: count_records(batch + bytes(100), HEADER_SIZE, len(batch))) == outcome(
        lambda: plain.count(data)
    )


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: encode_batch(ALIKE)[:17] + tail))
@example(b"\xff" * 61)
def test_random_bytes_raise_nothing_but_the_two_errors(data: bytes) -> None:
    def headers() -> None:
        list(iter_batches(data))

    for read in (
        lambda: decode_batch(data),
        lambda: decode_batch(data, check_crc=False),
        lambda: list(decode_records(data, check_crc=False)),
        lambda: read_header(data),
        headers,
        lambda: count_records(data, 0, len(data)),
    ):
        try:
            read()
        except (CorruptBatch, InvalidRecord):
            pass


@settings(deadline=None, max_examples=200)
@given(batches, st.sampled_from(Codec), mutations, st.integers(0, 20))
def test_a_mutated_batch_raises_nothing_but_the_two_errors(
    records: list[NewRecord], codec: Codec, changes: list[tuple[int, int]], cut: int
) -> None:
    batch = mutated(encode_batch(records, codec), changes, cut)
    for check_crc in (True, False):
        try:
            decode_batch(batch, check_crc=check_crc, max_size=1 << 22)
        except (CorruptBatch, InvalidRecord):
            pass


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(Codec), st.binary(max_size=200))
def test_no_codec_raises_anything_but_the_two_errors(codec: Codec, data: bytes) -> None:
    starts = {Codec.GZIP: b"\x1f\x8b\x08", Codec.LZ4: b"\x04\x22\x4d\x18", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}
    for start in (b"", starts.get(codec, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")):
        try:
            assert len(decompress(codec, start + data, max_size=1 << 20)) <= 1 << 20
        except (CorruptBatch, InvalidRecord):
            pass


@pytest.mark.parametrize("count", [-(2**31), -1, 0, 39, 41, 2**31 - 1])
@pytest.mark.parametrize("codec", list(Codec))
def test_a_count_that_lies_is_an_invalid_record(count: int, codec: Codec) -> None:
    batch = bytearray(encode_batch(ALIKE, codec))
    seal(batch, record_count=count)
    with pytest.raises(InvalidRecord):
        decode_batch(batch)


@pytest.mark.parametrize(
    "record",
    [
        "00",  # a length of zero
        "0e 00 00 00 01 01",  # cut off
        "0c 00 00 00 01 01",  # without headers
        "0c 00 00 00 01 01 01",  # -1 headers
        "0c 00 00 00 01 01 02",  # a header that is not there
        "0e 00 00 00 01 01 02 01",  # a header without a name
        "12 00 00 00 01 01 02 02 ff 01",  # a header's name that is no text
        "12 00 00 00 01 01 02 02 68 7e",  # a header's value that is not there
        "0c 00 00 00 03 01 00",  # a key of -2 bytes
        "0c 00 00 00 01 03 00",  # a value of -2 bytes
        "0c 00 00 00 01 7e 00",  # a value that leads out of the record
        "0c 00 00 00 7e 01 00",  # a key that leads out of the record
        "14 00 00 00 01 fe ff ff ff 0f 00",  # a value of 2 GiB
        "14 00 00 00 fe ff ff ff 0f 01 00",  # a key of 2 GiB
        "fe ff ff ff 0f 00 00 00 01 01 00",  # a record of 2 GiB
        "ff ff ff ff 0f 00 00 00 01 01 00",  # a record of -2 GiB
        "80 80 80 80 80 00 00 00 00 01 01 00",  # a length of six bytes
        "16 00 ff ff ff ff ff ff ff ff ff 7f 00 01 01 00",  # a timestamp of 70 bits
        "14 00 00 00 01 01 fe ff ff ff 0f",  # two thousand million headers
    ],
)
def test_a_record_that_lies_is_invalid(record: str) -> None:
    data = bytes.fromhex(record)
    with pytest.raises(InvalidRecord):
        decode_batch(of_records(data, 1))
    alike = plain.encode(ALIKE)[HEADER_SIZE:]
    with pytest.raises(InvalidRecord):
        decode_batch(of_records(alike + data, len(ALIKE) + 1))


@pytest.mark.parametrize("field", [5, 7, 8, 13])
def test_a_lie_in_the_middle_of_a_run_is_noticed(field: int) -> None:
    data = bytearray(plain.encode(ALIKE)[HEADER_SIZE:])
    size = len(data) // len(ALIKE)
    data[size * 20 + field - 1] ^= 0x02
    expected = outcome(lambda: plain.decode(bytes(data), len(ALIKE), 0, 0))
    assert outcome(lambda: decode_batch(of_records(bytes(data), len(ALIKE)))) == expected


@pytest.mark.parametrize("extra", [b"", b"\x01" * 200, b"\x80" * 200, b"\xff" * 3, b"\x00" * 200])
def test_many_records_that_are_counted_and_not_there_are_noticed(extra: bytes) -> None:
    long: list[NewRecord] = [(None, bytes(500), (), NOW)] * 40
    batch = of_records(plain.encode(long)[HEADER_SIZE:] + extra, 40 + 20)
    with pytest.raises(InvalidRecord):
        decode_batch(batch)
    with pytest.raises(InvalidRecord):
        decode_batch(batch + bytes(1000))


def test_a_lie_told_by_every_record_of_a_run_is_noticed() -> None:
    one_header = plain.encode(ALIKE)[HEADER_SIZE:].replace(b"value\0", b"value\2")
    with pytest.raises(InvalidRecord):
        decode_batch(of_records(one_header, len(ALIKE)))


def test_a_huge_count_allocates_nothing() -> None:
    batches_that_lie = [of_records(b"\x0c\0\0\0\1\1\0" * 10, 2**31 - 1)]
    batches_that_lie.append(of_records(b"\x16\0\0\0\1\1\xfe\xff\xff\xff\x0f", 1))
    tracemalloc.start()
    for batch in batches_that_lie:
        with pytest.raises(InvalidRecord):
            decode_batch(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("run", [1, 17, 40])
@pytest.mark.parametrize("sizes", [(0, 1), (7, 8), (7, 100)])
def test_many_short_runs_take_no_longer_than_their_number(run: int, sizes: tuple[int, int]) -> None:
    # Quadratic work would take minutes here, and so would a client that means harm.
    records: list[NewRecord] = []
    while len(records) < 40_000:
        records += [(None, bytes(sizes[len(records) // run % 2]), (), NOW)] * run
    batch = encode_batch(records)
    assert len(decode_batch(batch)) == len(records)
    assert count_records(batch, HEADER_SIZE, len(batch)) == len(records)


def test_many_short_runs_of_the_smallest_lengths_are_counted_in_time() -> None:
    data = (bytes(17) + b"\2\0" * 17) * 20_000
    assert count_records(data, 0, len(data)) == 34 * 20_000
    assert count_records(memoryview(data), 0, len(data)) == 34 * 20_000
