"""What each member of a group read and owned, written down as it happened, and the judge of all of it.

Every member appends to a file of its own, one small record an event, with a time that all processes of the machine
share. What a member wrote before it was killed is there: the file is the kernel's.

    missed        records of the topic that no member was handed
    read by two   a member was handed a record of a partition after another had begun to read it
    out of order  a member was handed an earlier record after a later one (P21)
    elsewhere     a member did not begin at the offset that was committed: what comes again comes after that (P20)
"""

from __future__ import annotations

import os
import struct
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

_EVENT = struct.Struct("<BiqQ")  # what, partition, offset, nanoseconds


class What(IntEnum):
    """The member has its streams, owns a partition that was committed up to an offset, was handed a record of it."""

    READY = 0
    TOOK_OVER = 1
    HANDED = 2


class Event(NamedTuple):
    what: What
    partition: int
    offset: int
    at: int


class Journal:
    """One member's file, open for more. Threads may share it: an append of so few bytes is one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, what: What, partition: int = -1, offset: int = -1) -> None:
        os.write(self._file, _EVENT.pack(what, partition, offset, time.monotonic_ns()))

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Event]:
    """The events of one member so far, in order."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    whole = len(data) - len(data) % _EVENT.size
    for what, partition, offset, at in _EVENT.iter_unpack(memoryview(data)[:whole]):
        yield Event(What(what), partition, offset, at)


class Stint(NamedTuple):
    """A member's time with a partition, from when it took it over: the records it was handed, with their times.

    `committed` is what the group had committed then, -1 if nothing.
    """

    member: str
    partition: int
    handed: list[tuple[int, int]]
    committed: int = -1

    @property
    def began(self) -> int:
        return self.handed[0][1]


@dataclass
class Verdict:
    """What is wrong, by the kinds above; all empty when nothing is. `handed_again` is allowed: at least once (P20)."""

    missed: dict[int, list[int]] = field(default_factory=dict)
    read_by_two: list[tuple[Stint, Stint]] = field(default_factory=list)
    out_of_order: list[Stint] = field(default_factory=list)
    elsewhere: list[Stint] = field(default_factory=list)
    handed: int = 0
    handed_again: int = 0

    @property
    def clean(self) -> bool:
        return not (self.missed or self.read_by_two or self.out_of_order or self.elsewhere)

    def __str__(self) -> str:
        wrong = [f"missed in partition {partition}: {offsets[:5]} …" for partition, offsets in self.missed.items()]
        wrong += [
            f"partition {first.partition} read by {second.member} from {second.handed[0]} on, and by {first.member} "
            f"until {first.handed[-1]}"
            for first, second in self.read_by_two
        ]
        wrong += [f"out of order: partition {one.partition} at {one.member}" for one in self.out_of_order]
        wrong += [
            f"partition {one.partition} begun by {one.member} at {one.handed[0][0]}, not at {one.committed}"
            for one in self.elsewhere
        ]
        return f"{self.handed} handed out, {self.handed_again} of them again" + "".join(f"; {one}" for one in wrong)


def stints(member: str, events: Iterator[Event]) -> list[Stint]:
    """The member's times with each partition in which it was handed anything."""
    now: dict[int, Stint] = {}
    committed: dict[int, int] = {}
    found: list[Stint] = []
    for event in events:
        if event.what is What.TOOK_OVER:
            now.pop(event.partition, None)
            committed[event.partition] = event.offset
        elif event.what is What.HANDED:
            stint = now.get(event.partition)
            if stint is None:
                stint = now[event.partition] = Stint(member, event.partition, [], committed.get(event.partition, -1))
                found.append(stint)
            stint.handed.append((event.offset, event.at))
    return found


def judge(members: Mapping[str, list[Stint]], written: Mapping[int, Collection[int]]) -> Verdict:
    """Compare what was handed out to all members with what was written, partition by partition."""
    verdict = Verdict()
    by_partition: dict[int, list[Stint]] = defaultdict(list)
    for own in members.values():
        for stint in own:
            by_partition[stint.partition].append(stint)
    for partition, offsets in written.items():
        handed = [offset for stint in by_partition[partition] for offset, _ in stint.handed]
        missing = sorted(set(offsets) - set(handed))
        if missing:
            verdict.missed[partition] = missing
        verdict.handed += len(handed)
        verdict.handed_again += len(handed) - len(set(handed))
    for in_turn in by_partition.values():
        in_turn.sort(key=lambda stint: stint.began)
        for stint in in_turn:
            given = [offset for offset, _ in stint.handed]
            if any(later <= earlier for earlier, later in pairwise(given)):
                verdict.out_of_order.append(stint)
            if stint.committed >= 0 and given[0] != stint.committed:
                verdict.elsewhere.append(stint)
        # The last one may have been handed out before and noted after: an application has one message in its hands.
        verdict.read_by_two += [(one, two) for one, two in pairwise(in_turn) if one.handed[-2:][0][1] > two.began]
    return verdict
