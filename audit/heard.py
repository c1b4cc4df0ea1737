"""What the driver learns of producers' events before anything is counted: where windows lie, and which are settled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_classic.client.monitoring import Event

At = tuple[str, int]  # a topic and a partition
Told = Mapping[tuple[str, int], int]  # how much, by topic and window: it only grows


class Heard(NamedTuple):
    """One event."""

    topic: str
    window: int
    window_ms: int
    revision: int
    firsts: list[tuple[At, int]]  # where its messages begin


class Settled(NamedTuple):
    """An earlier audit found the windows before `until` complete, by what it was `told`: they need no second one."""

    until: int
    told: Told

    def begin(self, told: Told) -> int:
        """The first window to be counted: not settled then, or more was told of it since."""
        return min([self.until, *(at[1] for at, much in told.items() if self.told.get(at) != much)])


def heard(event: Event) -> Heard:
    firsts = [
        ((event.topic, share.partition), min(run.first_offset for run in share.tally.runs))
        for share in event.shares
        if share.tally.runs and all(run.first_offset >= 0 for run in share.tally.runs)
    ]
    return Heard(event.topic, event.window, event.window_ms, event.revision, firsts)


def told_by(events: Iterable[Heard], windows: range) -> Told:
    found: dict[tuple[str, int], int] = defaultdict(int)
    for one in events:
        if one.window in windows:
            found[one.topic, one.window] += one.revision
    return dict(found)


def hints(events: Iterable[Heard], windows: range) -> tuple[dict[str, int], dict[At, int]]:
    """The windows' length by topic, and from which offset on those asked for lie, as the producers tell it."""
    lengths: dict[str, int] = {}
    firsts: dict[At, int] = {}
    for one in events:
        if one.window not in windows:
            continue
        lengths[one.topic] = min(one.window_ms, lengths.get(one.topic, one.window_ms))
        for at, offset in one.firsts:
            firsts[at] = min(offset, firsts.get(at, offset))
    return lengths, firsts
