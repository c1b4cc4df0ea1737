"""The sparse indexes of a segment: offset -> position (`.index`) and timestamp -> offset (`.timeindex`).

Both files are Kafka's, big-endian: 4 bytes of relative offset and 4 of position; 8 bytes of timestamp and 4 of
relative offset. An offset entry names the first offset of the batch that begins at its position, so that a fetch
which ended on an entry is continued without a scan. The active segment's entries live in arrays; those of an old
segment are searched in the mapped file, so that ten gigabytes of log cost no memory.
"""

import mmap
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Protocol, overload

OFFSET_ENTRY = Struct(">II")
TIME_ENTRY = Struct(">qI")


class Column(Protocol):
    """A sorted column of numbers: an array, or one field of every entry of a mapped file."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> int: ...


class MappedColumn(Sequence[int]):
    """One field of each entry of an index file, read where it lies."""

    __slots__ = ("_at", "_data", "_rows", "_stride", "_unpack")

    def __init__(self, data: mmap.mmap | bytes, field: Struct, stride: int, at: int) -> None:
        self._data = data
        self._unpack = field.unpack_from
        self._stride = stride
        self._at = at
        self._rows = len(data) // stride

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, row: int) -> int: ...

    @overload
    def __getitem__(self, row: slice) -> list[int]: ...

    def __getitem__(self, row: int | slice) -> int | list[int]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(self._rows))]
        if row < 0:
            row += self._rows
        if not 0 <= row < self._rows:
            raise IndexError(row)
        value: int = self._unpack(self._data, self._at + row * self._stride)[0]
        return value


class OffsetIndex:
    """Relative offsets with the positions of their batches, both rising."""

    __slots__ = ("offsets", "positions")

    def __init__(self, offsets: Column, positions: Column) -> None:
        self.offsets = offsets
        self.positions = positions

    @classmethod
    def empty(cls) -> "GrowingOffsetIndex":
        return GrowingOffsetIndex(array("I"), array("I"))

    @classmethod
    def map(cls, path: Path) -> "OffsetIndex":
        """Search an old segment's entries in its file; ValueError if that is torn."""
        data = _map(path, OFFSET_ENTRY.size)
        return cls(MappedColumn(data, _INT, 8, 0), MappedColumn(data, _INT, 8, 4))

    def at_offset(self, relative: int) -> tuple[int, int]:
        """The last entry at or below the offset, as (relative offset, position); the segment's start if none is."""
        row = bisect_right(self.offsets, relative)
        return (self.offsets[row - 1], self.positions[row - 1]) if row else (0, 0)

    def at_position(self, position: int) -> tuple[int, int]:
        """The last entry at or below the position."""
        row = bisect_right(self.positions, position)
        return (self.offsets[row - 1], self.positions[row - 1]) if row else (0, 0)

    def __len__(self) -> int:
        return len(self.offsets)


class GrowingOffsetIndex(OffsetIndex):
    """The active segment's entries, in memory until the segment is closed."""

    __slots__ = ()
    offsets: "array[int]"
    positions: "array[int]"

    def add(self, relative: int, position: int) -> None:
        self.offsets.append(relative)
        self.positions.append(position)

    @classmethod
    def read(cls, path: Path) -> "GrowingOffsetIndex":
        """Take the entries of a file into memory; ValueError if it is torn."""
        data = path.read_bytes()
        if len(data) % OFFSET_ENTRY.size:
            raise ValueError(f"{path} ends in the middle of an entry")
        words = array("I", data)
        if sys.byteorder == "little":
            words.byteswap()
        return cls(words[0::2], words[1::2])

    def dump(self) -> bytes:
        """The bytes of the `.index` file."""
        words = array("I", bytes(8 * len(self.offsets)))
        words[0::2] = self.offsets
        words[1::2] = self.positions
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()


class TimeIndex:
    """The largest timestamp so far and the first offset of its batch, both rising."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self, timestamps: Column, offsets: Column) -> None:
        self.timestamps = timestamps
        self.offsets = offsets

    @classmethod
    def empty(cls) -> "GrowingTimeIndex":
        return GrowingTimeIndex(array("q"), array("I"))

    @classmethod
    def map(cls, path: Path) -> "TimeIndex":
        data = _map(path, TIME_ENTRY.size)
        return cls(MappedColumn(data, _LONG, 12, 0), MappedColumn(data, _INT, 12, 8))

    def before(self, timestamp: int) -> int:
        """A relative offset before which every record is older than the timestamp."""
        row = bisect_right(self.timestamps, timestamp)
        return self.offsets[row - 1] if row else 0

    @property
    def last(self) -> tuple[int, int] | None:
        """The largest timestamp and the relative offset of its batch."""
        return (self.timestamps[-1], self.offsets[-1]) if len(self.offsets) else None

    def __len__(self) -> int:
        return len(self.offsets)


class GrowingTimeIndex(TimeIndex):
    """The active segment's entries, in memory until the segment is closed."""

    __slots__ = ()
    timestamps: "array[int]"
    offsets: "array[int]"

    def add(self, timestamp: int, relative: int) -> None:
        """Add an entry if the timestamp is larger than all before it."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative)

    @classmethod
    def read(cls, path: Path) -> "GrowingTimeIndex":
        data = path.read_bytes()
        if len(data) % TIME_ENTRY.size:
            raise ValueError(f"{path} ends in the middle of an entry")
        entries = list(TIME_ENTRY.iter_unpack(data))
        return cls(array("q", [row[0] for row in entries]), array("I", [row[1] for row in entries]))

    def dump(self) -> bytes:
        """The bytes of the `.timeindex` file."""
        return b"".join(map(TIME_ENTRY.pack, self.timestamps, self.offsets))


_INT = Struct(">I")
_LONG = Struct(">q")


def _map(path: Path, stride: int) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size % stride:
            raise ValueError(f"{path} ends in the middle of an entry")
        return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) if size else b""
