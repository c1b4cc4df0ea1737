"""What of a log is to be compacted, and how its segments are put together: pure functions over segments.

   cleaned before          |        dirty        |   not yet: too young, above the high
                           |                     |   watermark, not flushed, active
---------------------------|---------------------|-------------------------------------
start               first dirty offset    first uncleanable offset                  end
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from .retention import Aged
from .segment import FARTHEST

S = TypeVar("S", bound=Aged)


class Dirt(NamedTuple):
    """How much of a log there is to compact."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def worth_it(self, least: float) -> bool:
        """Whether min.cleanable.dirty.ratio is passed, or something has waited too long."""
        return self.ratio > least or (self.overdue and self.dirty_bytes > 0)


def first_uncleanable(closed: Sequence[Aged], first_dirty: int, upto: int, youngest_ms: int | None) -> int:
    """Up to where it may be compacted: whole segments below `upto`, none with a record from after `youngest_ms`."""
    end = first_dirty
    for segment in closed:
        if segment.next_offset <= first_dirty:
            continue
        if segment.next_offset > upto or (youngest_ms is not None and segment.largest_timestamp > youngest_ms):
            break
        end = segment.next_offset
    return end


def grouped(segments: Sequence[S], most_bytes: int, most_index: int, index_size: Callable[[S], int]) -> list[list[S]]:
    """Segments that follow each other, put together as far as one file, its indexes and its offsets can take them."""
    groups: list[list[S]] = []
    size = entries = 0
    for segment in segments:
        of_index = index_size(segment)
        last = groups[-1] if groups else None
        if (
            last is not None
            and size + segment.size <= most_bytes
            and entries + of_index <= most_index
            and segment.next_offset - 1 - last[0].base <= FARTHEST
        ):
            last.append(segment)
        else:
            groups.append([segment])
            size = entries = 0
        size += segment.size
        entries += of_index
    return groups
