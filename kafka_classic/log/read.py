"""Reading: where in which file the batches lie that hold an offset (P8), and which record has a timestamp."""

import os
from bisect import bisect_right
from collections.abc import Sequence

from kafka_classic.records.batch import HEADER, HEADER_SIZE

from .append import AppendableLog
from .errors import OffsetOutOfRange
from .files import FileSlice
from .segment import Segment
from .timestamps import first_at_or_after, first_of_largest


class ReadableLog(AppendableLog):
    """A log that can be read. Nothing is cached but the last few ends: the page cache is the cache (P9)."""

    __slots__ = ()

    def read(self, offset: int, max_bytes: int, *, upto: int | None = None, min_one: bool = True) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, below `upto`, out of one file; None if there are none.

        Raises OffsetOutOfRange below the log's start and above its end.
        """
        if self.failed is not None:
            raise self._offline()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"{self.name}: offset {offset} is not in {self.start_offset}..{self.end_offset}")
        upto = self.exposed_offset if upto is None else min(upto, self.end_offset)
        if offset >= upto:
            return None
        try:
            return self._read(offset, max_bytes, upto, min_one)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def _read(self, offset: int, max_bytes: int, upto: int, min_one: bool) -> FileSlice | None:
        segment = self._active
        position = None
        if offset >= segment.base:
            position = self._marked(offset)
            number = len(self.segments) - 1
        else:
            number = max(bisect_right(self._bases, offset) - 1, 0)
            segment = self._opened(self.segments[number])
        if position is None:
            position = segment.locate(offset)
        while position is None:  # the segment ends in a gap that compaction left
            number += 1
            if number == len(self.segments) or self._bases[number] >= upto:
                return None
            segment = self._opened(self.segments[number])
            position = segment.locate(offset)
        if upto >= segment.next_offset:
            end, next_offset = segment.size, segment.next_offset
        else:
            end, next_offset = self._end_below(segment, upto)
        if end - position > max_bytes:
            end, next_offset = segment.end_within(position, position + max_bytes)
            if end - position > max_bytes and not min_one:
                return None
        return FileSlice(segment.open(), position, end - position, next_offset) if end > position else None

    def _marked(self, offset: int) -> int | None:
        position = self._marks.get(offset)
        return self._old_marks.get(offset) if position is None else position

    def _end_below(self, segment: Segment, upto: int) -> tuple[int, int]:
        """Where the batches end that lie wholly below `upto`."""
        if segment is self._active and (end := self._marked(upto)) is not None:
            return end, upto
        end = segment.locate(upto)
        if end is None:
            return segment.size, segment.next_offset
        base: int = HEADER.unpack(os.pread(segment.open().fd, HEADER_SIZE, end))[0]
        return end, min(base, upto)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """The first exposed record whose timestamp is at least this one, as (offset, its timestamp)."""
        self._check()
        try:
            return first_at_or_after(self._each(), timestamp, self.start_offset, self.exposed_offset)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def max_timestamp(self) -> tuple[int, int] | None:
        """The record with the largest timestamp, the first if several have it, as (offset, its timestamp)."""
        self._check()
        try:
            return first_of_largest(self._each(), self.start_offset, self.exposed_offset)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def _each(self) -> Sequence[Segment]:
        """The segments that hold anything to be read."""
        return [segment for segment in self.segments if segment.size and segment.next_offset > self.start_offset]

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below this one and the offset where it ended (OffsetForLeaderEpoch)."""
        self._check()
        return self.epochs.end_offset(epoch, self.end_offset)
