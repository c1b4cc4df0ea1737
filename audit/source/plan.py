"""Which task reads which offsets: pure functions over ranges, the same for batches, streams and the audit.

Offsets of a range are places, not counts: a compacted topic has gaps, and in a classic one an offset is a byte (P6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
Offsets: TypeAlias = Mapping[TopicPartition, int]


class Range(NamedTuple):
    """The offsets of one partition from `start` on and below `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def at(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end} of {self.topic}-{self.partition}"


def between(start: Offsets, end: Offsets) -> list[Range]:
    """Return what lies between two positions, in order; a partition that `start` does not know is read from 0 on.

    0 is where every log begins. Where retention has been there already, the one who reads it notices.
    """
    ranges = (Range(*at, start.get(at, 0), until) for at, until in sorted(end.items()))
    return [one for one in ranges if one.size]


def split(ranges: Iterable[Range], least: int | None = None, largest: int | None = None) -> list[Range]:
    """Cut ranges so that none has more than `largest` offsets and there are at least `least` of them, if that goes."""
    whole = [one for one in ranges if one.size]
    if largest is not None:
        whole = [part for one in whole for part in cut(one, -(-one.size // largest))]
    if least is None or len(whole) >= least:
        return whole
    pieces = [1] * len(whole)
    # The largest pieces are cut further, one cut at a time: small ranges stay whole and none is cut to nothing.
    for _ in range(least - len(whole)):
        at = max(range(len(whole)), key=lambda index: whole[index].size / pieces[index], default=None)
        if at is None or whole[at].size <= pieces[at]:
            break
        pieces[at] += 1
    return [part for one, count in zip(whole, pieces, strict=True) for part in cut(one, count)]


def cut(one: Range, pieces: int) -> list[Range]:
    """Cut a range into so many pieces of about the same size."""
    borders = [one.start + one.size * index // pieces for index in range(pieces + 1)]
    return [one._replace(start=a, end=b) for a, b in pairwise(borders) if a < b]


def limited(start: Offsets, end: Offsets, most: int) -> dict[TopicPartition, int]:
    """Return the position that is at most `most` offsets after `start`: each partition gets its share of what waits.

    At least one offset of each, as in Spark's own source, so that a small partition beside large ones moves on.
    """
    sizes = {at: max(0, until - start.get(at, 0)) for at, until in end.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    return {
        at: min(until, start.get(at, 0) + max(1, sizes[at] * most // total)) if sizes[at] else until
        for at, until in end.items()
    }
