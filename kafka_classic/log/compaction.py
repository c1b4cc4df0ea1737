"""One pass of compaction, cut off from its log: begun on the log's thread, worked on any, swapped in on the log's.

    read_keys()   any thread: the dirty section's keys go into the table, until that is full
    groups()      the segments below where that ended, put together
    rewrite()     any thread: one group's records that stay go to a `.cleaned` file, synced
    (the log swaps it in, or finds that it must not: CompactableLog.swap)

The old segments never change, so reading them needs no lock. Whatever happens to the log meanwhile - it is cut,
deleted, closed - cancels the pass: it stops at its next batch, and what it wrote is removed.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kafka_classic.records.batch import LOG_OVERHEAD, CorruptBatch, InvalidRecord
from kafka_classic.records.places import Places

from .cleanable import Dirt, grouped
from .config import LogConfig
from .files import OpenFile, read_exactly
from .keeping import Keeping, filler, places_of
from .keys import KeyTable
from .pace import Pace
from .rewriting import CleanedSegment
from .scan import Header, Scan
from .segment import Segment, segment_path
from .swap import INDEXES, discard

MEMORY = 128 << 20
BUFFER = 512 << 10
A_STEP = 16 << 10  # bytes after which it is asked whether to go on


class Cancelled(Exception):
    """The log was cut, deleted or closed, or segments went: nothing of the pass is used."""


class Damaged(ValueError):
    """A batch is not what was written there: the log is compacted no more, and all of it stays."""


class Old:
    """A segment that the pass reads; taken down on the log's thread, for a Segment belongs to that."""

    __slots__ = ("base", "largest_timestamp", "next_offset", "path", "segment", "size", "start")

    def __init__(self, segment: Segment, start: int) -> None:
        self.segment = segment
        self.base, self.next_offset, self.size = segment.base, segment.next_offset, segment.size
        self.largest_timestamp = -1
        self.path = segment.path
        self.start = start  # where the first dirty batch lies, if it lies in this segment


class Compaction:
    """What one pass has found and done so far."""

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        dirt: Dirt,
        segments: Sequence[Old],
        last_batches: Mapping[int, int],
        now_ms: int,
        *,
        memory: int = MEMORY,
        buffer: int = BUFFER,
        pace: Pace | None = None,
    ) -> None:
        self.dirt = dirt
        self.error: Exception | None = None
        self.upto = dirt.first_dirty  # what the table knows ends here
        self.keys = 0
        self.bytes_moved = self.bytes_before = self.bytes_after = self.swapped = 0
        self.table = KeyTable(memory)
        self.keeping = Keeping(self.table, self.upto, now_ms, config.delete_retention_ms, last_batches)
        self._folder = folder
        self._config = config
        self._segments = segments
        self._buffer = buffer
        self._pace = pace
        self._stop = threading.Event()
        self.began = time.monotonic()

    def cancel(self) -> None:
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    # -- the keys

    def read_keys(self) -> None:
        """Fill the table from the dirty section; at least one batch fits, so that every pass gets on."""
        for segment in self._segments:
            if segment.next_offset <= self.dirt.first_dirty:
                continue
            for data, at, header in self._batches(segment, segment.start):
                if header[0] + header[6] < self.dirt.first_dirty:
                    continue
                _, places = _parsed(segment.path, data, at, header)
                if len(self.table) and self.table.full(places.keys):
                    self._all_read()
                    return
                base = header[0]
                self.table.add(places.keys, [base + delta for delta in places.deltas])
                self.upto = base + header[6] + 1
            self.upto = segment.next_offset
        self._all_read()

    def _all_read(self) -> None:
        self.keeping.upto = self.upto
        self.keys = len(self.table)

    # -- the segments

    def groups(self) -> list[list[Old]]:
        """The segments that hold anything below `upto`, as they go together."""
        config = self._config
        below = [segment for segment in self._segments if segment.base < self.upto]
        return grouped(below, config.segment_bytes, config.segment_index_bytes, _index_size)

    def rewrite(self, group: Sequence[Old]) -> bool:
        """Write what stays of a group; False if that is all of it, and nothing was written."""
        first, last = group[0], group[-1]
        source = _opened(first.path) if len(group) == 1 else None
        cleaned = CleanedSegment(self._folder, first.base, self._config.index_interval_bytes, self._buffer, source)
        end, latest = first.base, None
        for segment in group:
            for data, at, header in self._batches(segment, 0):
                latest = header
                try:
                    left = self.keeping.of(data, at, header)
                except (CorruptBatch, InvalidRecord) as error:
                    raise _damaged(segment.path, header, error) from error
                if not (left or header[12]) and header[0] + header[6] + 1 == last.next_offset:
                    left = None  # the filler that is needed here
                if left is None:
                    cleaned.keep(memoryview(data)[at : at + header[1] + LOG_OVERHEAD], header)
                    end = header[0] + header[6] + 1
                elif left:
                    cleaned.add(left)
                    end = header[0] + header[6] + 1
                else:
                    cleaned.change()
            self.bytes_before += segment.size
        if end < last.next_offset and latest is not None:
            cleaned.add(filler(max(end, latest[0]), last.next_offset, latest[2]))
        self.bytes_after += cleaned.size
        if not cleaned.changed:
            return False
        cleaned.finish()
        self._took(cleaned.size)
        return True

    def discard(self) -> None:
        """Remove what was written and is not used, and give the memory back."""
        for segment in self._segments:
            discard(self._folder, segment.base)
        self.table.clear(self._breathe)

    def _batches(self, segment: Old, start: int) -> Iterator[tuple[bytes, int, Header]]:
        """Each batch, its CRC checked, as (bytes that hold it, where in them, header)."""
        self._took(0)
        file = _opened(segment.path)
        scan = Scan(file, start, segment.size, segment.base, crc=True, chunk=self._buffer)
        data, begins, told = b"", start, start
        for position, header in scan:
            size = header[1] + LOG_OVERHEAD
            if position + size > begins + len(data):
                data, begins = read_exactly(file.fd, position, max(size, self._buffer)), position
            if position + size - told >= A_STEP:
                self._took(position + size - told)
                told = position + size
            yield data, position - begins, header
        self._took(scan.position - told)
        if scan.problem:
            raise Damaged(f"{segment.path} at {scan.position}: {scan.problem}")

    def _took(self, count: int) -> None:
        self.bytes_moved += count
        self._breathe(count)
        if self._stop.is_set():
            raise Cancelled

    def _breathe(self, count: int = 0) -> None:
        if self._pace is not None:
            self._pace.took(count, self._stop.wait)


def _opened(path: Path) -> OpenFile:
    try:
        return OpenFile(path)
    except FileNotFoundError:
        raise Cancelled from None  # by retention, or with its topic


def _parsed(path: Path, data: bytes, at: int, header: Header) -> tuple[bytes, Places]:
    try:
        return places_of(data, at, header)
    except (CorruptBatch, InvalidRecord) as error:
        raise _damaged(path, header, error) from error


def _damaged(path: Path, header: Header, error: Exception) -> Damaged:
    return Damaged(f"{path}, the batch at offset {header[0]}: {error}")


def _index_size(segment: Old) -> int:
    try:
        return max(segment_path(segment.path.parent, segment.base, suffix).stat().st_size for suffix in INDEXES)
    except FileNotFoundError:
        return 0
