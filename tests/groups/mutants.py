"""Rules of a group with one of them broken: what the model must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_classic.groups.group import Group, State
from kafka_classic.groups.member import JoinAsk, Joined, Member, Synced
from kafka_classic.groups.membership import Membership
from kafka_classic.groups.rebalance import Rebalance
from kafka_classic.wire.errors import Error
from tests.groups.play import Play


class TakesAnyGeneration(Membership):
    """What a member of a former generation says is believed."""

    def _refuse(self, group: Group, generation: int, member_id: str, instance_id: str | None) -> Error:
        return super()._refuse(group, group.generation, member_id, instance_id)


class FencesNobody(Membership):
    """A static member's former life goes on beside the one that took its place."""

    def _refuse(self, group: Group, generation: int, member_id: str, instance_id: str | None) -> Error:
        known = group.static.get(instance_id, member_id) if instance_id is not None else member_id
        return super()._refuse(group, generation, known, instance_id)

    def heartbeat(self, group: Group, generation: int, member_id: str, instance_id: str | None) -> Error:
        known = group.static.get(instance_id, member_id) if instance_id is not None else member_id
        return super().heartbeat(group, generation, known, instance_id)


class CommitsBetweenGenerations(Membership):
    """A member that has joined, and does not know yet what it owns, may commit."""

    def may_commit(self, group: Group | None, generation: int, member_id: str, instance_id: str | None) -> Error:
        said = super().may_commit(group, generation, member_id, instance_id)
        return Error.none if said is Error.rebalance_in_progress else said


class AnyoneCommits(Membership):
    """Who is no member may commit while members read."""

    def may_commit(self, group: Group | None, generation: int, member_id: str, instance_id: str | None) -> Error:
        return Error.none


class ForgetsWhoLeftItsJoin(Membership):
    """One that asks again leaves its former request without an answer."""

    @staticmethod
    def _update(group: Group, member: Member, ask: JoinAsk, answer: Callable[[Joined], None]) -> None:
        member.joining = None
        Membership._update(group, member, ask, answer)


class NeverExpectsPending(Membership):
    """An id that was given out is waited for as long as it takes."""

    def _never_came(self, group: Group, id: str) -> None:
        pass


class KeepsTheGeneration(Rebalance):
    """A rebalance without a new number: who missed it cannot be told from who was there."""

    def _begin_generation(self, group: Group) -> None:
        before = group.generation
        super()._begin_generation(group)
        if before > 0 and group.generation == before + 1:
            group.generation = before


class AssignsBeforeItIsWritten(Rebalance):
    """Members are told what the next coordinator will not know."""

    def assign(self, group: Group, given: Mapping[str, bytes]) -> None:
        written = self.store
        self.store = lambda group, assignment, done: done(Error.none)
        try:
            super().assign(group, given)
        finally:
            self.store = written


class AssignsWhatWasAssigned(Rebalance):
    """A member keeps what it had, whatever the leader says."""

    def assign(self, group: Group, given: Mapping[str, bytes]) -> None:
        had = {id: member.assignment for id, member in group.members.items()}
        super().assign(group, {id: had.get(id) or share for id, share in given.items()})


class GivesUpNobody(Rebalance):
    """A member that is silent stays one."""

    def _look(self, group: Group, member: Member) -> None:
        member.timer = None


class WaitsForEverybody(Rebalance):
    """A rebalance has no end as long as one does not join."""

    def _wait_for_all(self, group: Group) -> None:
        pass


class WaitsForSyncs(Rebalance):
    """One that has joined and does not sync holds up all others, if it only beats."""

    def _sync_is_over(self, group: Group, generation: int) -> None:
        pass


class AnswersNobodyAtTheEnd(Rebalance):
    """Who waits for a coordinator that leads no more waits on."""

    def close(self, group: Group) -> None:
        for member in group.members.values():
            member.joining = member.syncing = None
        super().close(group)


class StartsNoSessions(Rebalance):
    """Members that a coordinator has read of, and that are dead, stay."""

    def restored(self, group: Group) -> None:
        pass


class LeavesSyncsWaiting(Rebalance):
    """A rebalance begins while some wait for the assignment of the generation that it ends."""

    def _unassign(self, group: Group, error: Error) -> None:
        group.assigning = -1
        for member in group.members.values():
            member.syncing = None


class AnswersStaleAssignments(Membership):
    """A sync in a group that is being rebalanced is answered with what was assigned before."""

    def sync(self, group: Group, generation: int, member_id: str, *more: object) -> None:
        answer = more[-1]
        assert callable(answer)
        member = group.members.get(member_id)
        if group.state is State.PREPARING and member is not None and member.assignment:
            answer(Synced(Error.none, member.assignment))
        else:
            super().sync(group, generation, member_id, *more)  # type: ignore[arg-type]


MUTANTS: dict[str, Callable[[], type[Play]]] = {}


def _with(course: type[Rebalance] = Rebalance, members: type[Membership] = Membership) -> Callable[[], type[Play]]:
    return lambda: type("Mutant", (Play,), {"course_type": course, "members_type": members})


for _course in (
    *(KeepsTheGeneration, AssignsBeforeItIsWritten, AssignsWhatWasAssigned, GivesUpNobody, WaitsForEverybody),
    *(WaitsForSyncs, AnswersNobodyAtTheEnd, StartsNoSessions, LeavesSyncsWaiting),
):
    MUTANTS[_course.__name__] = _with(course=_course)
for _members in (
    *(TakesAnyGeneration, FencesNobody, CommitsBetweenGenerations, AnyoneCommits, ForgetsWhoLeftItsJoin),
    *(NeverExpectsPending, AnswersStaleAssignments),
):
    MUTANTS[_members.__name__] = _with(members=_members)
