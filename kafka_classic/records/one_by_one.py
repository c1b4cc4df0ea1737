"""Reading records one by one: a loop with the short varints read in place, since a call costs more than they do.

What mostly holds is tried first: the timestamp is that of the record before, the offset delta is one more, there are
no headers. Measured: see bench/records.py. The plain twin stands in tests/records/plain.py.
"""

from typing import Final

from .batch import InvalidRecord
from .deltas import delta_range, offset_deltas
from .record import Headers, Record

# The length that begins with this byte, less what a second byte adds; an odd byte begins a negative one, which does
# not fit into any batch.
_OUT: Final = 1 << 40
_LENGTH: Final = tuple(_OUT if byte & 1 else (byte & 0x7F) >> 1 for byte in range(0x100))


def read_records(
    data: bytes,
    pos: int,
    end: int,
    first: int,
    stop: int,
    base_offset: int,
    base_timestamp: int,
    records: list[Record],
) -> int:
    """Append the records numbered `first` up to `stop` to `records`, empty before; return where the next begins.

    All numbers from `first` to below `stop` must take the same bytes as a varint.
    """
    append = records.append
    new = tuple.__new__
    length_of = _LENGTH
    last_time = -1
    timestamp = 0
    key: bytes | None
    value: bytes | None
    try:
        width, _ = delta_range(first)
        for offset, delta in enumerate(offset_deltas(first, stop), base_offset + first):
            byte = data[pos]
            if byte < 0x80:
                pos += 1
                record_end = pos + length_of[byte]
            else:
                next_byte = data[pos + 1]
                if next_byte < 0x80:
                    pos += 2
                    record_end = pos + length_of[byte] + (next_byte << 6)
                else:
                    length, pos = signed(data, pos)
                    record_end = pos + length if length >= 0 else _OUT

            # The attributes before it are unused.
            byte = data[pos + 1]
            if byte > 0x7F:
                next_byte = data[pos + 2]
                if next_byte < 0x80 and not byte & 1:
                    pos += 3
                    timestamp = base_timestamp + length_of[byte] + (next_byte << 6)
                else:
                    time, pos = signed(data, pos + 1, 64)
                    timestamp = base_timestamp + time
                last_time = -1
            else:
                pos += 2
                if byte != last_time:
                    timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                    last_time = byte

            delta_end = pos + width
            if data[pos:delta_end] == delta:
                pos = delta_end
            else:
                other, pos = signed(data, pos)
                offset = base_offset + other

            byte = data[pos]
            if byte == 1:
                pos += 1
                key = None
            else:
                if byte < 0x80:
                    at = pos + 1
                    pos = at + length_of[byte]
                else:
                    length, at = signed(data, pos)
                    pos = at + length if length >= 0 else _OUT
                key = data[at:pos]

            byte = data[pos]
            if byte == 1:
                pos += 1
                value = None
            else:
                if byte < 0x80:
                    at = pos + 1
                    pos = at + length_of[byte]
                else:
                    next_byte = data[pos + 1]
                    if next_byte < 0x80:
                        at = pos + 2
                        pos = at + length_of[byte] + (next_byte << 6)
                    else:
                        length, at = signed(data, pos)
                        pos = at + length if length >= 0 else _OUT
                value = data[at:pos]

            if data[pos]:
                headers, pos = _headers(data, pos, record_end)
                append(new(Record, (offset, timestamp, key, value, headers)))
            else:
                pos += 1
                append(new(Record, (offset, timestamp, key, value, ())))
            if pos != record_end:
                raise InvalidRecord(f"record {first + len(records) - 1} is not as long as it says")
    except IndexError:
        raise InvalidRecord(f"record {first + len(records)} is cut off, or a length in it leads out of it") from None
    # Looked at once and not for each record: what was read beyond the end is thrown away.
    if pos > end:
        raise InvalidRecord("the records lead out of their batch")
    return pos


def signed(data: bytes, pos: int, bits: int = 32) -> tuple[int, int]:
    number = 0
    for place in range(-(-bits // 7)):
        byte = data[pos + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if number >> bits:
                break
            return (number >> 1) ^ -(number & 1), pos + place + 1
    raise InvalidRecord(f"a varint of more than {bits} bits")


def _headers(data: bytes, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = (data[pos] >> 1, pos + 1) if data[pos] < 0x80 and not data[pos] & 1 else signed(data, pos)
    if count < 0:
        raise InvalidRecord("a negative count of headers")
    headers: list[tuple[str, bytes | None]] = []
    try:
        for _ in range(count):
            length = data[pos]
            at = pos + 1
            if length < 0x80:
                pos = at + _LENGTH[length]
            else:
                length, at = signed(data, pos)
                pos = at + length if length >= 0 else _OUT
            if pos > end:
                raise InvalidRecord("a header's name is null, or does not fit into its record")
            name = data[at:pos].decode()
            length = data[pos]
            at = pos + 1
            if length == 1:
                pos = at
                headers.append((name, None))
                continue
            if length < 0x80:
                pos = at + _LENGTH[length]
            else:
                length, at = signed(data, pos)
                pos = at + length if length >= 0 else _OUT
            if pos > end:
                raise InvalidRecord("a header's value does not fit into its record")
            headers.append((name, data[at:pos]))
    except UnicodeDecodeError as error:
        raise InvalidRecord(f"a header's name is no text: {error.reason}") from None
    return tuple(headers), pos
