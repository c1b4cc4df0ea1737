"""The offset registry: decimal text that outlives its consumers, and no step back by one that has expired."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_classic.zk import paths
from kafka_classic.zk.consumers import GroupRegistry
from kafka_classic.zk.errors import SessionReplaced
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session
from kafka_classic.zk.subscriptions import Subscription
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import expire, until

Connect = Callable[..., Session]


def test_offsets_are_decimal_text_and_outlive_the_session(connect: Connect, hosts: str) -> None:
    first = connect(hosts)
    OffsetRegistry(first).commit("readers", {("words", 0): 12, ("words", 1): 0, ("lines", 7): 1 << 40})
    first.close()
    second = connect(hosts)
    node = Znodes(second).get(paths.offset("readers", "words", 0))
    assert node is not None
    assert node.data == b"12"
    registry = OffsetRegistry(second)
    assert registry.fetch("readers", [("words", 0), ("words", 5), ("no", 1)]) == {("words", 0): 12}
    assert registry.all("readers") == {("words", 0): 12, ("words", 1): 0, ("lines", 7): 1 << 40}
    assert registry.groups() == ["readers"]
    registry.commit("readers", {("words", 0): 13})
    registry.delete("readers", [("words", 1), ("words", 99)])
    assert registry.all("readers") == {("words", 0): 13, ("lines", 7): 1 << 40}
    assert registry.all("nobody") == {}


def test_many_offsets_are_few_transactions(connect: Connect, hosts: str) -> None:
    registry = OffsetRegistry(connect(hosts))
    partitions = [("words", number) for number in range(600)]
    registry.commit("readers", dict.fromkeys(partitions, 1))
    before = registry.operations
    registry.commit("readers", dict.fromkeys(partitions, 2))
    assert registry.operations - before == 3
    assert registry.fetch("readers", partitions) == dict.fromkeys(partitions, 2)


def test_an_offset_that_another_deleted_or_created_meanwhile_is_committed_all_the_same(
    connect: Connect, hosts: str
) -> None:
    mine, other = OffsetRegistry(connect(hosts)), OffsetRegistry(connect(hosts))
    mine.commit("readers", {("words", 0): 1})
    other.delete("readers", [("words", 0)])
    assert mine.fetch("readers", [("words", 1)]) == {}
    other.commit("readers", {("words", 1): 5})
    mine.commit("readers", {("words", 0): 2, ("words", 1): 6})
    assert other.all("readers") == {("words", 0): 2, ("words", 1): 6}


def test_what_is_not_a_number_is_no_offset(connect: Connect, hosts: str) -> None:
    session = connect(hosts)
    Znodes(session).create(paths.offset("readers", "words", 0), b"eleven")
    assert OffsetRegistry(session).fetch("readers", [("words", 0)]) == {}


def test_one_whose_session_expired_cannot_put_an_offset_back(connect: Connect, hosts: str) -> None:
    session, other = connect(hosts), connect(hosts)
    group = GroupRegistry(session, "readers")
    registrations = [group.register("a", Subscription({"words": 1}))]
    registry = OffsetRegistry(session, fence=lambda: registrations[-1])
    registry.commit("readers", {("words", 0): 10})
    first = session.session_id
    expire(session)
    OffsetRegistry(other).commit("readers", {("words", 0): 20})
    until(session, lambda: session.session_id not in (None, first))
    with pytest.raises(SessionReplaced):
        registry.commit("readers", {("words", 0): 11})
    assert session.session_id is not None
    registrations.append(registrations[0]._replace(session_id=session.session_id))
    group.register("a", Subscription({"words": 1}))
    with pytest.raises(SessionReplaced):
        registry.commit("readers", {("words", 0): 11})
    assert OffsetRegistry(other).all("readers") == {("words", 0): 20}
    with pytest.raises(SessionReplaced, match="not registered"):
        OffsetRegistry(session, fence=lambda: None).commit("readers", {("words", 0): 11})
