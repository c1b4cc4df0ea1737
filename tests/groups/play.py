"""A coordinator of one group without a broker: its clock, its disk and what its members say are the test's."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count

from kafka_classic.groups.group import Group
from kafka_classic.groups.member import JoinAsk, Joined, Synced
from kafka_classic.groups.membership import Membership
from kafka_classic.groups.rebalance import Rebalance, Rules
from kafka_classic.groups.records import GroupValue, group_value, read_group
from kafka_classic.groups.timers import Timers
from kafka_classic.wire.errors import Error

RULES = Rules(initial_delay_s=3.0, min_session_ms=6_000, max_session_ms=60_000, max_size=100, store_s=5.0)


def subscription(*topics: str) -> bytes:
    """What a consumer sends as its metadata, version 0."""
    raw = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + raw + struct.pack(">i", -1)


def ask(
    member_id: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 30_000,
    protocols: Mapping[str, bytes] | None = None,
    knows_ids: bool = True,
    can_skip: bool = True,
    kind: str = "consumer",
) -> JoinAsk:
    offered = {"range": subscription("t")} if protocols is None else protocols
    rows = tuple(offered.items())
    return JoinAsk(member_id, instance, "c", "/h", session_ms, rebalance_ms, kind, rows, knows_ids, can_skip)


class Waiting:
    """An answer that is to come, once."""

    def __init__(self) -> None:
        self.joined: Joined | None = None
        self.synced: Synced | None = None

    def join(self, answer: Joined) -> None:
        assert self.joined is None, "answered twice"
        self.joined = answer

    def sync(self, answer: Synced) -> None:
        assert self.synced is None, "answered twice"
        self.synced = answer

    @property
    def done(self) -> bool:
        return self.joined is not None or self.synced is not None


class Play:
    """One group and what surrounds it."""

    course_type = Rebalance
    members_type = Membership

    def __init__(self, rules: Rules = RULES, *, prompt: bool = True) -> None:
        self.rules = rules
        self.now = 100.0
        self.prompt = prompt  # whether what is written is replicated at once
        self.written: list[bytes] = []  # the values of the group that are replicated, in their order
        self.writing: deque[tuple[bytes, Callable[[Error], None]]] = deque()
        self.all: list[Waiting] = []
        self._ids = count(1)
        self.group: Group
        self.begin(Group("g"))

    def begin(self, group: Group) -> None:
        """A coordinator takes the group over."""
        self.timers = Timers()
        self.course = self.course_type(
            self.rules, self.timers, self.store, lambda: self.now, lambda: int(self.now * 1000)
        )
        self.members = self.members_type(self.course, lambda: str(next(self._ids)))
        self.group = group

    def store(self, group: Group, assignment: Mapping[str, bytes], done: Callable[[Error], None]) -> None:
        value = group_value(group.value(assignment))
        if self.prompt:
            self.written.append(value)
            done(Error.none)
        else:
            self.writing.append((value, done))

    def replicated(self, error: Error = Error.none) -> None:
        """What was written first is in every replica now, or cannot be."""
        value, done = self.writing.popleft()
        if error is Error.none:
            self.written.append(value)
        done(error)

    def stored(self) -> GroupValue:
        return read_group(self.written[-1])

    def fail_over(self) -> None:
        """Another broker takes over, with what was replicated."""
        self.course.close(self.group)
        while self.writing:
            self.replicated(Error.not_leader_or_follower)
        fresh = Group("g")
        if self.written:
            fresh.restore(self.stored())
        self.begin(fresh)
        self.course.restored(fresh)

    def wait(self, seconds: float) -> None:
        """Let time pass; what is due meanwhile is done at its own time."""
        until = self.now + seconds
        while (due := self.timers.next()) is not None and due <= until:
            self.now = max(self.now, due)
            self.timers.fire(self.now)
        self.now = until

    # --- what members say

    def _waiting(self) -> Waiting:
        self.all.append(Waiting())
        return self.all[-1]

    def join(self, asked: JoinAsk) -> Waiting:
        waiting = self._waiting()
        self.members.join(self.group, asked, waiting.join)
        return waiting

    def enter(self, **more: object) -> tuple[str, Waiting]:
        """Join as a new member does: with the id that it is given at its first try."""
        first = self.join(ask(**more))  # type: ignore[arg-type]
        if first.joined is None or first.joined.error is not Error.member_id_required:
            return "", first
        return first.joined.member_id, self.join(ask(first.joined.member_id, **more))  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        assignment: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> Waiting:
        waiting = self._waiting()
        asked = self.group.generation if generation is None else generation
        self.members.sync(self.group, asked, member_id, instance, kind, protocol, assignment or {}, waiting.sync)
        return waiting

    def beat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> Error:
        asked = self.group.generation if generation is None else generation
        return self.members.heartbeat(self.group, asked, member_id, instance)

    def stable(self, members: int = 2, **more: object) -> list[str]:
        """A group of so many members, the leader first, each assigned its own id."""
        entered = [self.enter(**more) for _ in range(members)]
        self.wait(2 * self.rules.initial_delay_s)
        ids = [w.joined.member_id for _, w in entered if w.joined is not None]
        assert len(ids) == members
        leader = self.group.leader
        assert leader is not None
        for id in ids:
            self.sync(id, {m: m.encode() for m in ids} if id == leader else None)
        return sorted(ids, key=lambda id: id != leader)
