"""A group: its members, its generation, and the state it is in.

    Empty --(a member joins)--> PreparingRebalance --(all have joined, or their time is over)--> CompletingRebalance
    CompletingRebalance --(the leader's assignment is written)--> Stable
    CompletingRebalance, Stable --(someone comes, goes, or wants another protocol)--> PreparingRebalance
    PreparingRebalance --(nobody is left)--> Empty
    any --(deleted, or led by another broker from now on)--> Dead

Members join in PreparingRebalance and wait; with CompletingRebalance a new generation begins, its leader is told of all
and assigns; all others wait in their sync until that is written. Here is what a group knows; what happens to it, and
when, stands in membership.py and rebalance.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final

from kafka_classic.groups.member import Joined, Member, Protocols, Synced
from kafka_classic.groups.offsets import GroupOffsets
from kafka_classic.groups.records import GroupValue
from kafka_classic.groups.subscription import CONSUMER, topics_of
from kafka_classic.groups.timers import Timer
from kafka_classic.wire.errors import Error


class State(Enum):
    """The names are those that Kafka tells of in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FROM_TO: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING, State.DEAD}),
    State.PREPARING: frozenset({State.COMPLETING, State.EMPTY, State.DEAD}),
    State.COMPLETING: frozenset({State.STABLE, State.PREPARING, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING, State.DEAD}),
    State.DEAD: frozenset(),
}


class Group:
    """Values and what follows from them; no clock and no effect."""

    __slots__ = (
        "_supported",
        "assigning",
        "generation",
        "grown",
        "id",
        "initial_left",
        "join_timer",
        "leader",
        "members",
        "offsets",
        "pending",
        "protocol",
        "protocol_type",
        "state",
        "state_since",
        "static",
        "subscribed",
        "sync_timer",
        "unsynced",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.state = State.EMPTY
        self.state_since: int | None = None  # in milliseconds since 1970
        self.generation = 0
        self.protocol_type: str | None = None  # None: nobody ever joined, offsets were committed from outside
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.pending: dict[str, Timer] = {}  # ids that were given out, and did not come back yet
        self.unsynced: set[str] = set()  # members of this generation that have not asked for their assignment
        self.assigning = -1  # the generation whose assignment is being written down
        self.subscribed: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.initial_left: float | None = None  # seconds by which the first rebalance may still be put off
        self.grown = False  # a member came since it was last put off
        self._supported: Counter[str] = Counter()

    def move(self, to: State, now_ms: int) -> None:
        if to not in FROM_TO[self.state]:
            raise AssertionError(f"group {self.id} cannot go from {self.state.value} to {to.value}")
        self.state = to
        self.state_since = now_ms

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self._supported.update({name for name, _ in member.protocols})

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self.unsynced.discard(member.id)
        self._supported.subtract({name for name, _ in member.protocols})
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member is back: it takes the place of its former life."""
        assert member.instance_id is not None
        was_leader = self.leader == member.id
        # In its old place: the order of members is what their assignors see.
        self.members = {new_id if id == member.id else id: other for id, other in self.members.items()}
        if member.id in self.unsynced:
            self.unsynced.discard(member.id)
            self.unsynced.add(new_id)
        member.id = new_id
        self.static[member.instance_id] = new_id
        if was_leader:
            self.leader = new_id

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._supported.subtract({name for name, _ in member.protocols})
        member.protocols = protocols
        self._supported.update({name for name, _ in protocols})

    def wrong_member(self, member_id: str, instance_id: str | None) -> Error:
        """The error for one who says that it is this member."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return Error.unknown_member_id
            return Error.none if known == member_id else Error.fenced_instance_id
        return Error.none if member_id in self.members else Error.unknown_member_id

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_s(self) -> float:
        """How long a rebalance waits for members: as long as the most patient one asks for."""
        return max((member.rebalance_ms for member in self.members.values()), default=0) / 1000

    # --- the protocol: how partitions are assigned

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether one who offers these can be a member beside those that are."""
        if not protocol_type or not protocols:
            return False
        if self.state is State.EMPTY or not self.members:
            return True
        size = len(self.members)
        return protocol_type == self.protocol_type and any(self._supported[name] == size for name, _ in protocols)

    def choose_protocol(self) -> str | None:
        """The protocol that most members like best, among those that all of them support."""
        size = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes.update(next(([name] for name, _ in member.protocols if self._supported[name] == size), ()))
        return max(votes, key=votes.__getitem__, default=None)

    def begin_generation(self) -> None:
        self.generation += 1
        self.protocol = self.choose_protocol()
        self.unsynced = set(self.members)
        self.subscribed = self.subscriptions()

    def subscriptions(self) -> frozenset[str] | None:
        """The topics that members are subscribed to; None where nobody can tell."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        found: set[str] = set()
        for member in self.members.values():
            topics = topics_of(member.metadata(self.protocol))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    # --- what is said of it

    def joined(self, member: Member, *, told_of_members: bool, leader: str | None = None, skip: bool = False) -> Joined:
        """The answer to a member that has joined this generation."""
        members: tuple[tuple[str, str | None, bytes], ...] = ()
        if told_of_members:
            members = tuple((m.id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values())
        return Joined(
            Error.none,
            member.id,
            self.generation,
            self.protocol_type,
            self.protocol,
            (self.leader or "") if leader is None else leader,
            skip,
            members,
        )

    def synced(self, member: Member) -> Synced:
        return Synced(Error.none, member.assignment, self.protocol_type, self.protocol)

    # --- as it is written down

    def value(self, assignment: Mapping[str, bytes]) -> GroupValue:
        return GroupValue(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            -1 if self.state_since is None else self.state_since,
            tuple(member.value(self.protocol, assignment.get(id, b"")) for id, member in self.members.items()),
        )

    def restore(self, value: GroupValue) -> None:
        """Become what was written down; without members it is empty, else stable."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.state_since = value.state_since if value.state_since >= 0 else None
        for row in value.members:
            self.add(Member.restored(row, value.protocol_type, value.protocol or ""), value.protocol_type)
        self.leader = value.leader if value.leader in self.members else next(iter(self.members), None)
        if self.members:
            self.state = State.STABLE
        self.subscribed = self.subscriptions()
