"""A partition of the offsets topic: what its records mean, what is forgotten when, writes that are late or fail."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_classic.groups.group import State
from kafka_classic.groups.records import (
    GroupValue,
    MemberValue,
    OffsetValue,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from kafka_classic.groups.shard import Done, Phase, Row, Shard
from kafka_classic.wire.errors import Error
from tests.groups.play import subscription

DAY = 86_400_000
ONE = MemberValue("m", None, "c", "/h", 1, 1, subscription("t"), b"")


class Log:
    """What was written, replicated when the test says so."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.waiting: list[tuple[Done, int]] = []

    def append(self, rows: Sequence[Row], done: Done) -> None:
        if sum(len(key) + len(value or b"") for key, value in rows) > 1 << 20:
            done(Error.message_too_large, -1)
            return
        self.waiting.append((done, len(self.rows)))
        self.rows += rows

    def replicate(self, error: Error = Error.none) -> None:
        waiting, self.waiting = self.waiting, []
        for done, first in waiting:
            done(error, first)


def shard(*rows: Row) -> tuple[Shard, Log]:
    log = Log()
    log.rows += rows
    made = Shard(0, log.append)
    for record, (key, value) in enumerate(rows):
        made.take(key, value, record)
    made.loaded()
    return made, log


def offset(group: str, topic: str, partition: int, value: int | None, at: int = 0) -> Row:
    raw = None if value is None else offset_value(OffsetValue(value, -1, "", at))
    return offset_key(group, topic, partition), raw


def group(id: str, *members: MemberValue, since: int = 0) -> Row:
    protocol = "range" if members else None
    return group_key(id), group_value(GroupValue("consumer", 3, protocol, None, since, members))


def test_the_last_record_of_each_key_counts() -> None:
    made, _ = shard(
        offset("g", "t", 0, 1),
        offset("g", "t", 1, 1),
        offset("g", "t", 0, 5),
        offset("g", "t", 1, None),
        group("g", ONE),
        group("h", ONE),
        (group_key("h"), None),
        (b"\0\7what", b"?"),
        (offset_key("g", "t", 2), b"\0\1"),
    )
    assert made.phase is Phase.ACTIVE
    assert made.groups.keys() == {"g"}
    g = made.groups["g"]
    assert {at: g.offsets.get(at) for at in g.offsets} == {("t", 0): OffsetValue(5, -1, "", 0)}
    assert (g.state, g.generation, g.subscribed) == (State.STABLE, 3, frozenset({"t"}))


def test_a_commit_counts_when_it_is_replicated() -> None:
    made, log = shard()
    answers: list[Error] = []
    made.commit("g", {("t", 0): OffsetValue(7, -1, "", 0)}, answers.append)
    assert made.groups["g"].offsets.get(("t", 0)) is None
    assert answers == []
    log.replicate()
    assert made.groups["g"].offsets.get(("t", 0)) == OffsetValue(7, -1, "", 0)
    assert answers == [Error.none]


def test_a_commit_that_fails_changes_nothing() -> None:
    made, log = shard(offset("g", "t", 0, 1))
    answers: list[Error] = []
    for failure in (Error.not_leader_or_follower, Error.not_enough_replicas, Error.message_too_large):
        made.commit("g", {("t", 0): OffsetValue(7, -1, "", 0)}, answers.append)
        log.replicate(failure)
    assert answers == [Error.not_coordinator, Error.coordinator_not_available, Error.invalid_commit_offset_size]
    assert (value := made.groups["g"].offsets.get(("t", 0))) is not None
    assert value.offset == 1


def test_an_earlier_record_never_replaces_a_later_one() -> None:
    made, log = shard()
    for n in (1, 2):
        made.commit("g", {("t", 0): OffsetValue(n, -1, "", 0)}, lambda _: None)
    log.waiting.reverse()
    log.replicate()
    assert (value := made.groups["g"].offsets.get(("t", 0))) is not None
    assert value.offset == 2


def test_offsets_of_a_group_without_members_go_after_the_retention_since_the_last_one_left() -> None:
    made, log = shard(offset("g", "t", 0, 1, at=0), group("g", since=5 * DAY))
    assert made.expire(11 * DAY, 7 * DAY) == 0
    assert made.expire(12 * DAY, 7 * DAY) == 1
    log.replicate()
    assert made.groups == {}
    assert log.rows[-2:] == [(offset_key("g", "t", 0), None), (group_key("g"), None)]


def test_offsets_that_were_committed_from_outside_go_one_by_one() -> None:
    made, log = shard(offset("g", "t", 0, 1, at=0), offset("g", "t", 1, 1, at=3 * DAY))
    assert made.expire(7 * DAY, 7 * DAY) == 1
    log.replicate()
    assert list(made.groups["g"].offsets) == [("t", 1)]
    assert made.expire(10 * DAY, 7 * DAY) == 1
    log.replicate()
    assert made.groups == {}
    assert group_key("g") not in {key for key, _ in log.rows}


def test_a_group_with_members_loses_only_what_nobody_is_subscribed_to() -> None:
    made, log = shard(offset("g", "t", 0, 1), offset("g", "old", 0, 1), group("g", ONE))
    assert made.expire(8 * DAY, 7 * DAY) == 1
    log.replicate()
    assert list(made.groups["g"].offsets) == [("t", 0)]


def test_a_group_that_commits_at_this_moment_is_left_alone() -> None:
    made, log = shard(offset("g", "t", 0, 1))
    made.commit("g", {("t", 0): OffsetValue(2, -1, "", 8 * DAY)}, lambda _: None)
    assert made.expire(8 * DAY, 7 * DAY) == 0
    log.replicate()
    assert made.expire(8 * DAY, 7 * DAY) == 0


def test_one_who_commits_while_the_group_is_deleted_keeps_it() -> None:
    made, log = shard(offset("g", "t", 0, 1), group("g"))
    made.forget(made.groups["g"], [("t", 0)])
    made.commit("g", {("t", 0): OffsetValue(2, -1, "", 0)}, lambda _: None)
    log.replicate()
    assert (value := made.groups["g"].offsets.get(("t", 0))) is not None
    assert value.offset == 2


def test_a_group_that_was_made_for_one_who_was_refused_is_not_kept() -> None:
    made, _ = shard()
    made.tidy(made.group("g"))
    assert made.groups == {}


def test_a_group_that_has_committed_more_than_a_batch_can_hold_is_deleted_all_the_same() -> None:
    rows = [offset("g", "a topic of some length" * 4, partition, 5) for partition in range(20_000)]
    made, log = shard(group("g"), *rows)
    told: list[Error] = []
    there = made.groups["g"]
    made.forget(there, list(there.offsets), told.append)
    assert not told
    log.replicate()
    assert told == [Error.none]
    assert "g" not in made.groups
    again, _ = shard(*log.rows)
    assert not again.groups


def test_a_group_of_which_a_part_could_not_be_deleted_stays_and_says_so_once() -> None:
    rows = [offset("g", "t" * 200, partition, 5) for partition in range(1000)]
    made, log = shard(group("g"), *rows)
    told: list[Error] = []
    there = made.groups["g"]
    made.forget(there, list(there.offsets), told.append)
    first, *others = log.waiting
    first[0](Error.not_enough_replicas, -1)
    for done, at in others:
        done(Error.none, at)
    assert told == [Error.coordinator_not_available]
    assert made.groups["g"] is there
    assert 0 < len(there.offsets) < 1000
    made.forget(there, list(there.offsets), told.append)
    log.waiting = log.waiting[1 + len(others) :]
    log.replicate()
    assert told[1:] == [Error.none]
    assert "g" not in made.groups
