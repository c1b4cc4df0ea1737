"""The decoder of record batches: one loop with the short varints read in place, since a call costs more than they do.

It believes nothing: every length is checked against the record that holds it, the record against the batch, the
batch against its count of records; and nothing is allocated because a field says so.

Measured, one core, 1,000 values of 200 bytes: see bench/records.py. The plain twin stands in tests/records/plain.py.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from .batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Buffer,
    CorruptBatch,
    InvalidRecord,
    check_batch,
    iter_batches,
    read_header,
)
from .codecs import MAX_SIZE, decompress

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record as a consumer sees it; the timestamp is in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def decode_batch(buf: Buffer, pos: int = 0, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> list[Record]:
    """Decode the records of the batch at `pos`, control records too; `max_size` bounds what they inflate to."""
    if check_crc:
        header = check_batch(buf, pos)
    else:
        header = read_header(buf, pos)
        if pos + header.size > len(buf):
            raise CorruptBatch(f"a batch of {header.size} bytes does not fit into the {len(buf) - pos} that are there")
    start, end = pos + HEADER_SIZE, pos + header.size
    if codec := header.attributes & CODEC_MASK:
        payload = decompress(codec, memoryview(buf)[start:end], max_size)
        start, end = 0, len(payload)
    elif type(buf) is bytes:
        payload = buf
    else:
        payload = bytes(memoryview(buf)[start:end])
        start, end = 0, len(payload)
    timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return _decode(payload, start, end, header.record_count, header.base_offset, header.base_timestamp, timestamp)


def decode_records(buf: Buffer, *, check_crc: bool = True, max_size: int = MAX_SIZE) -> Iterator[Record]:
    """Decode all whole batches of a fetch response; control batches hold nothing for a consumer and are skipped."""
    for pos, header in iter_batches(buf):
        if not header.attributes & CONTROL:
            yield from decode_batch(buf, pos, check_crc=check_crc, max_size=max_size)


def _decode(
    data: bytes, pos: int, end: int, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    records: list[Record] = []
    append = records.append
    new = tuple.__new__
    record_end = pos
    try:
        for _ in range(count):
            # length
            number = data[pos]
            pos += 1
            if number > 0x7F:
                byte = data[pos]
                pos += 1
                if byte < 0x80:
                    number = number & 0x7F | byte << 7
                else:
                    number, pos = _unsigned(data, pos - 2)
            record_end = pos + (number >> 1)
            if number & 1 or record_end > end:
                raise InvalidRecord(f"record {len(records)} does not fit into its batch")
            # attributes are unused; timestamp delta
            number = data[pos + 1]
            pos += 2
            if number > 0x7F:
                byte = data[pos]
                pos += 1
                if byte < 0x80:
                    number = number & 0x7F | byte << 7
                else:
                    number, pos = _unsigned(data, pos - 2, 10)
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
            # offset delta
            number = data[pos]
            pos += 1
            if number > 0x7F:
                byte = data[pos]
                pos += 1
                if byte < 0x80:
                    number = number & 0x7F | byte << 7
                else:
                    number, pos = _unsigned(data, pos - 2)
            offset = base_offset + ((number >> 1) ^ -(number & 1))
            # key
            number = data[pos]
            pos += 1
            key: bytes | None
            if number == 1:
                key = None
            else:
                if number > 0x7F:
                    number, pos = _unsigned(data, pos - 1)
                if number & 1:
                    raise InvalidRecord(f"record {len(records)} has a negative key length")
                key_at = pos
                pos += number >> 1
                key = data[key_at:pos]
            # value
            number = data[pos]
            pos += 1
            value: bytes | None
            if number == 1:
                value = None
            else:
                if number > 0x7F:
                    byte = data[pos]
                    pos += 1
                    if byte < 0x80:
                        number = number & 0x7F | byte << 7
                    else:
                        number, pos = _unsigned(data, pos - 2)
                if number & 1:
                    raise InvalidRecord(f"record {len(records)} has a negative value length")
                value_at = pos
                pos += number >> 1
                value = data[value_at:pos]
            # headers
            number = data[pos]
            pos += 1
            headers: Headers = ()
            if number:
                headers, pos = _read_headers(data, pos - 1, record_end)
            if pos != record_end:
                raise InvalidRecord(f"record {len(records)} is not as long as it says")
            append(new(Record, (offset, timestamp if append_time is None else append_time, key, value, headers)))
    except IndexError:
        raise InvalidRecord(f"record {len(records)} is cut off") from None
    if pos != end or count < 0:
        raise InvalidRecord(f"a count of {count} records, and {end - pos} bytes after them")
    return records


def _unsigned(data: bytes, pos: int, longest: int = 5) -> tuple[int, int]:
    number = shift = 0
    for at in range(pos, pos + longest):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> (32 if longest == 5 else 64):
                break
            return number, at + 1
        shift += 7
    raise InvalidRecord("a varint is too long")


def _signed(data: bytes, pos: int) -> tuple[int, int]:
    number, pos = _unsigned(data, pos)
    return (number >> 1) ^ -(number & 1), pos


def _read_headers(data: bytes, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = _signed(data, pos)
    if count < 0:
        raise InvalidRecord("a negative count of headers")
    headers = []
    for _ in range(count):
        length, pos = _signed(data, pos)
        if not 0 <= length <= end - pos:
            raise InvalidRecord("a header key does not fit into its record")
        try:
            key = data[pos : pos + length].decode()
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"a header key is no text: {error.reason}") from None
        pos += length
        length, pos = _signed(data, pos)
        value = None
        if length != -1:
            if not 0 <= length <= end - pos:
                raise InvalidRecord("a header value does not fit into its record")
            value = data[pos : pos + length]
            pos += length
        headers.append((key, value))
    return tuple(headers), pos
