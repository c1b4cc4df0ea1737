"""Runs of records of one shape, found and read by strided slices, in C: more than twice as fast as a loop.

Records that differ in nothing but timestamp, offset and content lie at equal distances, so that `data[at::size]` is
a column: the same byte of every record. Equal first bytes prove equal lengths, and by induction that the next record
lies where the stride says. Logs with fixed-size messages, and the first records of most others, are such runs.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

from .batch import Buffer
from .deltas import KEPT, delta_columns, delta_range

WORTHWHILE: Final = 16
# length, attributes, both deltas, key, value, headers: a byte each.
SMALLEST_RECORD: Final = 7
ZIGZAG: Final = tuple((number >> 1) ^ -(number & 1) for number in range(128))


def run_length(data: Buffer, pos: int, size: int, count: int, places: Iterable[int]) -> int:
    """How many of `count` records, `size` bytes apart from `pos` on, have the first one's bytes at `places`.

    It looks at a few first and then at ever more, so that it costs no more than what it finds: else a batch made for
    it, of many short runs, would take as long as the square of its size.
    """
    wanted = [(place, bytes(data[pos + place : pos + place + 1])) for place in places]
    found = 0
    while found < count:
        looked_at = matching = min(count - found, 4 * found or WORTHWHILE)
        start = pos + size * found
        for place, byte in wanted:
            column = bytes(data[start + place : start + size * matching : size])
            matching -= len(column.lstrip(byte))
        found += matching
        if matching < looked_at:
            break
    return found


def length_at(data: Buffer, pos: int) -> tuple[int, int]:
    """The varint length at `pos` and its width; the width is 0 if it is negative or takes more than three bytes."""
    number, width = data[pos], 1
    if number > 0x7F:
        number = number & 0x7F | data[pos + 1] << 7
        width = 2
        if number > 0x3FFF:
            number = number & 0x3FFF | data[pos + 2] << 14
            width = 3
    return number >> 1, 0 if number & 1 or number > 0x1FFFFF else width


class Run(NamedTuple):
    """Records of one shape: `length` of them, `size` bytes apart from `pos` on, their offset deltas from `delta` on.

    The other places count from a record's first byte. `time_at` is the one byte of its timestamp delta, in zigzag; a
    key's length is -1 where the keys are null. None has headers.
    """

    data: bytes
    pos: int
    length: int
    size: int
    delta: int
    time_at: int
    key_at: int
    key_length: int
    value_at: int
    value_length: int

    @property
    def end(self) -> int:
        return self.pos + self.size * self.length

    def timestamps(self, base_timestamp: int) -> Iterable[int]:
        times = self.data[self.pos + self.time_at : self.end : self.size]
        if times.count(times[0]) == self.length:
            return repeat(base_timestamp + ZIGZAG[times[0]], self.length)
        return [base_timestamp + ZIGZAG[time] for time in times]

    def keys(self) -> Iterator[bytes] | Iterable[None]:
        return repeat(None, self.length) if self.key_length < 0 else self._cells(self.key_at, self.key_length)

    def values(self) -> Iterator[bytes]:
        return self._cells(self.value_at, self.value_length)

    def _cells(self, at: int, length: int) -> Iterator[bytes]:
        rows: Iterator[tuple[Any, ...]] = struct.iter_unpack(
            f"{at}x{length}s{self.size - at - length}x", memoryview(self.data)[self.pos : self.end]
        )
        return chain.from_iterable(rows)


def find_run(data: bytes, pos: int, end: int, delta: int, most: int) -> Run | None:
    """Find the run of at most `most` records at `pos`, whose offset deltas must count up from `delta`.

    None where no worthwhile run of sound records begins. There must be enough bytes before `end` for that many of the
    smallest records.
    """
    length, width = length_at(data, pos)
    if not width:
        return None
    size = width + length
    most = min(most, (end - pos) // size)
    if most < WORTHWHILE:
        return None
    # attributes, timestamp delta (one byte), offset delta, key, value, no headers
    time_at = width + 1
    delta_width, delta_end = delta_range(delta)
    key_length_at = time_at + 1 + delta_width
    key_length, key_width = length_at(data, pos + key_length_at)
    null_keys = data[pos + key_length_at] == 1
    if null_keys:
        key_length, key_width = 0, 1
    key_at = key_length_at + key_width
    value_length_at = key_at + key_length
    if not key_width or value_length_at >= size:
        return None
    value_length, value_width = length_at(data, pos + value_length_at)
    value_at = value_length_at + value_width
    tail_at = value_at + value_length
    if not value_width or tail_at + 1 != size or data[pos + tail_at]:
        return None
    fixed = chain(range(width), range(key_length_at, key_at), range(value_length_at, value_at), (tail_at,))
    count = run_length(data, pos, size, min(most, delta_end - delta, KEPT - delta), fixed)
    times = data[pos + time_at : pos + size * count : size]
    if count < WORTHWHILE or not times.isascii():
        return None
    first = delta - (delta_end >> 7)
    for place, expected in enumerate(delta_columns(delta_width), time_at + 1):
        if data[pos + place : pos + size * count : size] != expected[first : first + count]:
            return None
    return Run(data, pos, count, size, delta, time_at, key_at, -1 if null_keys else key_length, value_at, value_length)
