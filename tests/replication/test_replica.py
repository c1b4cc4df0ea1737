"""One replica's rules, by hand-worked cases."""

from __future__ import annotations

import pytest

from kafka_classic.replication.replica import NO_LEADER, Leadership, Replica, Taken
from tests.replication.memory_log import MemoryLog

LAG = 10.0


def replica(*epochs: int, me: int = 1, high_watermark: int = 0) -> Replica:
    """A replica with a log of one record for each epoch given."""
    made = Replica(me, high_watermark)
    log = MemoryLog()
    for value, epoch in enumerate(epochs):
        log.append((epoch, value))
    made.log = log
    return made


def told(leader: int = 1, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), version: int = 7) -> Leadership:
    return Leadership(leader, epoch, isr, (1, 2, 3), version)


def leader(*epochs: int, isr: tuple[int, ...] = (1, 2, 3), high_watermark: int = 0) -> Replica:
    made = replica(*epochs, high_watermark=high_watermark)
    assert made.take(told(isr=isr), 100.0) is Taken.LEADS
    return made


def append(leading: Replica, count: int = 1) -> None:
    assert isinstance(leading.log, MemoryLog)
    for _ in range(count):
        leading.log.append((leading.leader_epoch, 0))


# --- what the controller says


def test_a_word_of_an_older_epoch_changes_nothing() -> None:
    leading = leader(1, 1)
    assert leading.take(told(2, epoch=4), 101.0) is Taken.STALE
    assert (leading.leading, leading.leader, leading.leader_epoch) == (True, 1, 5)


def test_a_word_that_is_known_leaves_a_leader_and_a_follower_as_they_are() -> None:
    leading = leader(1, 1)
    leading.fetched(2, 2, 101.0)
    assert leading.take(told(isr=(1,)), 102.0) is Taken.SAME
    assert (leading.isr, leading.followers[2].end) == (frozenset({1, 2, 3}), 2)
    following = replica(1, 1)
    assert following.take(told(2), 100.0) is Taken.FOLLOWS
    following.was_cut(done=True)
    assert following.take(told(2, version=8), 101.0) is Taken.SAME
    assert not following.truncating


def test_the_silence_of_a_leaders_followers_is_that_of_the_quietest_one_in_sync() -> None:
    leading = leader(1, 1)
    leading.fetched(2, 2, 105.0)
    leading.fetched(3, 2, 103.0)
    assert leading.silence(107.0) == 4.0
    leading.settle((1, 2), 8)
    assert leading.silence(107.0) == 2.0
    leading.settle((1,), 9)
    assert leading.silence(107.0) == 0.0


def test_a_newer_version_of_the_same_epoch_settles_a_write_whose_answer_was_lost() -> None:
    leading = leader(1, 1)
    leading.fetched(2, 2, 101.0)
    leading.propose(frozenset({1, 2}))
    assert leading.take(told(isr=(1, 2), version=8), 102.0) is Taken.SAME
    assert (leading.isr, leading.pending, leading.version) == (frozenset({1, 2}), None, 8)
    assert leading.high_watermark == 2


def test_one_who_follows_must_cut_before_it_fetches_and_keeps_its_high_watermark() -> None:
    following = leader(1, 1, high_watermark=1)
    assert following.take(told(2, epoch=6), 101.0) is Taken.FOLLOWS
    assert (following.leading, following.truncating, following.followers) == (False, True, {})
    assert following.high_watermark == 1
    assert following.take(told(NO_LEADER, epoch=7), 102.0) is Taken.FOLLOWS
    assert not following.leading


def test_a_leader_writes_its_epoch_from_its_logs_end_and_knows_nothing_of_its_followers() -> None:
    leading = leader(1, 1)
    assert leading.log.epochs.latest == 5
    assert leading.log.epochs.end_offset(1, 2) == (1, 2)
    assert (leading.epoch_start, leading.fresh, leading.high_watermark) == (2, True, 0)
    assert {id: follower.end for id, follower in leading.followers.items()} == {2: -1, 3: -1}


def test_a_leader_alone_in_the_isr_has_committed_all_that_it_has() -> None:
    leading = leader(1, 1, isr=(1,))
    assert (leading.high_watermark, leading.fresh) == (2, False)


def test_a_leader_that_goes_on_keeps_what_it_knows_of_those_in_the_isr_alone() -> None:
    leading = leader(1, 1)
    for id in (2, 3):
        leading.fetched(id, 2, 101.0)
    append(leading)
    assert leading.take(told(epoch=6, isr=(1, 2)), 102.0) is Taken.LEADS
    assert (leading.followers[2].end, leading.followers[3].end, leading.epoch_start) == (2, -1, 2)
    assert leading.grown(3) is None  # it has yet to say where it is


def test_a_leader_that_missed_an_epoch_believes_nothing_it_knew() -> None:
    """Another may have led meanwhile, and its followers have cut what they had."""
    leading = leader(1, 1)
    append(leading)
    leading.fetched(2, 3, 101.0)
    assert leading.take(told(epoch=7, isr=(1, 2)), 102.0) is Taken.LEADS
    assert (leading.followers[2].end, leading.epoch_start) == (-1, 3)
    assert leading.high_watermark == 0


# --- the high watermark


def test_the_high_watermark_is_where_the_last_of_the_isr_is() -> None:
    leading = leader()
    append(leading, 5)
    assert not leading.fetched(2, 5, 101.0)  # nothing is known of 3
    assert leading.fetched(3, 4, 101.0)
    assert leading.high_watermark == 4
    assert not leading.fetched(3, 2, 101.0)  # a fetch that arrives late takes nothing back
    assert leading.high_watermark == 4
    assert leading.fetched(3, 5, 102.0)
    assert leading.high_watermark == 5


def test_one_outside_the_isr_does_not_hold_the_high_watermark_back() -> None:
    leading = leader(isr=(1, 2))
    append(leading, 3)
    assert not leading.fetched(3, 3, 101.0)
    assert leading.fetched(2, 3, 101.0)
    assert leading.high_watermark == 3


def test_an_isr_that_is_being_written_counts_with_the_one_before() -> None:
    growing = leader(isr=(1, 2))
    append(growing, 3)
    growing.fetched(3, 1, 101.0)
    assert growing.propose(frozenset({3, 2, 1})) == (1, 2, 3)
    assert growing.fetched(2, 3, 101.0)
    assert growing.high_watermark == 1  # 3 may be in the ISR already
    assert growing.settle((1, 2), 8)  # it was not written
    assert growing.high_watermark == 3
    shrinking = leader()
    append(shrinking, 3)
    shrinking.propose(frozenset({1, 2}))
    assert not shrinking.fetched(2, 3, 101.0)
    assert shrinking.high_watermark == 0  # 3 may still be elected
    assert shrinking.settle((1, 2), 8)
    assert (shrinking.high_watermark, shrinking.version, shrinking.pending) == (3, 8, None)


def test_a_follower_shows_no_more_than_it_has_and_takes_nothing_back() -> None:
    following = replica(1, 1, 1)
    following.take(told(2), 100.0)
    assert following.followed(9)
    assert following.high_watermark == 3
    assert not following.followed(1)
    assert following.high_watermark == 3


# --- who is in sync


def test_a_follower_has_caught_up_when_it_has_what_there_was_at_its_fetch_before() -> None:
    leading = leader()
    append(leading, 4)
    follower = leading.followers[2]
    leading.fetched(2, 1, 103.0)
    assert follower.caught_up_at == 100.0
    append(leading, 2)
    leading.fetched(2, 4, 105.0)  # all that there was at 103
    assert (follower.caught_up_at, follower.end, follower.leader_end) == (103.0, 4, 6)
    leading.fetched(2, 5, 107.0)
    assert follower.caught_up_at == 103.0
    leading.fetched(2, 6, 109.0)
    assert follower.caught_up_at == 109.0


def test_the_isr_shrinks_by_those_who_have_not_caught_up_for_too_long() -> None:
    leading = leader()
    append(leading, 4)
    leading.fetched(2, 4, 105.0)
    leading.fetched(3, 1, 110.0)  # it fetches, and does not keep up
    assert leading.shrunk(110.0, LAG) is None
    assert leading.shrunk(110.5, LAG) == frozenset({1, 2})
    assert leading.shrunk(116.0, LAG) == frozenset({1})


def test_a_leader_leaves_the_isr_to_those_that_are_left_in_it_if_there_are_any() -> None:
    leading = leader(isr=(1, 2))
    assert leading.resigned() == frozenset({2})
    leading.propose(frozenset({2}))
    assert leading.resigned() is None
    leading.settle((2,), leading.version + 1)
    assert leading.resigned() is None
    assert leader(isr=(1,)).resigned() is None
    following = replica()
    following.take(told(2), 100.0)
    assert following.resigned() is None


def test_one_who_has_all_that_is_committed_comes_into_the_isr() -> None:
    leading = leader(isr=(1, 2))
    append(leading, 4)
    leading.fetched(2, 3, 101.0)
    leading.fetched(3, 2, 101.0)
    assert leading.grown(3) is None
    leading.fetched(3, 3, 102.0)
    assert leading.grown(3) == frozenset({1, 2, 3})
    assert leading.grown(2) is None  # it is in it


def test_a_new_leader_takes_in_none_that_lacks_what_the_one_before_may_have_acknowledged() -> None:
    leading = leader(1, 1, 1, 1, isr=(1, 2), high_watermark=2)
    leading.fetched(3, 3, 101.0)
    assert leading.grown(3) is None
    leading.fetched(3, 4, 101.0)
    assert leading.grown(3) == frozenset({1, 2, 3})


def test_nothing_is_proposed_while_something_is_being_written_or_another_leads() -> None:
    leading = leader(isr=(1, 2))
    leading.fetched(3, 0, 100.0)
    leading.propose(frozenset({1}))
    assert leading.shrunk(200.0, LAG) is None
    assert leading.grown(3) is None
    leading.settle((1, 2), leading.version)
    assert leading.grown(3) == frozenset({1, 2, 3})
    following = replica()
    following.take(told(2), 100.0)
    assert following.shrunk(200.0, LAG) is None
    assert following.grown(3) is None


def test_what_zookeeper_held_before_does_not_settle_what_it_holds_now() -> None:
    leading = leader()
    assert not leading.settle((1,), leading.version - 1)
    assert leading.isr == frozenset({1, 2, 3})


# --- where the histories part


def cut_by(leading: MemoryLog, following: Replica) -> tuple[list[tuple[int, bool]], list[int]]:
    """What the follower cuts, answer by answer, and the epochs of what is left."""
    assert isinstance(following.log, MemoryLog)
    cuts = []
    leading.begin_epoch(9)  # as one who leads has always done
    following.truncating = True
    while following.truncating:
        answer = leading.epochs.end_offset(following.log.epochs.latest, leading.end_offset)
        offset, done = following.cut(*answer)
        cuts.append((offset, done))
        following.log.truncate(offset)
        following.was_cut(done=done)
    return cuts, [epoch for epoch, _ in following.log.entries]


def history(*epochs: int) -> MemoryLog:
    log = replica(*epochs).log
    assert isinstance(log, MemoryLog)
    return log


@pytest.mark.parametrize(
    ("leads", "follows", "cuts", "left"),
    [
        # KIP-101, scenario 1: the high watermark of a follower is behind, and what is above it is committed.
        ((0, 0), (0, 0), [(2, True)], [0, 0]),
        # KIP-101, scenario 2: both wrote at offset 1 after a power cut, in epochs of their own.
        ((0, 2), (0, 1), [(1, True)], [0]),
        # KIP-279: fast leader changes; the leader's epoch 1 is unknown here, and so is its end.
        ((0, 1, 1, 3), (0, 2, 2), [(1, False), (1, True)], [0]),
        ((0, 0, 1, 1, 4), (0, 0, 0, 2, 3), [(3, False), (2, True)], [0, 0]),
        # Behind, and nothing to cut.
        ((0, 1, 2), (0, 1), [(2, True)], [0, 1]),
        # Nothing in common.
        ((3, 3), (1, 2), [(0, True)], []),
        # Empty.
        ((1, 1), (), [(0, True)], []),
    ],
)
def test_a_log_is_cut_where_it_leaves_its_leaders(
    leads: tuple[int, ...], follows: tuple[int, ...], cuts: list[tuple[int, bool]], left: list[int]
) -> None:
    assert cut_by(history(*leads), replica(*follows)) == (cuts, left)


def test_a_leader_that_knows_no_epochs_leaves_what_is_committed() -> None:
    following = replica(1, 1, 1, high_watermark=2)
    assert following.cut(-1, -1) == (2, True)


def test_a_cut_takes_the_high_watermark_along_and_the_epoch_in_which_nothing_was_written() -> None:
    following = replica(0, 0, 1, high_watermark=3)
    following.log.begin_epoch(4)
    assert cut_by(history(0, 0, 3), following) == ([(3, False), (2, True)], [0, 0])
    assert (following.high_watermark, following.log.epochs.latest) == (2, 0)
    following.log.begin_epoch(4)
    assert cut_by(history(0, 0, 3), following) == ([(2, False), (2, True)], [0, 0])
    assert following.log.epochs.latest == 0
