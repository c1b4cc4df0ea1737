"""Counting the records of an uncompressed batch: by runs of one size where there are any, else from length to length.

A broker counts the records of every batch it is sent, so this may cost no more than the crc does. Measured for 1,000
values of 200 bytes: see bench/records.py. The plain twin stands in tests/records/plain.py.
"""

from typing import Final

from .batch import Buffer, InvalidRecord
from .runs import WORTHWHILE, length_at, run_length

# From the first byte of a length to the next record, less what the second byte adds. An odd byte begins a negative
# length: a step out of every batch makes it an error without a test of its own in the loop.
_OUT: Final = 1 << 40
_ONE_BYTE_STEP: Final = tuple(_OUT if byte & 1 else (byte >> 1) + 1 for byte in range(0x80))
_TWO_BYTE_STEP: Final = tuple(_OUT if byte & 1 else ((byte & 0x7F) >> 1) + 2 for byte in range(0x100))

# Below this many bytes no run is looked for.
_SMALL: Final = 2048


def count_records(buf: Buffer, pos: int, end: int) -> int:
    """Count the records in [pos, end), which they must fill exactly; InvalidRecord if they do not."""
    count = 0
    hops = WORTHWHILE
    try:
        if end - pos < _SMALL:
            # One record is the usual thing for a producer that does not wait: no call for it.
            if end - pos > 1 and buf[pos] > 0x7F and buf[pos + 1] < 0x80:
                pos += (buf[pos + 1] << 6) + _TWO_BYTE_STEP[buf[pos]]
                if pos == end:
                    return 1
                count = 1
            hopped, pos = _hop(buf, pos, end, _SMALL)
            count += hopped
        while pos < end:
            length, width = length_at(buf, pos)
            size = width + length
            if width and end - pos >= size * WORTHWHILE:
                run = run_length(buf, pos, size, (end - pos) // size, range(width))
                if run >= WORTHWHILE:
                    hops = WORTHWHILE
                pos += run * size
                count += run
            hopped, pos = _hop(buf, pos, end, hops)
            count += hopped
            hops *= 2
    except IndexError:
        raise InvalidRecord("the length of a record is cut off") from None
    if pos != end:
        raise InvalidRecord(f"record {count - 1} has a length that is negative or leads out of its batch")
    return count


def _hop(buf: Buffer, pos: int, end: int, most: int) -> tuple[int, int]:
    two_byte_step = _TWO_BYTE_STEP
    for hopped in range(most):
        if pos >= end:
            return hopped, pos
        byte = buf[pos]
        if byte > 0x7F:
            next_byte = buf[pos + 1]
            if next_byte < 0x80:
                pos += (next_byte << 6) + two_byte_step[byte]
            else:
                pos = _hop_far(buf, pos)
        else:
            pos += _ONE_BYTE_STEP[byte]
    return most, pos


def _hop_far(buf: Buffer, pos: int) -> int:
    number = 0
    for place in range(5):
        byte = buf[pos + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if number & 1 or number >> 32:
                break
            return pos + place + 1 + (number >> 1)
    raise InvalidRecord("the length of a record is no varint of 32 bits, or negative")
