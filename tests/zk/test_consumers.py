"""The consumer and ownership registries: sessions that fight for claims, expire, and lose answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_classic.zk import paths
from kafka_classic.zk.consumers import GroupRegistry, Registration, TopicPartition
from kafka_classic.zk.errors import ConsumerIdTaken, GroupNotEmpty, SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session
from kafka_classic.zk.subscriptions import Subscription
from kafka_classic.zk.znodes import Create, Znodes
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]
TWO_STREAMS = Subscription({"words": 2}, timestamp=7)


def threads(consumer: str, partitions: range, topic: str = "words") -> dict[TopicPartition, str]:
    return {(topic, partition): f"{consumer}-0" for partition in partitions}


def member(connect: Connect, hosts: str, name: str) -> tuple[Session, GroupRegistry, Registration]:
    session = connect(hosts)
    group = GroupRegistry(session, "readers")
    return session, group, group.register(name, TWO_STREAMS)


class LosesAnswers(Znodes):
    """Writes are done, and the next answers of them never arrive."""

    losing = 0

    def transact_once(self, transactions: Any, session_id: int) -> list[list[Any] | None]:
        results = super().transact_once(transactions, session_id)
        if self.losing:
            self.losing -= 1
            return [None for _ in results]
        return results


def test_a_registration_is_kafkas_json_and_vanishes_with_its_session(connect: Connect, hosts: str) -> None:
    mine, group, _ = member(connect, hosts, "a")
    other = connect(hosts)
    node = Znodes(other).get(paths.consumer_id("readers", "a"))
    assert node is not None
    assert node.owner == mine.session_id
    assert node.data == b'{"version": 1, "subscription": {"words": 2}, "pattern": "static", "timestamp": "7"}'
    assert group.members() == GroupRegistry(other, "readers").members() == {"a": TWO_STREAMS}
    mine.close()
    until(other, lambda: not GroupRegistry(other, "readers").members())


def test_registering_again_is_harmless_and_may_change_the_subscription(connect: Connect, hosts: str) -> None:
    _, group, first = member(connect, hosts, "a")
    assert group.register("a", TWO_STREAMS) == first
    pattern = Subscription({"wo.*": 1}, "white_list")
    again = group.register("a", pattern)
    assert group.members() == {"a": pattern}
    with pytest.raises(SessionReplaced):
        group.claim(first, threads("a", range(1)))
    assert group.claim(again, threads("a", range(1))) == {("words", 0)}
    group.unregister(again)
    assert group.members() == {}


def test_a_consumer_id_is_taken_until_the_other_session_has_ended(connect: Connect, hosts: str) -> None:
    first, _, _ = member(connect, hosts, "a")
    second = connect(hosts)
    group = GroupRegistry(second, "readers")
    with pytest.raises(ConsumerIdTaken, match="wait until that consumer's session has expired"):
        group.register("a", TWO_STREAMS)
    first.close()
    until(second, lambda: not group.members())
    group.register("a", TWO_STREAMS)


def test_an_unreadable_registration_is_a_subscription_to_nothing(connect: Connect, hosts: str) -> None:
    session, group, _ = member(connect, hosts, "a")
    for name, data in (("b", b"{"), ("c", b'{"subscription": 3}'), ("d", b'{"subscription": {}, "pattern": "green"}')):
        Znodes(session).create(paths.consumer_id("readers", name), data)
    assert group.members() == {"a": TWO_STREAMS, **{name: Subscription({}) for name in "bcd"}}


def test_what_known_members_want_is_not_read_again(connect: Connect, hosts: str) -> None:
    session, group, _ = member(connect, hosts, "a")
    others = [member(connect, hosts, name) for name in "bcd"]
    fired: list[int] = []
    changed = fired.append
    assert list(group.members(lambda: changed(1))) == [*"abcd"]
    before = group.operations
    others[0][0].close()
    until(session, lambda: fired)
    assert list(group.members(lambda: changed(2))) == [*"acd"]
    assert group.operations - before == 1
    others[1][1].register("c", Subscription({"other": 1}))  # in place: no child came or went
    # The other event of the closed session may come only now: only once that of this change is here is c read anew.
    until(session, lambda: group.members(lambda: changed(3))["c"] == Subscription({"other": 1}))


def test_of_two_who_claim_the_same_partitions_each_has_one_owner(connect: Connect, hosts: str) -> None:
    session, group, mine = member(connect, hosts, "a")
    _, other_group, other = member(connect, hosts, "b")
    won = group.claim(mine, threads("a", range(10)))
    assert len(won) == 10
    assert other_group.claim(other, threads("b", range(5, 15))) == {("words", number) for number in range(10, 15)}
    assert group.owners() == threads("a", range(10)) | threads("b", range(10, 15))
    assert group.held(mine, [("words", 3), ("words", 12), ("words", 99)]) == threads("a", range(3, 4))
    node = Znodes(session).get(paths.owner("readers", "words", 3))
    assert node is not None
    assert node.owner == session.session_id
    assert node.data == b"a-0"


def test_one_who_is_quicker_after_the_look_takes_only_what_it_takes(connect: Connect, hosts: str) -> None:
    session, _, _ = member(connect, hosts, "a")
    other_session, _, _ = member(connect, hosts, "b")

    class Late(Znodes):
        def children_many(self, paths_: Any) -> list[list[str] | None]:
            found = super().children_many(paths_)
            for number in (0, 4, 9):
                Znodes(other_session).create(paths.owner("readers", "words", number), b"b-0", ephemeral=True)
            return found

    group = GroupRegistry(session, "readers", nodes=Late(session))
    mine = group.register("a", TWO_STREAMS)
    assert group.claim(mine, threads("a", range(10))) == {("words", n) for n in range(10) if n not in (0, 4, 9)}


def test_a_thousand_partitions_are_claimed_and_released_with_few_requests(connect: Connect, hosts: str) -> None:
    _, group, mine = member(connect, hosts, "a")
    group.claim(mine, threads("a", range(1)))
    group.release(mine, [("words", 0)])
    before = group.operations
    assert len(group.claim(mine, threads("a", range(1000)))) == 1000
    assert group.operations - before == 5  # a look, and four transactions
    group.release(mine, [("words", number) for number in range(1000)])
    assert group.operations - before == 9
    assert group.owners() == {}


def test_a_lost_answer_to_a_claim_is_told_by_a_look(connect: Connect, hosts: str) -> None:
    session = connect(hosts)
    nodes = LosesAnswers(session)
    group = GroupRegistry(session, "readers", nodes=nodes)
    mine = group.register("a", TWO_STREAMS)
    nodes.losing = 1
    with pytest.raises(ZooKeeperUnreachable, match="answer to a write was lost"):
        group.claim(mine, threads("a", range(3)))
    assert group.held(mine, threads("a", range(3))) == threads("a", range(3))
    nodes.losing = 1
    with pytest.raises(ZooKeeperUnreachable):
        group.release(mine, threads("a", range(3)))
    assert group.held(mine, threads("a", range(3))) == {}
    nodes.losing = 1
    with pytest.raises(ZooKeeperUnreachable):
        group.register("b", TWO_STREAMS)
    assert group.register("b", TWO_STREAMS).session_id == session.session_id


def test_an_owner_znode_that_somebody_deleted_holds_no_release_up(connect: Connect, hosts: str) -> None:
    session, group, mine = member(connect, hosts, "a")
    group.claim(mine, threads("a", range(4)))
    Znodes(session).delete(paths.owner("readers", "words", 2))
    group.release(mine, threads("a", range(4)))
    assert group.owners() == {}


def test_a_group_is_deleted_when_nobody_is_in_it(connect: Connect, hosts: str) -> None:
    session, group, mine = member(connect, hosts, "a")
    group.claim(mine, threads("a", range(4)))
    offsets = OffsetRegistry(session)
    offsets.commit("readers", {("words", 0): 5})
    with pytest.raises(GroupNotEmpty, match="stop them"):
        group.delete()
    assert offsets.all("readers") == {("words", 0): 5}
    assert group.owners() == dict(threads("a", range(4)))
    group.release(mine, threads("a", range(4)))
    group.unregister(mine)
    group.delete()
    group.delete()
    assert "readers" not in offsets.groups()
    assert group.register("a", TWO_STREAMS).session_id == session.session_id  # and may come back
    assert offsets.all("readers") == {}


def test_an_expired_session_takes_its_claims_along_and_writes_nothing_more(connect: Connect, hosts: str) -> None:
    session, group, mine = member(connect, hosts, "a")
    other_session, other_group, other = member(connect, hosts, "b")
    group.claim(mine, threads("a", range(3)))
    gone: list[TopicPartition] = []
    assert other_group.await_release(threads("a", range(4)), gone.append) == {("words", 3)}
    first = session.session_id
    expire(session)
    until(other_session, lambda: len(gone) == 3)
    assert other_group.claim(other, threads("b", range(3))) == set(gone)
    until(session, lambda: session.session_id not in (None, first))
    for late in (lambda: group.release(mine, gone), lambda: group.claim(mine, threads("a", range(9)))):
        with pytest.raises(SessionReplaced):
            late()
    # Even what was begun before the expiry and reaches ZooKeeper after it, in the new session, does nothing.
    assert session.session_id is not None
    smuggled = mine._replace(session_id=session.session_id)
    again = group.register("a", TWO_STREAMS)
    assert again.version != mine.version
    for late in (lambda: group.release(smuggled, gone), lambda: group.claim(smuggled, threads("a", range(9)))):
        with pytest.raises(SessionReplaced):
            late()
    assert group.owners() == threads("b", range(3))
    assert group.claim(again, threads("a", range(4))) == {("words", 3)}


def test_a_release_is_heard_of_by_who_waits_for_it(connect: Connect, hosts: str) -> None:
    _, group, mine = member(connect, hosts, "a")
    other_session, other_group, _ = member(connect, hosts, "b")
    group.claim(mine, threads("a", range(100)))
    freed: list[TopicPartition] = []
    before = other_group.operations
    assert other_group.await_release(threads("a", range(100)), freed.append) == set()
    assert other_group.operations - before == 16  # of many only some are watched
    group.release(mine, [("words", 0), ("words", 99)])
    until(other_session, lambda: sorted(freed) == [("words", 0), ("words", 99)])


def test_a_session_whose_connection_is_away_claims_nothing(connect: Connect, hosts: str) -> None:
    session, group, mine = member(connect, hosts, "a")
    session.close()
    with pytest.raises(ZooKeeperUnreachable):
        group.claim(mine, threads("a", range(1)))
    with pytest.raises(ZooKeeperUnreachable):
        group.register("a", TWO_STREAMS)
    with pytest.raises(ZooKeeperUnreachable):
        Znodes(session).transact_once([[Create("/x")]], mine.session_id)
