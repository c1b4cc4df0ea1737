"""What members say to their coordinator: join, sync, heartbeat, leave, commit; each judged as Kafka judges it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafka_classic.groups.group import Group, State
from kafka_classic.groups.member import JoinAsk, Joined, Member, Synced
from kafka_classic.groups.rebalance import MEANS, NEW_MEMBER_S, Rebalance
from kafka_classic.wire.errors import Error

JoinAnswer = Callable[[Joined], None]
SyncAnswer = Callable[[Synced], None]
AGAIN: Final = Error.rebalance_in_progress  # to a request of a member that has sent another one since


class Membership:
    """One for all groups of a broker. Answers are given once, at once or later; they must not call back."""

    def __init__(self, course: Rebalance, new_id: Callable[[], str]) -> None:
        self._course = course
        self._new_id = new_id

    # --- join

    def join(self, group: Group, ask: JoinAsk, answer: JoinAnswer) -> None:
        rules = self._course.rules
        if not rules.min_session_ms <= ask.session_ms <= rules.max_session_ms:
            answer(Joined(Error.invalid_session_timeout, ask.member_id))
        elif not self._has_room(group, ask.member_id):
            member = group.members.get(ask.member_id)
            if member is not None:
                self._course.remove(group, member)
            answer(Joined(Error.group_max_size_reached))
        elif group.state is State.DEAD:
            answer(Joined(Error.coordinator_not_available, ask.member_id))
        elif not group.supports(ask.protocol_type, ask.protocols):
            answer(Joined(Error.inconsistent_group_protocol, ask.member_id))
        elif ask.member_id:
            self._join_again(group, ask, answer)
        else:
            self._join_new(group, ask, answer)
        self._course.attend(group)

    def _has_room(self, group: Group, member_id: str) -> bool:
        limit = self._course.rules.max_size
        if group.state is State.PREPARING:
            member = group.members.get(member_id)
            waiting = sum(other.joining is not None for other in group.members.values())
            return (member is not None and member.joining is not None) or waiting < limit
        if group.state in (State.COMPLETING, State.STABLE):
            return member_id in group.members or len(group.members) < limit
        return True

    def _join_new(self, group: Group, ask: JoinAsk, answer: JoinAnswer) -> None:
        id = f"{ask.instance_id or ask.client_id}-{self._new_id()}"
        former = group.static.get(ask.instance_id) if ask.instance_id is not None else None
        if former is not None:
            self._replace(group, group.members[former], id, ask, answer)
        elif ask.instance_id is None and ask.knows_ids:
            # It comes again with its id; so one whose answer is lost leaves no member behind that nobody is.
            when = self._course.clock() + ask.session_ms / 1000
            group.pending[id] = self._course.timers.at(when, lambda: self._never_came(group, id))
            answer(Joined(Error.member_id_required, id))
        else:
            self._add(group, id, ask, answer)

    def _never_came(self, group: Group, id: str) -> None:
        del group.pending[id]
        self._course.attend(group)

    def _add(self, group: Group, id: str, ask: JoinAsk, answer: JoinAnswer) -> None:
        if group.state is State.PREPARING and group.generation == 0:
            group.grown = True
        member = Member(id, ask)
        member.joining = answer
        group.add(member, ask.protocol_type)
        self._course.expect(group, member, NEW_MEMBER_S)
        self._course.maybe_prepare(group)

    def _join_again(self, group: Group, ask: JoinAsk, answer: JoinAnswer) -> None:
        pending = group.pending.pop(ask.member_id, None)
        if pending is not None:
            self._course.timers.cancel(pending)
            self._add(group, ask.member_id, ask, answer)
            return
        wrong = group.wrong_member(ask.member_id, ask.instance_id)
        if wrong is not Error.none or group.state is State.EMPTY:
            answer(Joined(wrong or Error.unknown_member_id, ask.member_id))
            return
        member = group.members[ask.member_id]
        same = member.protocols == ask.protocols
        leads = group.leader == member.id
        if same and group.state is State.COMPLETING:
            # It may have missed the answer: it is told again what it has joined.
            answer(group.joined(member, told_of_members=leads))
        elif same and group.state is State.STABLE and not leads:
            answer(group.joined(member, told_of_members=False))
            self._course.beat(group, member)
        else:
            self._update(group, member, ask, answer)
            self._course.maybe_prepare(group)

    @staticmethod
    def _update(group: Group, member: Member, ask: JoinAsk, answer: JoinAnswer) -> None:
        member.answer_join(Joined(AGAIN, member.id))
        group.change_protocols(member, ask.protocols)
        member.session_ms, member.rebalance_ms = ask.session_ms, ask.rebalance_ms
        member.client_id, member.client_host = ask.client_id, ask.client_host
        member.joining = answer

    def _replace(self, group: Group, member: Member, new_id: str, ask: JoinAsk, answer: JoinAnswer) -> None:
        """A static member is back within its session: it has what it had, and nobody else notices."""
        old_id, former_leader = member.id, group.leader or ""
        member.answer_join(Joined(Error.fenced_instance_id, old_id))
        member.answer_sync(Synced(Error.fenced_instance_id))
        group.rename(member, new_id)
        self._update(group, member, ask, answer)
        self._course.expect(group, member, NEW_MEMBER_S if member.is_new else member.session_ms / 1000)
        if group.state is State.COMPLETING:
            self._course.prepare(group)  # the leader assigns to the old id
            return
        if group.state is not State.STABLE:
            return
        if group.choose_protocol() != group.protocol:
            self._course.prepare(group)
            return
        generation = group.generation

        def done(error: Error) -> None:
            self._course.timers.cancel(too_late)
            if group.state is not State.STABLE or group.generation != generation or member.joining is not answer:
                return
            if error is not Error.none:
                group.rename(member, old_id)
                member.answer_join(Joined(MEANS.get(error, error)))
                self._course.beat(group, member)  # its session may have ended while it waited
                return
            leads = group.leader == new_id
            # One that cannot be told not to assign anew is not told that it leads.
            leader = None if ask.can_skip else former_leader
            told = leads and ask.can_skip
            member.answer_join(group.joined(member, told_of_members=told, leader=leader, skip=told))
            member.is_new = False
            self._course.beat(group, member)

        seconds = self._course.rules.store_s
        too_late = self._course.timers.at(self._course.clock() + seconds, lambda: done(Error.request_timed_out))
        self._course.store(group, {id: other.assignment for id, other in group.members.items()}, done)

    # --- sync

    def sync(
        self,
        group: Group,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol: str | None,
        assignment: Mapping[str, bytes],
        answer: SyncAnswer,
    ) -> None:
        refused = self._refuse(group, generation, member_id, instance_id)
        if refused is Error.none and (
            protocol_type not in (None, group.protocol_type) or protocol not in (None, group.protocol)
        ):
            refused = Error.inconsistent_group_protocol
        if refused is Error.none and group.state is State.PREPARING:
            refused = Error.rebalance_in_progress
        if refused is not Error.none:
            answer(Synced(refused))
            return
        member = group.members[member_id]
        self._course.synced(group, member)
        if group.state is State.STABLE:
            answer(group.synced(member))
            self._course.beat(group, member)
            return
        member.answer_sync(Synced(AGAIN))
        member.syncing = answer
        if group.leader == member_id:
            self._course.assign(group, assignment)

    def _refuse(self, group: Group, generation: int, member_id: str, instance_id: str | None) -> Error:
        if group.state is State.DEAD:
            return Error.coordinator_not_available
        wrong = group.wrong_member(member_id, instance_id)
        if wrong is not Error.none:
            return wrong
        return Error.none if generation == group.generation else Error.illegal_generation

    # --- heartbeat, leave, commit

    def heartbeat(self, group: Group, generation: int, member_id: str, instance_id: str | None) -> Error:
        refused = self._refuse(group, generation, member_id, instance_id)
        if refused is not Error.none:
            return refused
        self._course.beat(group, group.members[member_id])
        return Error.rebalance_in_progress if group.state is State.PREPARING else Error.none

    def leave(self, group: Group, member_id: str, instance_id: str | None) -> Error:
        """By its own will; or by an admin's, who knows a static member's instance only."""
        if not member_id:
            known = group.static.get(instance_id) if instance_id is not None else None
            if known is None:
                return Error.unknown_member_id
            member_id = known
        elif member_id in group.pending:
            self._course.timers.cancel(group.pending.pop(member_id))
            self._course.attend(group)
            return Error.none
        wrong = group.wrong_member(member_id, instance_id)
        if wrong is Error.none:
            self._course.remove(group, group.members[member_id])
        return wrong

    def may_commit(self, group: Group | None, generation: int, member_id: str, instance_id: str | None) -> Error:
        """Whether one who says that it is this member may commit; if so, it was heard of."""
        if group is None:
            return Error.none if generation < 0 else Error.illegal_generation
        if generation < 0 and group.state is State.EMPTY:
            return Error.none  # from outside: an admin, or a consumer that assigns partitions itself
        if generation < 0 and not member_id and instance_id is None:
            return Error.unknown_member_id
        refused = self._refuse(group, generation, member_id, instance_id)
        if refused is not Error.none:
            return refused
        if group.state is State.COMPLETING:
            return Error.rebalance_in_progress
        self._course.beat(group, group.members[member_id])
        return Error.none
