"""Arrow columns say what the plain decoder says, for every kind of batch, range and choice of columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from kafka_classic.audit.source.columns import Columns, pieces_of
from kafka_classic.audit.source.schema import schema
from kafka_classic.client.chunk import read_chunk
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.records.encode import encode_batch
from kafka_classic.wire.errors import KafkaError
from tests.records.strategies import batches

ARROW = to_arrow_schema(schema(headers=True, producer=True), timezone="UTC")
NOW = 1_700_000_000_000
LATEST = (2**63 - 1) // 1000  # that microseconds can tell


def read(
    data: bytes, low: int = 0, high: int = 1 << 60, columns: tuple[str, ...] = (), **more: Any
) -> list[dict[str, Any]]:
    arrow = pa.schema([field for field in ARROW if not columns or field.name in columns])
    chunk = read_chunk("events", 3, low, -1, data)
    made = Columns("events", 3, arrow).batches(pieces_of(chunk, low, high, arrow.names, **more), rows=100)
    rows = []
    for batch in made:
        batch.validate(full=True)
        plain = [one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one for one in batch.columns]
        rows += pa.RecordBatch.from_arrays(plain, names=batch.schema.names).to_pylist()
    return rows


BATCHES = st.lists(
    st.tuples(batches, st.sampled_from(Codec), st.sampled_from([(-1, -1, -1), (7, 2, 2**31 - 5)])), max_size=4
)


def encoded(made: list[tuple[list[Any], Codec, tuple[int, int, int]]]) -> bytes:
    data = b""
    offset = 10
    for content, codec, (producer, epoch, sequence) in made:
        if content:
            data += encode_batch(
                content,
                codec,
                base_offset=offset,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            offset += len(content) + 3  # gaps, as compaction leaves them
    return data


@settings(deadline=None)
@given(BATCHES, st.integers(0, 200), st.integers(0, 400), st.sets(st.sampled_from(ARROW.names)))
def test_columns_say_what_the_plain_decoder_says(made: list[Any], low: int, more: int, chosen: set[str]) -> None:
    data = encoded(made)
    found = read(data, low, low + more, tuple(chosen))
    expected = [record for record in decode_records(data) if low <= record.offset < low + more]
    assert len(found) == len(expected)
    for row, record in zip(found, expected, strict=True):
        told = {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "partition": 3,
            "topic": "events",
            "timestampType": 0,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        assert {name: row[name] for name in told if name in row} == {name: told[name] for name in told if name in row}
        if "timestamp" in row:
            assert row["timestamp"] == min(record.timestamp, LATEST) * 1000


def test_each_record_names_its_producer_and_its_number_which_wraps() -> None:
    data = encode_batch([(None, b"x", (), NOW)] * 4, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2)
    rows = read(data, columns=("producerId", "producerEpoch", "sequence"))
    assert {(row["producerId"], row["producerEpoch"]) for row in rows} == {(7, 2)}
    assert [row["sequence"] for row in rows] == [2**31 - 2, 2**31 - 1, 0, 1]


def test_a_record_of_a_producer_without_an_id_has_none() -> None:
    rows = read(encode_batch([(None, b"x", (), NOW)]), columns=("producerId", "producerEpoch", "sequence"))
    assert rows == [{"producerId": None, "producerEpoch": None, "sequence": None}]


def test_control_batches_hold_nothing_for_a_reader() -> None:
    assert read(encode_batch([(b"\0\0\0\1", b"", (), NOW)], control=True)) == []


def test_log_append_time_is_the_brokers_for_every_record() -> None:
    for count in (1, 40):
        data = encode_batch([(None, b"x", (), NOW)] * count, log_append_time=NOW + 5)
        rows = read(data, columns=("timestamp", "timestampType"))
        assert {(row["timestamp"], row["timestampType"]) for row in rows} == {((NOW + 5) * 1000, 1)}


def test_batches_that_are_wholly_too_old_are_left_out_undecoded() -> None:
    old, new = encode_batch([(None, b"old", (), 5)]), encode_batch([(None, b"new", (), 9)], base_offset=1)
    assert [row["value"] for row in read(old + new, columns=("value",), since=9)] == [b"new"]


@pytest.mark.parametrize("columns", [("value",), ("partition",)])
def test_a_damaged_batch_is_an_error_that_names_its_place(columns: tuple[str, ...]) -> None:
    data = bytearray(encode_batch([(None, b"x" * 50, (), NOW)], base_offset=17))
    data[-5] ^= 1
    with pytest.raises(KafkaError, match=r"partition 3 of 'events': the records from offset 17 on are damaged"):
        read(bytes(data), columns=columns)
