"""The plain twins of the hot paths: the record format read and written as its description says, without haste."""

from __future__ import annotations

import io
import struct

from crc32c import crc32c

from kafka_classic.records.batch import InvalidRecord
from kafka_classic.records.decode import Record
from kafka_classic.records.encode import NewRecord


def encode_varint(number: int) -> bytes:
    zigzag = 2 * number if number >= 0 else -2 * number - 1
    out = b""
    while zigzag >= 128:
        out += bytes([zigzag % 128 + 128])
        zigzag //= 128
    return out + bytes([zigzag])


def encode_bytes(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def encode_record(record: NewRecord, time_delta: int, offset_delta: int) -> bytes:
    key, value, headers, _ = record
    out = b"\0" + encode_varint(time_delta) + encode_varint(offset_delta) + encode_bytes(key) + encode_bytes(value)
    out += encode_varint(len(headers))
    for name, content in headers:
        out += encode_bytes(name.encode()) + encode_bytes(content)
    return encode_varint(len(out)) + out


def encode(records: list[NewRecord], deltas: list[int] | None = None) -> bytes:
    """An uncompressed batch at offset 0, of no producer."""
    deltas = deltas or list(range(len(records)))
    first = records[0][3]
    out = b"".join(
        encode_record(record, record[3] - first, delta) for record, delta in zip(records, deltas, strict=True)
    )
    last = max(record[3] for record in records)
    out = struct.pack(">hiqqqhii", 0, deltas[-1], first, last, -1, -1, -1, len(records)) + out
    return struct.pack(">qiibI", 0, len(out) + 9, -1, 2, crc32c(out)) + out


class Reader:
    """Takes numbers and bytes off a buffer, and never more than are there."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)
        self.left = len(data)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise InvalidRecord(f"{size} bytes where {self.left} are left")
        self.left -= size
        return self._stream.read(size)

    def varint(self, bits: int = 32) -> int:
        zigzag = 0
        for place in range(10):
            (byte,) = self.take(1)
            zigzag += byte % 128 << 7 * place
            if byte < 128 and zigzag < 2**bits and place < (bits + 6) // 7:
                return zigzag // 2 if zigzag % 2 == 0 else -(zigzag // 2) - 1
            if byte < 128:
                break
        raise InvalidRecord("a varint that is too long")

    def bytes_or_null(self) -> bytes | None:
        length = self.varint()
        return None if length == -1 else self.take(length)


def decode(data: bytes, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """Exactly `count` records that fill `data`."""
    batch = Reader(data)
    records = []
    if count < 0:
        raise InvalidRecord("a negative count")
    for _ in range(count):
        record = Reader(batch.take(batch.varint()))
        record.take(1)
        timestamp = base_timestamp + record.varint(64)
        offset = base_offset + record.varint()
        key, value = record.bytes_or_null(), record.bytes_or_null()
        headers = []
        header_count = record.varint()
        if header_count < 0:
            raise InvalidRecord("a negative count of headers")
        for _ in range(header_count):
            name = record.bytes_or_null()
            if name is None:
                raise InvalidRecord("a header without a name")
            try:
                headers.append((name.decode(), record.bytes_or_null()))
            except UnicodeDecodeError:
                raise InvalidRecord("a header's name is no text") from None
        if record.left:
            raise InvalidRecord("a record longer than what is in it")
        records.append(Record(offset, timestamp, key, value, tuple(headers)))
    if batch.left:
        raise InvalidRecord("bytes after the last record")
    return records


def count(data: bytes) -> int:
    """How many records fill `data`."""
    reader = Reader(data)
    counted = 0
    while reader.left:
        reader.take(reader.varint())
        counted += 1
    return counted
