"""What a coordinator answers to each thing that a member may say, in each state: as Kafka does."""

from __future__ import annotations

import pytest

from kafka_classic.groups.group import State
from kafka_classic.wire.errors import Error
from tests.groups.play import RULES, Play, ask, subscription


def no_delay(**more: object) -> Play:
    return Play(RULES._replace(initial_delay_s=0.0, **more))  # type: ignore[arg-type]


# --- joining


def test_a_new_member_is_given_an_id_and_asked_to_come_again_with_it() -> None:
    play = no_delay()
    told = play.join(ask()).joined
    assert told is not None
    assert told.error is Error.member_id_required
    assert told.member_id == "c-1"
    assert not play.group.members
    joined = play.join(ask("c-1"))
    play.wait(0)
    assert joined.joined is not None
    assert (joined.joined.error, joined.joined.generation, joined.joined.leader) == (Error.none, 1, "c-1")
    assert joined.joined.members == (("c-1", None, subscription("t")),)


def test_an_old_client_joins_at_once() -> None:
    play = no_delay()
    joined = play.join(ask(knows_ids=False))
    play.wait(0)
    assert joined.joined is not None
    assert joined.joined.member_id == "c-1"


def test_an_id_that_does_not_come_back_is_forgotten_after_the_session_timeout() -> None:
    play = no_delay()
    play.join(ask(session_ms=6_000))
    play.wait(5.9)
    assert play.group.pending
    play.wait(0.2)
    assert not play.group.pending
    assert len(play.timers) == 0


def test_a_rebalance_waits_for_one_who_has_an_id_and_is_on_its_way() -> None:
    play = no_delay()
    leader, follower = play.stable()
    told = play.join(ask()).joined
    assert told is not None
    coming = play.join(ask())  # a second one, which makes the group rebalance
    assert coming.joined is not None
    third = play.join(ask(coming.joined.member_id))
    again = [play.join(ask(leader)), play.join(ask(follower))]
    assert not third.done  # the first is still on its way
    last = play.join(ask(told.member_id))
    assert all(w.joined is not None and w.joined.generation == 2 for w in (third, last, *again))


def test_the_first_rebalance_of_an_empty_group_waits_for_more_members_as_long_as_they_come() -> None:
    play = Play()
    _, first = play.enter()
    play.wait(2)
    _, second = play.enter()
    play.wait(2)
    assert not first.done  # put off once more, as somebody came
    play.wait(2.5)
    assert first.joined is not None
    assert second.joined is not None
    assert first.joined.generation == second.joined.generation == 1


def test_the_first_rebalance_is_not_put_off_beyond_the_rebalance_timeout() -> None:
    play = Play()
    _, first = play.enter(rebalance_ms=7_000)
    for _ in range(10):
        play.wait(1)
        if not first.done:
            play.enter(rebalance_ms=7_000)
    assert first.joined is not None


@pytest.mark.parametrize("session_ms", [5_999, 60_001])
def test_a_session_timeout_out_of_range_is_refused(session_ms: int) -> None:
    told = Play().join(ask(session_ms=session_ms)).joined
    assert told is not None
    assert told.error is Error.invalid_session_timeout


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    play = no_delay(max_size=2)
    leader, follower = play.stable()
    told = play.join(ask(knows_ids=False)).joined
    assert told is not None
    assert (told.error, told.member_id) == (Error.group_max_size_reached, "")
    assert play.beat(leader) is Error.none
    again = play.join(ask(follower)).joined
    assert again is not None
    assert again.error is Error.none


@pytest.mark.parametrize(
    ("kind", "protocols"),
    [("connect", {"range": b""}), ("consumer", {"sticky": b""}), ("consumer", {}), ("", {"range": b""})],
)
def test_one_who_shares_no_protocol_with_all_members_is_refused(kind: str, protocols: dict[str, bytes]) -> None:
    play = no_delay()
    play.stable()
    told = play.join(ask(kind=kind, protocols=protocols)).joined
    assert told is not None
    assert told.error is Error.inconsistent_group_protocol
    assert play.group.state is State.STABLE


def test_the_protocol_is_the_best_liked_of_those_that_all_support() -> None:
    play = Play()
    offers = [{"a": b"", "b": b"", "c": b""}, {"b": b"", "a": b""}, {"b": b"", "a": b"", "d": b""}]
    waits = [play.enter(protocols=offer)[1] for offer in offers]
    play.wait(6)
    assert {w.joined.protocol for w in waits if w.joined} == {"b"}


def test_an_unknown_member_is_told_so() -> None:
    play = no_delay()
    leader, _ = play.stable()
    told = play.join(ask("nobody")).joined
    assert told is not None
    assert told.error is Error.unknown_member_id
    assert play.sync("nobody").synced is not None
    assert play.beat("nobody") is Error.unknown_member_id
    assert play.members.leave(play.group, "nobody", None) is Error.unknown_member_id
    assert play.beat(leader) is Error.none


def test_one_who_missed_the_answer_joins_again_without_a_rebalance() -> None:
    play = no_delay()
    leader, follower = play.stable()
    told = play.join(ask(follower)).joined
    assert told is not None
    assert (told.error, told.generation, told.members) == (Error.none, 1, ())
    assert play.beat(leader) is Error.none
    play.join(ask(leader))
    assert play.group.state is State.PREPARING  # a leader that joins again wants to assign anew


def test_a_member_that_wants_other_topics_makes_the_group_rebalance() -> None:
    play = no_delay()
    _, follower = play.stable()
    play.join(ask(follower, protocols={"range": subscription("t", "u")}))
    assert play.group.state is State.PREPARING


def test_who_does_not_join_in_time_is_out_of_the_group() -> None:
    play = no_delay()
    leader, follower = play.stable(rebalance_ms=8_000, session_ms=30_000)
    again = play.join(ask(leader, rebalance_ms=8_000, session_ms=30_000))
    play.wait(7.9)
    assert not again.done
    play.wait(0.2)
    assert again.joined is not None
    assert [id for id, _, _ in again.joined.members] == [leader]
    assert play.beat(follower, 1) is Error.unknown_member_id


def test_who_leads_and_does_not_join_leads_no_more() -> None:
    play = no_delay()
    _, follower = play.stable(rebalance_ms=8_000, session_ms=30_000)
    play.enter(rebalance_ms=8_000, session_ms=30_000)
    again = play.join(ask(follower, rebalance_ms=8_000, session_ms=30_000))
    play.wait(9)
    assert again.joined is not None
    assert again.joined.leader == follower


def test_a_static_leader_that_is_away_leads_no_more_and_stays_a_member() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    for member in play.group.members.values():
        member.rebalance_ms = 5_000
    again = play.join(ask(ids["b"], instance="b", protocols={"range": subscription("t", "u")}, rebalance_ms=5_000))
    play.wait(6)
    assert again.joined is not None
    assert again.joined.leader == ids["b"]
    assert {id for id, _, _ in again.joined.members} == set(ids.values())


# --- assigning


def test_followers_wait_for_what_the_leader_assigns() -> None:
    play = Play()
    ids = [play.enter()[0] for _ in range(3)]
    play.wait(6)
    leader = play.group.leader
    assert leader is not None
    waits = {id: play.sync(id) for id in ids if id != leader}
    assert not any(w.synced for w in waits.values())
    waits[leader] = play.sync(leader, {id: id.encode() for id in ids if id != ids[2]})
    assert {id: w.synced.assignment for id, w in waits.items() if w.synced} == {
        ids[0]: ids[0].encode(),
        ids[1]: ids[1].encode(),
        ids[2]: b"",
    }
    assert play.group.state is State.STABLE
    assert {m.member_id: m.assignment for m in play.stored().members}[ids[0]] == ids[0].encode()


def test_nobody_is_told_an_assignment_that_is_not_written_down() -> None:
    play = no_delay()
    play.prompt = False
    id, joined = play.enter()
    play.wait(0)
    assert joined.joined is not None
    waiting = play.sync(id, {id: b"all"})
    assert not waiting.done
    play.replicated()
    assert waiting.synced is not None
    assert waiting.synced.assignment == b"all"


def test_what_the_leader_says_twice_is_written_once_and_both_are_answered() -> None:
    play = no_delay()
    play.prompt = False
    id, _ = play.enter()
    play.wait(0)
    first, second = play.sync(id, {id: b"all"}), play.sync(id, {id: b"all"})
    assert len(play.writing) == 1
    play.replicated()
    assert first.synced is not None
    assert second.synced is not None
    assert (first.synced.error, second.synced.error) == (Error.rebalance_in_progress, Error.none)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Error.not_leader_or_follower, Error.not_coordinator),
        (Error.not_enough_replicas, Error.coordinator_not_available),
        (Error.request_timed_out, Error.rebalance_in_progress),
        (Error.message_too_large, Error.unknown_server_error),
    ],
)
def test_an_assignment_that_cannot_be_written_is_nobodys(failure: Error, told: Error) -> None:
    play = no_delay()
    play.prompt = False
    id, _ = play.enter()
    play.wait(0)
    waiting = play.sync(id, {id: b"all"})
    play.replicated(failure)
    assert waiting.synced is not None
    assert (waiting.synced.error, waiting.synced.assignment) == (told, b"")
    assert play.group.state is State.PREPARING


def test_an_assignment_that_is_not_written_in_time_is_nobodys() -> None:
    play = no_delay()
    play.prompt = False
    id, _ = play.enter()
    play.wait(0)
    waiting = play.sync(id, {id: b"all"})
    play.wait(5)
    assert waiting.synced is not None
    assert waiting.synced.error is Error.rebalance_in_progress
    play.replicated()  # late: another generation is on its way
    assert play.group.state is State.PREPARING
    assert play.group.members[id].assignment == b""


def test_an_assignment_that_is_written_late_is_not_the_next_generations() -> None:
    play = no_delay()
    play.prompt = False
    id, _ = play.enter()
    play.wait(0)
    play.sync(id, {id: b"all"})
    other, _ = play.enter()
    play.join(ask(id))
    assert (play.group.generation, play.group.state) == (2, State.COMPLETING)
    waiting = play.sync(other)
    play.replicated()
    assert not waiting.done
    assert play.group.state is State.COMPLETING


def test_one_who_joins_and_does_not_sync_is_given_up_after_the_rebalance_timeout() -> None:
    play = no_delay()
    leader, follower = play.stable(rebalance_ms=8_000, session_ms=30_000)
    for id in (leader, follower):
        play.join(ask(id, rebalance_ms=8_000, session_ms=30_000))
    waiting = play.sync(leader, {leader: b"all"})
    assert waiting.synced is not None
    for _ in range(3):
        play.wait(2.5)
        play.beat(follower)
    play.wait(1)
    assert follower not in play.group.members
    assert play.beat(leader) is Error.rebalance_in_progress


def test_a_sync_of_another_generation_or_protocol_is_refused() -> None:
    play = no_delay()
    leader, _ = play.stable()
    refused = [
        play.sync(leader, generation=0),
        play.sync(leader, protocol="sticky"),
        play.sync(leader, kind="connect"),
        play.sync(leader, kind="consumer", protocol="range"),
    ]
    assert [w.synced.error for w in refused if w.synced] == [
        Error.illegal_generation,
        Error.inconsistent_group_protocol,
        Error.inconsistent_group_protocol,
        Error.none,
    ]


def test_one_who_comes_while_others_wait_for_the_assignment_sends_them_back_to_join() -> None:
    play = no_delay()
    leader, follower = play.stable()
    for id in (leader, follower):
        play.join(ask(id))
    waiting = play.sync(follower)
    play.enter()
    assert waiting.synced is not None
    assert waiting.synced.error is Error.rebalance_in_progress
    assert play.beat(leader) is Error.rebalance_in_progress


# --- sessions


def test_a_silent_member_is_given_up_after_its_session_timeout() -> None:
    play = no_delay()
    leader, follower = play.stable(session_ms=10_000)
    for _ in range(4):
        play.wait(2.6)
        assert play.beat(leader) is (Error.none if follower in play.group.members else Error.rebalance_in_progress)
    assert follower not in play.group.members
    assert leader in play.group.members


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    play = no_delay()
    leader, _ = play.stable()
    assert play.beat(leader, 0) is Error.illegal_generation
    assert play.beat(leader, 2) is Error.illegal_generation


def test_heartbeats_add_no_timers() -> None:
    play = no_delay()
    ids = play.stable(10)
    before = len(play.timers)
    for _ in range(1000):
        play.wait(0.01)
        for id in ids:
            play.beat(id)
    assert len(play.timers) == before == 10


def test_a_new_member_whose_client_is_gone_is_given_up_after_five_minutes() -> None:
    play = no_delay()
    leader, _ = play.stable(rebalance_ms=2_000_000, session_ms=60_000)
    _, third = play.enter(rebalance_ms=2_000_000)
    for _ in range(20):
        play.wait(16)
        play.beat(leader)
    assert third.joined is not None
    assert third.joined.error is Error.unknown_member_id


# --- leaving


def test_one_who_leaves_makes_the_others_share_what_it_had() -> None:
    play = no_delay()
    leader, follower = play.stable()
    assert play.members.leave(play.group, follower, None) is Error.none
    assert play.beat(leader) is Error.rebalance_in_progress


def test_a_rebalance_does_not_wait_for_one_who_has_left() -> None:
    play = no_delay()
    leader, follower = play.stable()
    again = play.join(ask(leader))
    play.members.leave(play.group, follower, None)
    assert again.joined is not None
    assert again.joined.generation == 2


def test_the_last_one_leaves_an_empty_group_that_is_written_down() -> None:
    play = no_delay()
    for id in play.stable():
        assert play.members.leave(play.group, id, None) is Error.none
    assert play.group.state is State.EMPTY
    assert play.stored().members == ()
    assert (play.stored().generation, play.stored().protocol, play.stored().leader) == (2, None, None)
    assert len(play.timers) == 0


def test_one_who_has_only_an_id_can_leave() -> None:
    play = no_delay()
    told = play.join(ask()).joined
    assert told is not None
    assert play.members.leave(play.group, told.member_id, None) is Error.none
    assert not play.group.pending


# --- committing


def test_only_members_of_this_generation_commit() -> None:
    play = no_delay()
    leader, follower = play.stable()
    may = play.members.may_commit
    assert may(play.group, 1, leader, None) is Error.none
    assert may(play.group, 0, leader, None) is Error.illegal_generation
    assert may(play.group, 1, "nobody", None) is Error.unknown_member_id
    assert may(play.group, -1, "", None) is Error.unknown_member_id
    play.join(ask(leader))
    assert may(play.group, 1, follower, None) is Error.none  # while it finds out about the rebalance
    play.join(ask(follower))
    assert may(play.group, 2, follower, None) is Error.rebalance_in_progress
    assert may(None, 1, leader, None) is Error.illegal_generation
    assert may(None, -1, "", None) is Error.none


# --- static members


def statically(play: Play, *instances: str) -> dict[str, str]:
    waits = {name: play.join(ask(instance=name)) for name in instances}
    play.wait(2 * play.rules.initial_delay_s)
    ids = {name: w.joined.member_id for name, w in waits.items() if w.joined}
    for name, id in ids.items():
        leads = play.group.leader == id
        play.sync(id, {m: n.encode() for n, m in ids.items()} if leads else None, instance=name)
    assert play.group.state is State.STABLE
    return ids


def test_a_static_member_is_back_within_its_session_and_nobody_notices() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    play.wait(9)
    for name, id in ids.items():
        play.beat(id, instance=name)
    back = play.join(ask(instance="b")).joined
    assert back is not None
    assert back.error is Error.none
    assert back.generation == 1
    assert back.member_id != ids["b"]
    assert play.group.state is State.STABLE
    again = play.sync(back.member_id, instance="b").synced
    assert again is not None
    assert again.assignment == b"b"
    assert back.member_id in {m.member_id for m in play.stored().members}
    assert play.beat(ids["b"], instance="b") is Error.fenced_instance_id
    assert play.members.may_commit(play.group, 1, ids["b"], "b") is Error.fenced_instance_id


def test_a_static_leader_that_is_back_is_told_not_to_assign_or_not_that_it_leads() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    assert play.group.leader == ids["a"]
    back = play.join(ask(instance="a")).joined
    assert back is not None
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2
    older = play.join(ask(instance="a", can_skip=False)).joined
    assert older is not None
    assert (older.skip_assignment, older.members) == (False, ())
    assert older.leader == back.member_id != older.member_id


def test_a_static_member_whose_place_is_taken_while_it_waits_is_fenced() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    waiting = play.join(ask(ids["a"], instance="a"))
    assert play.group.state is State.PREPARING
    play.join(ask(instance="a"))
    assert waiting.joined is not None
    assert waiting.joined.error is Error.fenced_instance_id


def test_a_static_member_that_cannot_be_written_down_is_not_back() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    play.prompt = False
    back = play.join(ask(instance="b"))
    play.replicated(Error.not_enough_replicas)
    assert back.joined is not None
    assert back.joined.error is Error.coordinator_not_available
    assert play.beat(ids["b"], instance="b") is Error.none


def test_a_static_member_that_was_not_back_is_given_up_when_it_says_nothing_more() -> None:
    play = Play(RULES._replace(store_s=60.0))
    ids = statically(play, "a", "b")
    play.prompt = False
    play.join(ask(instance="b"))
    for seconds in (6.0, 6.0):  # longer than its session: the broker kept it waiting
        play.wait(seconds)
        assert play.beat(ids["a"], instance="a") is Error.none
    play.replicated(Error.not_enough_replicas)
    assert ids["b"] in play.group.members
    for seconds in (6.0, 6.0):
        play.wait(seconds)
        play.beat(ids["a"], instance="a")
    assert ids.keys() - {"b"} == play.group.static.keys()


def test_who_waits_is_sent_away_from_a_coordinator_in_doubt_and_nothing_else_changes() -> None:
    play = no_delay()
    first, *_ = play.stable(1)
    _, waiting = play.enter()
    assert not waiting.done
    play.course.send_away(play.group)
    assert waiting.joined is not None
    assert waiting.joined.error is Error.not_coordinator
    assert play.group.state is State.PREPARING
    assert play.beat(first) is Error.rebalance_in_progress
    play.wait(31.0)
    assert not play.group.members


def test_an_admin_removes_a_static_member_by_its_instance() -> None:
    play = Play()
    statically(play, "a", "b")
    assert play.members.leave(play.group, "", "b") is Error.none
    assert play.members.leave(play.group, "", "b") is Error.unknown_member_id
    assert play.members.leave(play.group, "", None) is Error.unknown_member_id
    assert play.group.state is State.PREPARING


def test_a_static_member_that_is_away_for_too_long_is_given_up() -> None:
    play = Play()
    ids = statically(play, "a", "b")
    for _ in range(4):
        play.wait(3)
        play.beat(ids["a"], instance="a")
    assert "b" not in play.group.static


# --- another coordinator


def test_who_waits_is_sent_to_the_next_coordinator() -> None:
    play = no_delay()
    leader, follower = play.stable()
    joining = play.join(ask(leader))
    play.fail_over()
    assert joining.joined is not None
    assert joining.joined.error is Error.not_coordinator
    assert play.group.state is State.STABLE
    assert play.beat(leader) is Error.none
    assert play.sync(follower).synced is not None


def test_the_next_coordinator_gives_members_their_sessions_and_no_more() -> None:
    play = no_delay()
    leader, follower = play.stable()
    play.fail_over()
    assert play.group.leader == leader
    play.wait(9.9)
    assert play.beat(leader) is Error.none
    play.wait(0.2)
    assert follower not in play.group.members


def test_a_static_member_is_known_to_the_next_coordinator() -> None:
    play = Play()
    statically(play, "a", "b")
    play.fail_over()
    back = play.join(ask(instance="b")).joined
    assert back is not None
    assert (back.error, back.generation) == (Error.none, 1)
    assert play.group.state is State.STABLE
