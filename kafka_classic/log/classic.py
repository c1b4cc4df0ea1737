"""Where batches begin in a segment of a classic log: found by subtraction, with a sparse list for the rest (P6, P8).

An offset is a byte position, so the batch that a consumer asks for next begins where the last one ended. Only a
consumer that stopped inside a batch needs the list. It holds at most one start for each index interval and is learnt:
by appends in the active segment, by walking in one that was found on disk.
"""

import os
from array import array
from bisect import bisect_right

from kafka_classic.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC

from .index import GrowingOffsetIndex
from .scan import Header


class BatchStarts(GrowingOffsetIndex):
    """Positions at which batches are known to begin; relative offsets are these same positions."""

    __slots__ = ()

    def __init__(self) -> None:
        starts = array("I")
        super().__init__(starts, starts)

    def add(self, relative: int, position: int) -> None:
        self.positions.append(position)

    def learn(self, position: int, interval: int) -> None:
        """Remember a start that was come by, unless one near by is known."""
        starts = self.positions
        row = bisect_right(starts, position)
        near = (row and position - starts[row - 1] <= interval) or (
            row < len(starts) and starts[row] - position <= interval
        )
        if not near and position > interval:
            starts.insert(row, position)


def begins_at(fd: int, position: int, offset: int, end: int) -> bool:
    """Whether a batch of a classic log begins there: its base offset is its place, its deltas its length."""
    if end - position < HEADER_SIZE:
        return False
    header: Header = HEADER.unpack(os.pread(fd, HEADER_SIZE, position))
    size = header[1] + LOG_OVERHEAD
    return header[0] == offset and header[3] == MAGIC and header[6] == size - 1 and size <= end - position
