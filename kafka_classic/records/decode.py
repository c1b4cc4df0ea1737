"""The decoder of record batches: runs of records of one shape by columns, all others one by one.

It believes nothing: every length is checked against the record that holds it, the record against the batch, the
batch against its count of records; and nothing is allocated because a field says so.
"""

from collections.abc import Iterator
from itertools import repeat

from .batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
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
from .runs import SMALLEST_RECORD, WORTHWHILE, read_run


def decode_batch(buf: Buffer, pos: int = 0, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> list[Record]:
    """Decode the records of the batch at `pos`, control records too; `max_size` bounds what they inflate to."""
    header = check_batch(buf, pos) if check_crc else read_whole_header(buf, pos)
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
    records = _decode(data, start, end, header.record_count, header.base_offset, header.base_timestamp)
    if header.attributes & LOG_APPEND_TIME:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records


def decode_records(buf: Buffer, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> Iterator[Record]:
    """Decode all whole batches of a fetch response; control batches hold nothing for a consumer and are skipped."""
    for pos, header in iter_batches(buf):
        if not header.attributes & CONTROL:
            yield from decode_batch(buf, pos, check_crc=check_crc, max_size=max_size)


def _decode(data: bytes, pos: int, end: int, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    records: list[Record] = []
    done = 0
    alone = WORTHWHILE
    while done < count:
        if (count - done) * SMALLEST_RECORD > end - pos:
            raise InvalidRecord(f"{count - done} more records are counted, and {end - pos} bytes are left")
        run = read_run(data, pos, end, done, count - done, base_timestamp) if count - done >= WORTHWHILE else None
        if run is None:
            # Not worth looking for a run again soon: each failure doubles the records read one by one.
            stop = min(done + alone, count, delta_range(done)[1])
            pos = read_records(data, pos, end, done, stop, base_offset, base_timestamp, records)
            done = stop
            alone *= 2
        else:
            length, size, timestamps, keys, values = run
            offsets = range(base_offset + done, base_offset + done + length)
            rows = zip(offsets, timestamps, keys, values, repeat(()))
            records += map(tuple.__new__, repeat(Record), rows)
            pos += length * size
            done += length
            alone = WORTHWHILE
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the {count} records that the batch counts")
    return records
