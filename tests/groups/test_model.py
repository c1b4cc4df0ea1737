"""A group whose members join, leave, die, are late and come back, while its coordinator changes: what always holds.

Each member is played as a consumer behaves: it gives up what it owns before it joins, assigns if it leads, and owns
what its sync was answered with. Answers reach it late, or never.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafka_classic.groups.group import State
from kafka_classic.groups.rebalance import NEW_MEMBER_S
from kafka_classic.groups.records import read_group
from kafka_classic.groups.timers import Timer
from kafka_classic.wire.errors import Error
from tests.groups.consumer import PARTITIONS, Consumer, Sync
from tests.groups.mutants import MUTANTS
from tests.groups.play import RULES, Play, subscription

PICK = st.integers(0, 1000)
COMMITS_REFUSED = {Error.unknown_member_id, Error.illegal_generation, Error.fenced_instance_id}


class Lives(RuleBasedStateMachine):
    """Rules are what may happen; invariants what always holds."""

    play_type = Play

    @initialize(delay=st.sampled_from([0.0, 3.0]), members=st.sampled_from([0, 1, 3]))
    def begin(self, delay: float, members: int) -> None:
        self.play = self.play_type(RULES._replace(initial_delay_s=delay), prompt=False)
        self.alive: list[Consumer] = []
        self.lives = 0
        self.syncs: list[Sync] = []
        self.seen: tuple[int, int, frozenset[str]] = (-1, 0, frozenset())
        self.began = 0.0  # when the generation that is there was seen first
        for _ in range(members):
            self.someone_starts(None, ("t",))
        self.all_settle(10)

    def one(self, pick: int) -> Consumer:
        return self.alive[pick % len(self.alive)]

    some = precondition(lambda self: bool(self.alive))

    @precondition(lambda self: len(self.alive) < 6)
    @rule(instance=st.sampled_from([None, None, None, "a", "b"]), topics=st.sampled_from([("t",), ("t", "u")]))
    def someone_starts(self, instance: str | None, topics: tuple[str, ...]) -> None:
        self.alive.append(Consumer(instance, topics, self.syncs, lambda: self.lives))

    @some
    @rule(pick=PICK, steps=st.integers(1, 4))
    def one_goes_on(self, pick: int, steps: int) -> None:
        for _ in range(steps):
            self.one(pick).go(self.play)

    @some
    @rule(times=st.integers(1, 5))
    def all_go_on(self, times: int) -> None:
        for _ in range(times):
            for member in self.alive:
                member.go(self.play)

    @some
    @rule(times=st.integers(6, 10))
    def all_settle(self, times: int) -> None:
        for _ in range(times):
            while self.play.writing:
                self.play.replicated()
            for member in self.alive:
                member.go(self.play)
                member.beat(self.play)
            self.play.wait(1.0)

    @some
    @rule()
    def all_beat_for_long_and_do_nothing_else(self) -> None:
        for _ in range(10):
            self.all_beat()
            self.play.wait(4.0)

    @some
    @rule()
    def all_beat(self) -> None:
        for member in self.alive:
            member.beat(self.play)

    @some
    @rule(pick=PICK)
    def one_dies(self, pick: int) -> None:
        self.alive.remove(self.one(pick))

    @some
    @rule(pick=PICK)
    def one_leaves(self, pick: int) -> None:
        member = self.one(pick)
        self.alive.remove(member)
        if member.id:
            self.play.members.leave(self.play.group, member.id, member.instance)

    @some
    @rule(pick=PICK)
    def ones_answer_is_lost_and_it_asks_again(self, pick: int) -> None:
        member = self.one(pick)
        member.waiting = None
        if not member.syncs:
            member.generation = -1

    @some
    @rule(pick=PICK)
    def one_subscribes_to_more(self, pick: int) -> None:
        member = self.one(pick)
        member.protocols = {"range": subscription("t", "u", "v")}
        if member.waiting is None and not member.syncs:
            member.generation = -1

    @some
    @rule(pick=PICK)
    def one_commits(self, pick: int) -> None:
        member, group = self.one(pick), self.play.group
        state, known = group.state, group.members.get(member.id)
        fenced = member.instance is not None and group.static.get(member.instance) != member.id
        said = self.play.members.may_commit(group, member.generation, member.id, member.instance)
        if member.generation < 0 and state is State.EMPTY:
            assert said is Error.none
        elif known is None or fenced or member.generation != group.generation:
            assert said in COMMITS_REFUSED, said
        elif state is State.COMPLETING:
            assert said is Error.rebalance_in_progress
        else:
            assert said is Error.none

    @some
    @rule(pick=PICK, back=st.integers(1, 3))
    def one_speaks_of_a_generation_that_is_over(self, pick: int, back: int) -> None:
        member, group = self.one(pick), self.play.group
        if member.id in group.members and member.instance is None and group.generation >= back:
            old = group.generation - back
            assert self.play.beat(member.id, old) is Error.illegal_generation
            assert self.play.members.may_commit(group, old, member.id, None) is Error.illegal_generation
            synced = self.play.sync(member.id, {}, generation=old).synced
            assert synced is not None
            assert synced.error is Error.illegal_generation

    @rule(instance=st.sampled_from(["a", "b"]))
    def a_former_life_of_a_static_member_speaks(self, instance: str) -> None:
        group = self.play.group
        if instance in group.static:
            said = self.play.beat("its former id", instance=instance)
            assert said is Error.fenced_instance_id
            assert self.play.members.may_commit(group, group.generation, "its former id", instance) is said

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 6.0, 9.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.play.wait(seconds)

    @precondition(lambda self: bool(self.play.writing))
    @rule(error=st.sampled_from([Error.none, Error.none, Error.none, Error.not_enough_replicas]))
    def something_is_replicated_or_fails(self, error: Error) -> None:
        self.play.replicated(error)

    @rule()
    def another_takes_over(self) -> None:
        self.lives += 1
        self.play.fail_over()

    # --- what always holds

    @invariant()
    def a_generation_has_one_assignment_and_no_partition_two_owners(self) -> None:
        # Of one coordinator's life: the next may begin a generation anew that the former could not write down.
        owners: dict[tuple[int, int], dict[int, str]] = {}
        given: dict[int, list[dict[str, bytes]]] = {}  # by the leaders of a generation
        for sync in self.syncs:
            if sync.given is not None:
                given.setdefault(sync.generation, []).append(sync.given)
        for sync, assignment in self._answers():
            said = given.get(sync.generation, ())
            # A static member that is back has what was said of its former life, whose id began alike.
            former = sync.owner.removeprefix("instance ") + "-" if sync.owner != sync.member_id else sync.member_id
            assert any(
                assignment == shares.get(sync.member_id, b"")
                or any(assignment == share for id, share in shares.items() if id.startswith(former))
                for shares in said
            ), "not its leader's"
            for partition in json.loads(assignment or b"[]"):
                owner = owners.setdefault((sync.life, sync.generation), {}).setdefault(partition, sync.owner)
                assert owner == sync.owner, f"partition {partition} has two owners in generation {sync.generation}"

    def _answers(self) -> list[tuple[Sync, bytes]]:
        return [
            (sync, sync.waiting.synced.assignment)
            for sync in self.syncs
            if sync.waiting.synced is not None and sync.waiting.synced.error is Error.none
        ]

    @invariant()
    def generations_only_grow_and_each_has_its_members(self) -> None:
        """Of one coordinator's life: the members that begin a generation are those that see its end, or fewer."""
        group = self.play.group
        life, generation, members = self.seen
        if life == self.lives:
            assert group.generation >= generation
            if group.generation == generation and group.state in (State.COMPLETING, State.STABLE):
                newer = {m.id for m in group.members.values() if m.instance_id is None} - members
                assert not newer, f"{newer} came into generation {generation} when it was there"
        if group.state in (State.COMPLETING, State.STABLE) and (life, generation) != (self.lives, group.generation):
            self.seen = self.lives, group.generation, frozenset(group.members)
            self.began = self.play.now

    @invariant()
    def what_members_are_told_is_written_down(self) -> None:
        written = [read_group(value) for value in self.play.written]
        known = {(v.generation, m.member_id, m.assignment) for v in written for m in v.members}
        for sync, assignment in self._answers():
            assert (sync.generation, sync.member_id, assignment) in known, "it was told what the next would not know"

    @invariant()
    def nobody_is_waited_for_without_an_end(self) -> None:
        play, group = self.play, self.play.group
        latest = play.now + max(NEW_MEMBER_S, group.rebalance_s)
        for member in group.members.values():
            waits = member.syncing is not None or (member.joining is not None and not member.is_new)
            assert waits or runs(member.timer, latest), f"{member.id} may be silent for ever"
        assert all(runs(timer, latest) for timer in group.pending.values())
        if group.state is State.PREPARING:
            assert runs(group.join_timer, latest)
        if group.state in (State.COMPLETING, State.STABLE) and group.unsynced:
            assert runs(group.sync_timer, latest)
            if self.seen[:2] == (self.lives, group.generation):
                assert play.now - self.began <= group.rebalance_s, f"{group.unsynced} do not sync"

    @invariant()
    def the_group_is_in_order(self) -> None:
        group = self.play.group
        assert (group.state in (State.COMPLETING, State.STABLE)) <= bool(group.members)
        assert group.leader is None or group.leader in group.members
        assert {i: m.id for m in group.members.values() if (i := m.instance_id)} == group.static
        assert all(id == member.id for id, member in group.members.items())
        assert group.unsynced <= group.members.keys()
        assert not group.pending.keys() & group.members.keys()
        if group.state is not State.PREPARING:
            # A static member that is back waits until that is written down; nobody else waits to join.
            assert all(m.joining is None or m.instance_id is not None for m in group.members.values())
        # One timer a member and a pending id, and the course of one rebalance.
        assert len(self.play.timers) <= len(group.members) + len(group.pending) + 3 + len(self.play.writing)

    def teardown(self) -> None:
        """Whatever happened: left alone, nobody waits for ever, and those who live share everything."""
        if not hasattr(self, "play"):
            return
        play = self.play
        self.alive = [member for member in self.alive if not member.fenced]
        for _ in range(200):
            while play.writing:
                play.replicated()
            for member in self.alive:
                member.go(play)
                member.beat(play)
            play.wait(2.0)
            self.alive = [member for member in self.alive if not member.fenced]
        lost = [w for w in play.all if not w.done]
        assert not lost, f"{len(lost)} wait for ever"
        group = play.group
        assert set(group.members) == {member.id for member in self.alive}
        if self.alive:
            assert group.state is State.STABLE
            owned = [p for member in self.alive for p in member.owned]
            assert sorted(owned) == list(PARTITIONS)
            assert all(member.generation == group.generation for member in self.alive)
        else:
            assert group.state is State.EMPTY
            assert len(play.timers) == 0


def runs(timer: Timer | None, latest: float) -> bool:
    return timer is not None and timer.action is not None and timer.when <= latest


LIVES = settings(max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
Lives.TestCase.settings = LIVES
TestLives = Lives.TestCase


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    broken = type(name, (Lives,), {"play_type": MUTANTS[name]()})
    # Nothing is to be learned from a smaller life in which it is noticed too.
    # The rarest mistake shows in one life of a hundred: as many are played as it takes, and the first one ends it.
    quick = settings(LIVES, max_examples=3000, phases=[Phase.generate], database=None, derandomize=True)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(broken, settings=quick)
