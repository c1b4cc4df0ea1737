"""The decoder of record batches: runs of records of one shape by columns, all others one by one.

It believes nothing: every length is checked against the record that holds it, the record against the batch, the
batch against its count of records; and nothing is allocated because a field says so.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Final, Generic, NamedTuple, TypeVar

from .batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    InvalidRecord,
    check_batch,
    iter_batches,
    read_whole_header,
)
from .codecs import MAX_SIZE, decompress
from .deltas import delta_range
from .one_by_one import read_records
from .record import Record as Record  # part of what this module offers
from .runs import SMALLEST_RECORD, WORTHWHILE, Run, find_run

T = TypeVar("T")


class Shape(NamedTuple, Generic[T]):
    """How decoded records become values: a run of them from its columns (none has headers), others from Records."""

    of_columns: Callable[[Iterable[int], Iterable[int], Iterable[bytes | None], Iterable[bytes | None]], Iterable[T]]
    of_records: Callable[[list[Record]], Iterable[T]]


def _records_of_columns(
    offsets: Iterable[int],
    timestamps: Iterable[int],
    keys: Iterable[bytes | None],
    values: Iterable[bytes | None],
) -> Iterable[Record]:
    rows = zip(offsets, timestamps, keys, values, repeat(()))  # the shortest, `offsets`, comes first
    return map(tuple.__new__, repeat(Record), rows)


AS_RECORDS: Final = Shape(_records_of_columns, lambda records: records)


def decode_batch(buf: Buffer, pos: int = 0, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> list[Record]:
    """Decode the records of the batch at `pos`, control records too; `max_size` bounds what they inflate to."""
    return decode_rows(buf, pos, AS_RECORDS, check_crc=check_crc, max_size=max_size)


def decode_rows(buf: Buffer, pos: int, shape: Shape[T], *, check_crc: bool = True, max_size: int = MAX_SIZE) -> list[T]:
    """Decode the records of the batch at `pos` into values of another kind, without making each a Record first."""
    header = check_batch(buf, pos) if check_crc else read_whole_header(buf, pos)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    broker_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    found: list[T] = []
    for part in decode_parts(buf, pos, header, max_size=max_size):
        if isinstance(part, Run):
            first = base_offset + part.delta
            timestamps = part.timestamps(base_timestamp) if broker_time is None else repeat(broker_time)
            found += shape.of_columns(range(first, first + part.length), timestamps, part.keys(), part.values())
        else:
            found += shape.of_records(part)
    return found


def decode_parts(
    buf: Buffer, pos: int, header: BatchHeader, *, max_size: int = MAX_SIZE
) -> Iterator[Run | list[Record]]:
    """Yield the records of the batch at `pos` part by part: a Run where they are alike, else Records.

    Its checksum is not looked at, and what is yielded is sound only once the end is reached without an error.
    """
    start, end = pos + HEADER_SIZE, pos + header.size
    if codec := header.attributes & CODEC_MASK:
        data = decompress(codec, memoryview(buf)[start:end], max_size)
        start, end = 0, len(data)
    elif type(buf) is bytes:
        data = buf
    else:
        data = bytes(memoryview(buf)[start:end])
        start, end = 0, len(data)
    if header.record_count < 0:
        raise InvalidRecord(f"a count of {header.record_count} records")
    broker_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return _parts(data, start, end, header.record_count, header.base_offset, header.base_timestamp, broker_time)


def decode_records(buf: Buffer, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> Iterator[Record]:
    """Decode all whole batches of a fetch response; control batches hold nothing for a consumer and are skipped."""
    for pos, header in iter_batches(buf):
        if not header.attributes & CONTROL:
            yield from decode_batch(buf, pos, check_crc=check_crc, max_size=max_size)


def _parts(
    data: bytes, pos: int, end: int, count: int, base_offset: int, base_timestamp: int, broker_time: int | None
) -> Iterator[Run | list[Record]]:
    done = 0
    alone = WORTHWHILE
    while done < count:
        if (count - done) * SMALLEST_RECORD > end - pos:
            raise InvalidRecord(f"{count - done} more records are counted, and {end - pos} bytes are left")
        run = find_run(data, pos, end, done, count - done) if count - done >= WORTHWHILE else None
        if run is None:
            # Not worth looking for a run again soon: each failure doubles the records read one by one.
            stop = min(done + alone, count, delta_range(done)[1])
            records: list[Record] = []
            pos = read_records(data, pos, end, done, stop, base_offset, base_timestamp, records)
            if broker_time is not None:
                records = [record._replace(timestamp=broker_time) for record in records]
            yield records
            done = stop
            alone *= 2
        else:
            yield run
            pos = run.end
            done += run.length
            alone = WORTHWHILE
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the {count} records that the batch counts")
