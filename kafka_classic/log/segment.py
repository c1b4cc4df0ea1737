"""One segment of a log: a file of batches and its two sparse indexes, found by their names (P4)."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from kafka_classic.records.batch import HEADER_SIZE, LOG_OVERHEAD

from .classic import BatchStarts, begins_at
from .files import OpenFile, replace
from .index import GrowingOffsetIndex, GrowingTimeIndex, OffsetIndex, TimeIndex
from .scan import CHUNK, SMALLEST, Header, Scan

log = logging.getLogger(__name__)

NO_TIMESTAMP = -1
FARTHEST = 2**31 - 1  # a relative offset is a signed int in Kafka's index
A_LOOK_AHEAD = 200
_AT = Struct(">qi11xi")  # base offset, length and last offset delta of a batch


def segment_path(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020d}{suffix}"


class Segment:
    """Batches from `base` up to `next_offset`, `size` bytes of them, all committed.

    The active segment keeps its file open and its index in memory. An old one opens its file and maps its indexes when
    they are asked for, and lets go of them by `release()`. An index that is missing, torn or short is built anew.
    """

    __slots__ = (
        "_index",
        "_max_timestamp",
        "_sound",
        "_times",
        "base",
        "classic",
        "created",
        "file",
        "first_timestamp",
        "flushed",
        "folder",
        "interval",
        "max_timestamp_offset",
        "next_offset",
        "size",
    )

    def __init__(self, folder: Path, base: int, *, size: int, next_offset: int, interval: int, classic: bool) -> None:
        self.folder = folder
        self.base = base
        self.size = size
        self.next_offset = next_offset
        self.interval = interval
        self.classic = classic
        self.file: OpenFile | None = None
        self.created = 0
        self.first_timestamp = NO_TIMESTAMP
        self.flushed = False
        self.max_timestamp_offset = base
        self._max_timestamp: int | None = None
        self._sound = False
        self._index: OffsetIndex | None = BatchStarts() if classic else None
        self._times: TimeIndex | None = TimeIndex.empty() if classic else None

    @classmethod
    def create(cls, folder: Path, base: int, *, interval: int, classic: bool, now_ms: int) -> "Segment":
        """Make an empty segment to append to; files of that name that a crash left are emptied."""
        segment = cls(folder, base, size=0, next_offset=base, interval=interval, classic=classic)
        segment.file = OpenFile(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        segment.created = now_ms
        if not classic:
            # Empty until the segment is closed: its entries are in memory, and a crash rebuilds them.
            for suffix in (".index", ".timeindex"):
                segment.path_of(suffix).write_bytes(b"")
        segment.activate(None if classic else OffsetIndex.empty(), TimeIndex.empty(), NO_TIMESTAMP, base)
        return segment

    def activate(
        self, index: GrowingOffsetIndex | None, times: GrowingTimeIndex, max_timestamp: int, offset: int
    ) -> None:
        """Take what is known of the segment's content, to append to it or to write its index files."""
        if index is not None:
            self._index = index
        self._times = times
        self._max_timestamp = max_timestamp
        self.max_timestamp_offset = offset

    # -- files

    @property
    def path(self) -> Path:
        return segment_path(self.folder, self.base)

    def path_of(self, suffix: str) -> Path:
        return segment_path(self.folder, self.base, suffix)

    def open(self) -> OpenFile:
        if self.file is None:
            self.file = OpenFile(self.path, os.O_RDWR)
        return self.file

    def write_indexes(self) -> None:
        """Write what is in memory to the index files; an old segment's are written at once, when it becomes old."""
        if self.classic or not isinstance(self._index, GrowingOffsetIndex):
            return
        times = self.times
        if isinstance(times, GrowingTimeIndex):
            times.add(self.max_timestamp, self.max_timestamp_offset - self.base)
            replace(self.path_of(".timeindex"), times.dump(), durable=False)
        replace(self.path_of(".index"), self._index.dump(), durable=False)

    def release(self) -> None:
        """Let go of the open file and the indexes; whoever reads from the file keeps it."""
        self.file = None
        if not self.classic:
            self._index = self._times = None

    def unlink(self) -> None:
        """Remove the segment, its batches first: an index with no batches is removed at the next start."""
        for suffix in (".log", ".index", ".timeindex", ".snapshot"):
            with contextlib.suppress(FileNotFoundError):
                self.path_of(suffix).unlink()

    # -- indexes

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._load_indexes()
        assert self._times is not None
        return self._times

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, or -1."""
        if self._max_timestamp is None and self.classic:
            self.rebuild()
        elif self._max_timestamp is None:
            last = self.times.last
            self._max_timestamp = last[0] if last else NO_TIMESTAMP
            self.max_timestamp_offset = self.base + (last[1] if last else 0)
        assert self._max_timestamp is not None
        return self._max_timestamp

    @max_timestamp.setter
    def max_timestamp(self, timestamp: int) -> None:
        self._max_timestamp = timestamp

    @property
    def largest_timestamp(self) -> int:
        """What its age is counted from: of a segment without known timestamps, the time of its last write."""
        unknown = self.classic and self._max_timestamp is None  # to learn it, all of the segment would have to be read
        known = NO_TIMESTAMP if unknown else self.max_timestamp
        return known if known >= 0 else int(self.path.stat().st_mtime * 1000)

    def _load_indexes(self) -> None:
        try:
            index, times = OffsetIndex.map(self.path_of(".index")), TimeIndex.map(self.path_of(".timeindex"))
            self._index, self._times = index, times
            if not self._sound:
                self.check_indexes(index, times)
                self._sound = True
        except (FileNotFoundError, ValueError) as reason:
            log.warning("building the index of %s anew: %s", self.path, reason)
            self.rebuild()

    def check_indexes(self, index: OffsetIndex, times: TimeIndex) -> None:
        """Raise ValueError if an index ends before its segment does, or ends in a batch that is not there."""
        at, offset = (index.positions[-1], self.base + index.offsets[-1]) if len(index) else (0, self.base)
        if at and at >= self.size:
            raise ValueError("an entry points behind the end")
        for position, header in self.batches(at):
            if position == at and at and header[0] != offset:
                raise ValueError(f"no batch of offset {offset} begins at {at}")
            if position > at and position + header[1] + LOG_OVERHEAD - at > self.interval:
                raise ValueError("entries are missing at the end")
            if position > at + self.interval:
                break
        timestamp, relative = times.last or (NO_TIMESTAMP, 0)
        offset, named = self.base + relative, not len(times)
        for ahead, (_, header) in enumerate(self.batches(index.at_offset(relative)[1])):
            if header[0] == offset and header[8] == timestamp:
                named = True
            elif header[0] >= offset and header[8] > timestamp:
                raise ValueError("the largest timestamp is missing")
            if ahead > A_LOOK_AHEAD:
                break
        if not named:
            raise ValueError(f"no batch of offset {offset} has timestamp {timestamp}")

    def rebuild(self) -> int:
        """Build both indexes from the batches, and write their files if the disk lets us; returns where these end."""
        index: GrowingOffsetIndex = BatchStarts() if self.classic else OffsetIndex.empty()
        builder = IndexBuilder(self.base, self.interval, index)
        end = self.base
        for position, header in self.batches(0):
            builder.add(position, header)
            end = header[0] + header[6] + 1
        times = TimeIndex.empty() if self.classic else builder.times
        self.activate(index, times, builder.max_timestamp, builder.max_timestamp_offset)
        with contextlib.suppress(OSError):
            self.write_indexes()
        return end

    # -- finding

    def batches(self, position: int, end: int | None = None, chunk: int = CHUNK) -> Iterator[tuple[int, Header]]:
        """The headers of the batches from a position on, which must be the start of one."""
        return iter(Scan(self.open(), position, self.size if end is None else end, chunk=chunk))

    def locate(self, offset: int) -> int | None:
        """The position of the first batch that holds this offset or a later one; None if the segment ends before."""
        relative = offset - self.base
        if relative <= 0:
            return 0 if self.size else None
        if self.classic and relative < self.size and begins_at(self.open().fd, relative, offset, self.size):
            return relative
        found, position = self.index.at_offset(min(relative, FARTHEST))
        if position >= self.size:
            return None  # an entry of a batch that is only staged
        if found == relative:
            return position
        position, held = self._hop(position, offset)
        if held:
            return position
        starts = self._index if isinstance(self._index, BatchStarts) else None
        for at, header in self.batches(position, chunk=max(2 * self.interval, 128)):
            if header[0] + header[6] >= offset:
                return at
            if starts is not None:
                starts.learn(at, self.interval)
        return None

    def _hop(self, position: int, offset: int) -> tuple[int, bool]:
        """From batch to batch within one read: in most cases it holds all between two index entries.

        Returns the position of the batch that holds the offset, and True; or of one before it, and False.
        """
        data = os.pread(self.open().fd, min(self.interval + HEADER_SIZE, self.size - position), position)
        at, end = 0, len(data) - HEADER_SIZE
        while at <= end:
            base, length, delta = _AT.unpack_from(data, at)
            if base + delta >= offset:
                return position + at, True
            if length < SMALLEST:
                break  # damage: the walk that follows says so
            at += length + LOG_OVERHEAD
        return position, False

    def end_within(self, position: int, limit: int) -> tuple[int, int]:
        """The end of as many whole batches from `position` on as end at or before `limit`, and the offset there.

        An index entry if there is one, so that the next lookup scans nothing; the end of the first batch if even that
        one is too large.
        """
        relative, end = self.index.at_position(limit)
        if end > position:
            return end, self.base + relative
        starts = self._index if isinstance(self._index, BatchStarts) else None
        end, offset = position, self.base
        for at, header in self.batches(position, chunk=max(2 * self.interval, 128)):
            after = at + header[1] + LOG_OVERHEAD
            if end > position and after > limit:
                break
            if starts is not None:
                starts.learn(at, self.interval)
            end, offset = after, header[0] + header[6] + 1
        return end, offset

    def __repr__(self) -> str:
        return f"Segment({self.base}..{self.next_offset}, {self.size} bytes)"


class IndexBuilder:
    """Decides, batch by batch, what an index of a segment holds; the append path does the same in line."""

    __slots__ = (
        "_base",
        "_index",
        "_interval",
        "_last",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "times",
    )

    def __init__(self, base: int, interval: int, index: GrowingOffsetIndex) -> None:
        self._base = base
        self._interval = interval
        self._index = index
        self._last = 0
        self.times = TimeIndex.empty()
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base

    def add(self, position: int, header: Header) -> None:
        """An entry for each batch that reaches farther than the interval from the last entry's batch."""
        if position == 0:
            self.first_timestamp = header[8]
        elif position + header[1] + LOG_OVERHEAD - self._last > self._interval:
            self._index.add(header[0] - self._base, position)
            self.times.add(self.max_timestamp, self.max_timestamp_offset - self._base)
            self._last = position
        if header[8] > self.max_timestamp:
            self.max_timestamp = header[8]
            self.max_timestamp_offset = header[0]
