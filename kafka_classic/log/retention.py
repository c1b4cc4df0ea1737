"""Which of a log's oldest segments have had their time (P11): pure functions from segments to segments."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Aged(Protocol):
    """What retention and compaction look at in a segment."""

    @property
    def base(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...


Rule = Callable[[Aged], bool]


def too_old(now_ms: int, retention_ms: int) -> Rule:
    """A segment whose newest record is older than the retention time."""
    return lambda segment: 0 <= retention_ms < now_ms - segment.largest_timestamp


def too_much(total: int, retention_bytes: int) -> Rule:
    """Segments, oldest first, without which the log still holds as many bytes as it may."""
    surplus = total - retention_bytes

    def rule(segment: Aged) -> bool:
        nonlocal surplus
        if retention_bytes < 0 or surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return rule


def below_start(start_offset: int) -> Rule:
    """A segment whose records were all deleted by DeleteRecords."""
    return lambda segment: segment.next_offset <= start_offset


def expired(segments: Sequence[Aged], rule: Rule, upto: int) -> int:
    """How many segments from the oldest on fall under the rule; none that reaches above `upto`, none that is empty."""
    count = 0
    for segment in segments:
        if segment.size == 0 or segment.next_offset > upto or not rule(segment):
            break
        count += 1
    return count
