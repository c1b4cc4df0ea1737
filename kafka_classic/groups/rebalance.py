"""The course of a rebalance: who is waited for, for how long, what is answered at its end, and who is given up.

    prepare() --(initial delay of an empty group | every member joins | the most patient one's rebalance timeout)-->
    a new generation, all joins are answered --(the leader's sync)--> its assignment is written down
    --(replicated)--> Stable, all syncs are answered        --(it cannot be written, or not in time)--> prepare()

Nobody waits for ever: a member that is silent is given up after its session timeout, one that has joined and does not
sync after the rebalance timeout, one that is new and waits to join after five minutes, as its client may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafka_classic.groups.group import Group, State
from kafka_classic.groups.member import Joined, Member, Synced
from kafka_classic.groups.timers import Timers
from kafka_classic.wire.errors import Error

NEW_MEMBER_S: Final = 300.0

Store = Callable[[Group, Mapping[str, bytes], Callable[[Error], None]], None]

# What a failed write of a group means to its members.
MEANS: Final = {
    Error.unknown_topic_or_partition: Error.coordinator_not_available,
    Error.not_enough_replicas: Error.coordinator_not_available,
    Error.not_enough_replicas_after_append: Error.coordinator_not_available,
    Error.not_leader_or_follower: Error.not_coordinator,
    Error.kafka_storage_error: Error.not_coordinator,
    Error.request_timed_out: Error.rebalance_in_progress,
    Error.message_too_large: Error.unknown_server_error,
}


class Rules(NamedTuple):
    """What the settings say of groups."""

    initial_delay_s: float = 3.0
    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    store_s: float = 5.0  # how long a group may take until it is written down


class Rebalance:
    """One for all groups of a broker; `clock` is in seconds, `wall_ms` the time of day."""

    def __init__(
        self, rules: Rules, timers: Timers, store: Store, clock: Callable[[], float], wall_ms: Callable[[], int]
    ) -> None:
        self.rules = rules
        self.timers = timers
        self.store = store
        self.clock = clock
        self.wall_ms = wall_ms

    # --- sessions

    def beat(self, group: Group, member: Member) -> None:
        """Something was heard of a member: its session begins anew. This is all that a heartbeat costs."""
        self.expect(group, member, member.session_ms / 1000)

    def expect(self, group: Group, member: Member, seconds: float) -> None:
        """Hear of the member again in that time, or give it up."""
        member.deadline = deadline = self.clock() + seconds
        timer = member.timer
        if timer is None or timer.when > deadline:
            self.timers.cancel(timer)
            member.timer = self.timers.at(deadline, lambda: self._look(group, member))

    def _look(self, group: Group, member: Member) -> None:
        """The time is over that was seen when the timer was set; heartbeats only move the deadline."""
        member.timer = None
        if group.members.get(member.id) is not member:
            return
        if member.syncing is not None or (member.joining is not None and not member.is_new):
            return  # it waits for us; its session begins anew with the answer
        if self.clock() < member.deadline:
            member.timer = self.timers.at(member.deadline, lambda: self._look(group, member))
        else:
            self.remove(group, member)

    def remove(self, group: Group, member: Member) -> None:
        """A member has left, or is given up; the others share what it had."""
        self._forget(group, member)
        if group.state in (State.STABLE, State.COMPLETING):
            self.prepare(group)
        else:
            self.attend(group)

    def _forget(self, group: Group, member: Member) -> None:
        member.answer_join(Joined(Error.unknown_member_id))
        member.answer_sync(Synced(Error.unknown_member_id))
        group.remove(member)
        self.timers.cancel(member.timer)
        member.timer = None

    # --- joining

    def prepare(self, group: Group) -> None:
        """Begin a rebalance."""
        if group.state is State.COMPLETING:
            self._unassign(group, Error.rebalance_in_progress)
        self._cancel(group)
        first = group.state is State.EMPTY
        group.move(State.PREPARING, self.wall_ms())
        if first:
            delay = self.rules.initial_delay_s
            group.initial_left = max(group.rebalance_s - delay, 0)
            group.join_timer = self.timers.at(self.clock() + delay, lambda: self._initial_over(group))
        else:
            self._wait_for_all(group)
            self.attend(group)

    def maybe_prepare(self, group: Group) -> None:
        if group.state in (State.EMPTY, State.COMPLETING, State.STABLE):
            self.prepare(group)

    def _initial_over(self, group: Group) -> None:
        """An empty group got its first member; as long as more come they are waited for, so that they share at once."""
        left = group.initial_left or 0.0
        if group.grown and left > 0:
            delay = min(self.rules.initial_delay_s, left)
            group.initial_left, group.grown = left - delay, False
            group.join_timer = self.timers.at(self.clock() + delay, lambda: self._initial_over(group))
        else:
            self._begin_generation(group)

    def _wait_for_all(self, group: Group) -> None:
        group.join_timer = self.timers.at(self.clock() + group.rebalance_s, lambda: self._begin_generation(group))

    def attend(self, group: Group) -> None:
        """Go on as soon as all have joined."""
        if group.state is State.PREPARING and group.initial_left is None and group.all_joined:
            self._begin_generation(group)

    def _begin_generation(self, group: Group) -> None:
        """All have joined, or their time is over."""
        self._cancel(group)
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                self._forget(group, member)
        if group.members and not self._elect(group):
            self._wait_for_all(group)  # static members alone, none of them back: until their sessions end
            return
        group.begin_generation()
        if not group.members:
            group.move(State.EMPTY, self.wall_ms())
            self.store(group, {}, lambda _: None)
            return
        group.move(State.COMPLETING, self.wall_ms())
        generation = group.generation
        group.sync_timer = self.timers.at(
            self.clock() + group.rebalance_s, lambda: self._sync_is_over(group, generation)
        )
        for member in list(group.members.values()):
            member.answer_join(group.joined(member, told_of_members=member.id == group.leader))
            member.is_new = False
            self.beat(group, member)

    @staticmethod
    def _elect(group: Group) -> bool:
        """See that the leader is one who has joined; False if nobody has."""
        if group.leader is not None and group.members[group.leader].joining is not None:
            return True
        joined = next((id for id, member in group.members.items() if member.joining is not None), None)
        if joined is None:
            return False
        group.leader = joined
        return True

    def _cancel(self, group: Group) -> None:
        self.timers.cancel(group.join_timer)
        self.timers.cancel(group.sync_timer)
        group.join_timer = group.sync_timer = group.initial_left = None
        group.grown = False

    # --- assigning

    def synced(self, group: Group, member: Member) -> None:
        """A member has asked for what it is assigned."""
        group.unsynced.discard(member.id)
        if not group.unsynced:
            self.timers.cancel(group.sync_timer)
            group.sync_timer = None

    def _sync_is_over(self, group: Group, generation: int) -> None:
        if group.generation == generation and group.unsynced and group.state in (State.COMPLETING, State.STABLE):
            for id in list(group.unsynced):
                self._forget(group, group.members[id])
            self.prepare(group)

    def assign(self, group: Group, given: Mapping[str, bytes]) -> None:
        """The leader says who has what: it holds once it is written down, so that the next coordinator knows it."""
        generation = group.generation
        if group.assigning == generation:
            return  # it says so again, while it is written down
        group.assigning = generation
        assignment = {id: given.get(id, b"") for id in group.members}

        def done(error: Error) -> None:
            self.timers.cancel(too_late)
            if group.state is not State.COMPLETING or group.generation != generation:
                return
            if error is not Error.none:
                self._unassign(group, MEANS.get(error, error))
                self.prepare(group)
                return
            group.move(State.STABLE, self.wall_ms())
            for id, member in group.members.items():
                member.assignment = assignment.get(id, b"")
                member.answer_sync(group.synced(member))
                self.beat(group, member)

        too_late = self.timers.at(self.clock() + self.rules.store_s, lambda: done(Error.request_timed_out))
        self.store(group, assignment, done)

    def _unassign(self, group: Group, error: Error) -> None:
        group.assigning = -1
        for member in group.members.values():
            member.assignment = b""
            if member.syncing is not None:
                member.answer_sync(Synced(error))
                self.beat(group, member)

    # --- coming and going of the coordinator

    def restored(self, group: Group) -> None:
        """This coordinator has just read of the group: its members may not know yet where to beat."""
        for member in group.members.values():
            self.beat(group, member)

    def send_away(self, group: Group) -> None:
        """Another may coordinate this group by now: whoever waits is to ask who does; all else stays as it is."""
        for member in group.members.values():
            if member.joining is not None or member.syncing is not None:
                member.answer_join(Joined(Error.not_coordinator, member.id))
                member.answer_sync(Synced(Error.not_coordinator))
                self.beat(group, member)

    def close(self, group: Group) -> None:
        """Another coordinates this group from now on: whoever waits is sent there."""
        self._cancel(group)
        for timer in group.pending.values():
            self.timers.cancel(timer)
        group.pending.clear()
        for member in group.members.values():
            self.timers.cancel(member.timer)
            member.timer = None
            member.answer_join(Joined(Error.not_coordinator))
            member.answer_sync(Synced(Error.not_coordinator))
        if group.state is not State.DEAD:
            group.move(State.DEAD, self.wall_ms())
