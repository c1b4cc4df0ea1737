"""Record batches into Arrow columns: records of one shape by strided copies in C, all others through Records.

A value is copied once, from the batch to where the JVM reads it; its neighbours' lengths and deltas are skipped by the
stride. What is not asked for is not built, and where nothing of the records themselves is, they are not decoded but
counted by their batch's header. Measured in bench/spark.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kafka_classic.client.chunk import Chunk
from kafka_classic.records.batch import BatchHeader, CorruptBatch, InvalidRecord, check_batch
from kafka_classic.records.decode import decode_parts
from kafka_classic.records.record import Record
from kafka_classic.records.runs import Run

Array: TypeAlias = "np.ndarray[Any, Any]"
Part: TypeAlias = Run | list[Record]

ROWS: Final = 8192
_BYTES: Final = 64 << 20  # of one Arrow batch: offsets of a binary column are 32 bits, and executors' memory is small
_MICROS: Final = 1000
_SEQUENCES: Final = 1 << 31
OF_RECORDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers", "sequence"})


class Piece(NamedTuple):
    """Some records of one batch that lie next to each other; without a part they are only counted."""

    header: BatchHeader
    rows: int
    part: Part | None

    @property
    def size(self) -> int:
        """About how many bytes of memory its columns take."""
        match self.part:
            case Run():
                return self.part.size * self.rows
            case list():
                return sum(len(record.key or b"") + len(record.value or b"") for record in self.part)
        return 0


def pieces_of(chunk: Chunk, low: int, high: int, wanted: Iterable[str], since: int | None = None) -> Iterator[Piece]:
    """Yield the records of a chunk from offset `low` to below `high`; batches wholly older than `since` (ms) are left.

    Every checksum is verified (P22), of batches that are only counted too.
    """
    low = max(low, chunk.offset)  # what a batch still holds from before the log's first offset is deleted all the same
    counting = not OF_RECORDS.intersection(wanted)
    for pos, header in chunk.batches:
        if header.is_control or header.next_offset <= low or header.base_offset >= high:
            continue
        if since is not None and header.max_timestamp < since:
            continue
        whole = header.base_offset >= low and header.next_offset <= high
        try:
            check_batch(chunk.data, pos)
            if counting and whole:
                if header.record_count:
                    yield Piece(header, header.record_count, None)
                continue
            # All parts before any is handed on: only the end of a batch proves that it is sound.
            parts = list(decode_parts(chunk.data, pos, header))
        except (CorruptBatch, InvalidRecord) as error:
            raise chunk.damaged(header.base_offset, error) from error
        for part in parts if whole else (_inside(part, header, low, high) for part in parts):
            count = part.length if isinstance(part, Run) else len(part)
            if count:
                yield Piece(header, count, part)


def _inside(part: Part, header: BatchHeader, low: int, high: int) -> Part:
    if not isinstance(part, Run):
        return [record for record in part if low <= record.offset < high]
    first = header.base_offset + part.delta
    skipped = min(part.length, max(0, low - first))
    left = min(part.length, max(0, high - first)) - skipped
    return part._replace(pos=part.pos + skipped * part.size, delta=part.delta + skipped, length=max(0, left))


class Columns:
    """Makes Arrow batches of one schema from pieces of one partition."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        self.schema = schema
        self._constants = {"topic": topic, "partition": partition}
        self._kept: dict[str, pa.Array] = {}

    def batches(self, pieces: Iterable[Piece], rows: int = ROWS, most_bytes: int = _BYTES) -> Iterator[pa.RecordBatch]:
        """Gather pieces into batches of about `rows` records."""
        gathered: list[Piece] = []
        count = size = 0
        for piece in pieces:
            gathered.append(piece)
            count += piece.rows
            size += piece.size
            if count >= rows or size >= most_bytes:
                yield self.batch(gathered)
                gathered, count, size = [], 0, 0
        if gathered:
            yield self.batch(gathered)

    def batch(self, pieces: Sequence[Piece]) -> pa.RecordBatch:
        """Make one batch of all pieces."""
        count = sum(piece.rows for piece in pieces)
        return pa.RecordBatch.from_arrays(
            [self._column(field, pieces, count) for field in self.schema], schema=self.schema
        )

    def _column(self, field: pa.Field, pieces: Sequence[Piece], count: int) -> pa.Array:
        name = field.name
        if name in self._constants:
            kept = self._kept.get(name)
            if kept is None or len(kept) < count:
                kept = self._kept[name] = pa.repeat(pa.scalar(self._constants[name], field.type), max(count, 2 * ROWS))
            return kept.slice(0, count)
        if name == "key":
            return binary(
                _cells(pieces, lambda run: (run.key_at, run.key_length), lambda record: record.key), field.type
            )
        if name == "value":
            return binary(
                _cells(pieces, lambda run: (run.value_at, run.value_length), lambda record: record.value), field.type
            )
        if name == "headers":
            return pa.array(list(chain.from_iterable(map(_headers, pieces))), type=field.type)
        return _numbers(np.concatenate([_NUMBERS[name](piece) for piece in pieces]), field.type, name in _OF_PRODUCERS)


# --- numbers


def _offsets(piece: Piece) -> Array:
    if isinstance(piece.part, Run):
        first = piece.header.base_offset + piece.part.delta
        return np.arange(first, first + piece.rows, dtype=np.int64)
    return np.array([record.offset for record in piece.part or ()], dtype=np.int64)


def _timestamps(piece: Piece) -> Array:
    """In microseconds, as Spark counts; one that microseconds cannot hold is the largest they can."""
    header, part = piece.header, piece.part
    if isinstance(part, Run):
        if header.is_log_append_time:
            millis = np.full(piece.rows, header.max_timestamp, dtype=np.int64)
        else:
            zigzag = np.frombuffer(part.data, np.uint8)[part.pos + part.time_at : part.end : part.size].astype(np.int64)
            millis = header.base_timestamp + ((zigzag >> 1) ^ -(zigzag & 1))
    else:
        millis = np.array([record.timestamp for record in part or ()], dtype=np.int64)
    most = np.iinfo(np.int64).max // _MICROS
    return np.clip(millis, -most, most) * _MICROS


def _sequences(piece: Piece) -> Array:
    """Each record's number among those of its producer: its batch's, and as far on as its offset in the batch."""
    if piece.header.base_sequence < 0:
        return _same(-1, np.int64)(piece)
    return (piece.header.base_sequence + _offsets(piece) - piece.header.base_offset) % _SEQUENCES


def _same(value: int | str, dtype: Any) -> Callable[[Piece], Array]:
    def column(piece: Piece) -> Array:
        number = getattr(piece.header, value) if isinstance(value, str) else value
        return np.full(piece.rows, number, dtype=dtype)

    return column


_NUMBERS: Final[dict[str, Callable[[Piece], Array]]] = {
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _same("is_log_append_time", np.int32),
    "producerId": _same("producer_id", np.int64),
    "producerEpoch": _same("producer_epoch", np.int32),
    "sequence": _sequences,
}
_OF_PRODUCERS: Final = frozenset({"producerId", "producerEpoch", "sequence"})


def _numbers(column: Array, type: pa.DataType, null_below_zero: bool) -> pa.Array:
    if null_below_zero and (column < 0).any():
        return pa.array(column, mask=column < 0).cast(type)
    if pa.types.is_timestamp(type):
        return pa.Array.from_buffers(type, len(column), [None, pa.py_buffer(np.ascontiguousarray(column))])
    return pa.array(column).cast(type)


# --- bytes


class Cells(NamedTuple):
    """Bytes of some records: rows of a matrix where all have one length, else all in a row with their lengths."""

    rows: int
    content: Array | None
    lengths: Array | int
    nulls: Array | bool


def _cells(
    pieces: Sequence[Piece], place: Callable[[Run], tuple[int, int]], of: Callable[[Record], bytes | None]
) -> list[Cells]:
    return [
        _cells_of_run(piece.part, *place(piece.part))
        if isinstance(piece.part, Run)
        else _cells_of(list(map(of, piece.part or ())))
        for piece in pieces
    ]


def _cells_of_run(run: Run, at: int, length: int) -> Cells:
    if length < 0:
        return Cells(run.length, None, 0, True)
    rows = np.frombuffer(run.data, np.uint8, run.size * run.length, run.pos).reshape(run.length, run.size)
    return Cells(run.length, rows[:, at : at + length], length, False)


def _cells_of(found: list[bytes | None]) -> Cells:
    whole = [one or b"" for one in found]
    nulls = np.fromiter((one is None for one in found), np.bool_, len(found))
    lengths = np.fromiter(map(len, whole), np.int64, len(whole))
    return Cells(len(found), np.frombuffer(b"".join(whole), np.uint8), lengths, nulls if nulls.any() else False)


def binary(cells: Sequence[Cells], type: pa.DataType) -> pa.Array:
    """Make one Arrow column of bytes: each piece is copied once, to its place."""
    count = sum(one.rows for one in cells)
    offsets = np.zeros(count + 1, dtype=np.int64)
    row = 0
    for one in cells:
        offsets[row + 1 : row + 1 + one.rows] = one.lengths
        row += one.rows
    np.cumsum(offsets, out=offsets)
    content = np.empty(int(offsets[-1]), dtype=np.uint8)
    at = 0
    for one in cells:
        if one.content is not None and one.content.size:
            content[at : at + one.content.size].reshape(one.content.shape)[...] = one.content
            at += one.content.size
    nulls = _validity(cells, count)
    buffers = [nulls, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(type, count, buffers)


def _validity(cells: Sequence[Cells], count: int) -> pa.Buffer | None:
    if all(one.nulls is False for one in cells):
        return None
    valid = np.ones(count, dtype=np.bool_)
    row = 0
    for one in cells:
        valid[row : row + one.rows] = np.logical_not(one.nulls)
        row += one.rows
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _headers(piece: Piece) -> Iterable[list[dict[str, Any]] | None]:
    if not isinstance(piece.part, list):
        return [None] * piece.rows
    return [[{"key": key, "value": value} for key, value in record.headers] or None for record in piece.part]
