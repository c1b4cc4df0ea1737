"""Batches as others write and read them: aiokafka (its C code and its Python), kafka-python and kio, both ways."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, RecordHeader
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from kafka_classic.records.batch import check_batch
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record, decode_batch
from kafka_classic.records.encode import NewRecord, encode_batch
from tests.records.strategies import NOW, batches

BUILDERS: dict[str, Callable[..., Any]] = {
    "aiokafka C": aiokafka_records.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_records._DefaultRecordBatchBuilderPy,
    "kafka-python": kafka_python_records.DefaultRecordBatchBuilder,
}
READERS: dict[str, Callable[[bytes], Any]] = {
    "aiokafka C": lambda batch: aiokafka_records.DefaultRecordBatch(bytearray(batch)),
    "aiokafka": aiokafka_records._DefaultRecordBatchPy,
    "kafka-python": kafka_python_records.DefaultRecordBatch,
}
MIXED: list[NewRecord] = [
    (None, b"a", (), NOW),
    (b"k", None, (), NOW - 5_000),
    (b"", b"", (("h", b"1"), ("h", None), ("", b""), ("ключ", b"\xff")), NOW + 60_000),
    (None, None, (), NOW),
    *[(None, b"alike", (), NOW + i // 20) for i in range(200)],
    (b"k" * 300, b"v" * 70_000, (), NOW),
]


def as_read(records: list[NewRecord]) -> list[Record]:
    return [Record(i, time, key, value, tuple(headers)) for i, (key, value, headers, time) in enumerate(records)]


def built(builder: str, records: list[NewRecord], codec: Codec = Codec.NONE) -> bytes:
    batch = BUILDERS[builder](
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (key, value, headers, timestamp) in enumerate(records):
        assert batch.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers)) is not None
    return bytes(batch.build())


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("builder", BUILDERS)
def test_what_others_write_is_read(builder: str, codec: Codec) -> None:
    batch = built(builder, MIXED, codec)
    assert check_batch(batch).codec == codec
    assert decode_batch(batch) == as_read(MIXED)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("reader", READERS)
def test_others_read_what_is_written(reader: str, codec: Codec) -> None:
    batch = READERS[reader](encode_batch(MIXED, codec))
    assert batch.validate_crc()
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in batch
    ] == as_read(MIXED)


@settings(deadline=None, max_examples=60)
@given(batches, st.sampled_from(list(BUILDERS)))
def test_others_write_byte_for_byte_the_same(records: list[NewRecord], builder: str) -> None:
    # aiokafka's C code takes a first timestamp of -1 for none yet, and begins anew with the second.
    records = [(key, value, headers, max(timestamp, 0)) for key, value, headers, timestamp in records]
    ours, theirs = encode_batch(records), built(builder, records)
    # The leader epoch is the broker's to set: theirs write 0 or -1 there.
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]


@settings(deadline=None, max_examples=60)
@given(batches, st.sampled_from(list(READERS)))
def test_others_read_the_same_records(records: list[NewRecord], reader: str) -> None:
    read = READERS[reader](encode_batch(records))
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in read
    ] == as_read(records)


def in_kio(records: list[NewRecord]) -> tuple[KioRecord, ...]:
    return tuple(
        KioRecord(
            attributes=i8(0),
            timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(timestamp // 1000, datetime.UTC)),
            offset=i64(offset),
            key=key,
            value=value,
            headers=tuple(RecordHeader(key=name.encode(), value=content) for name, content in headers),
        )
        for offset, (key, value, headers, timestamp) in enumerate(records)
    )


# kio keeps whole seconds.
IN_SECONDS: list[NewRecord] = [(key, value, headers, time // 1000 * 1000) for key, value, headers, time in MIXED]


def test_kio_reads_what_is_written() -> None:
    batch = encode_batch(IN_SECONDS, leader_epoch=3, producer_id=4, producer_epoch=5, base_sequence=6)
    read, size = read_batch(batch, 0)
    assert size == len(batch)
    assert (read.partition_leader_epoch, read.producer_id, read.producer_epoch, read.base_sequence) == (3, 4, 5, 6)
    assert (read.last_offset_delta, read.max_timestamp) == (len(MIXED) - 1, NOW + 60_000)
    assert read.records == in_kio(IN_SECONDS)


def test_what_kio_writes_is_read() -> None:
    stream = io.BytesIO()
    write_new_batch(
        stream,
        NewRecordBatch(
            producer_id=i64(-1),
            producer_epoch=i16(-1),
            partition_leader_epoch=i32(-1),
            base_sequence=i32(-1),
            records=in_kio(IN_SECONDS),
            attributes=i16(0),
        ),
    )
    assert decode_batch(stream.getvalue()) == as_read(IN_SECONDS)
    assert stream.getvalue() == encode_batch(IN_SECONDS)
