"""Runs of numbered messages, and what two accounts of them have in common or not.

A message has a name at every tier: its producer's epoch and sequence number or, where its producer numbers nothing, its
offset under the epoch -1. A run is what follows each other without a gap, so accounts of millions of messages are a few
numbers, and comparing them names each gap and each double exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

UNNUMBERED = -1  # the epoch of messages that are named by their offset


class Span(NamedTuple):
    """The messages `first` up to, not including, `next` of an epoch."""

    epoch: int
    first: int
    next: int

    @property
    def size(self) -> int:
        return self.next - self.first


class Run(NamedTuple):
    """A span with the offsets of its first and last message; -1 where nobody told them."""

    epoch: int
    first: int
    next: int
    first_offset: int = -1
    last_offset: int = -1

    @property
    def span(self) -> Span:
        return Span(self.epoch, self.first, self.next)

    @property
    def size(self) -> int:
        return self.next - self.first


def add_run(runs: list[Run], run: Run) -> None:
    """Add what was met next; it grows the last run where it follows on."""
    if runs:
        last = runs[-1]
        if last.epoch == run.epoch and last.next == run.first and last.last_offset <= run.first_offset:
            runs[-1] = Run(last.epoch, last.first, run.next, last.first_offset, run.last_offset)
            return
    runs.append(run)


def in_order(runs: Iterable[Run]) -> list[Run]:
    """The runs by name, grown together where they follow on; repeats stay."""
    found: list[Run] = []
    for run in sorted(runs):
        add_run(found, run)
    return found


def covered(runs: Iterable[Run | Span]) -> list[Span]:
    """All messages that are there at least once."""
    found: list[Span] = []
    for epoch, first, next in sorted((run.epoch, run.first, run.next) for run in runs):
        if found and found[-1].epoch == epoch and first <= found[-1].next:
            last = found[-1]
            found[-1] = Span(epoch, last.first, max(last.next, next))
        elif next > first:
            found.append(Span(epoch, first, next))
    return found


def repeated(runs: Iterable[Run | Span]) -> list[Span]:
    """What is there more than once: each further copy is a span of its own."""
    extra: list[Span] = []
    reach: tuple[int, int] | None = None  # epoch, and up to where it is covered
    for epoch, first, next in sorted((run.epoch, run.first, run.next) for run in runs):
        if reach is not None and reach[0] == epoch and first < reach[1]:
            extra.append(Span(epoch, first, min(next, reach[1])))
            reach = (epoch, max(reach[1], next))
        else:
            reach = (epoch, next)
    return extra


def without(whole: Sequence[Span], part: Sequence[Span]) -> list[Span]:
    """What of `whole` is not in `part`; both as covered() returns them."""
    left: list[Span] = []
    place = 0
    for epoch, first, next in whole:
        while place < len(part) and (part[place].epoch, part[place].next) <= (epoch, first):
            place += 1
        at = place
        while at < len(part) and part[at].epoch == epoch and part[at].first < next:
            if part[at].first > first:
                left.append(Span(epoch, first, part[at].first))
            first = max(first, part[at].next)
            at += 1
        if first < next:
            left.append(Span(epoch, first, next))
    return left


def common(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """What is in both."""
    return without(one, without(one, other))


def size(spans: Iterable[Span | Run]) -> int:
    return sum(span.next - span.first for span in spans)
