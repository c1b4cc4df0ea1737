"""One controller at a time, and what an earlier one writes is refused."""

import json
from collections.abc import Callable
from uuid import uuid4

import pytest

from kafka_classic.zk.controller import ControllerElection, Mandate
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.errors import ControllerFenced, UnknownTopic, VersionConflict
from kafka_classic.zk.isr_changes import IsrChanges
from kafka_classic.zk.partitions import PartitionState, PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicInfo, TopicRegistry
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import until

FIRST = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1)


def mandate_of(session: Session, broker_id: int) -> Mandate:
    mandate = ControllerElection(session).elect(broker_id)
    assert mandate is not None
    return mandate


def test_the_first_to_create_the_znode_is_the_controller(connect: Callable[..., Session], hosts: str) -> None:
    one, two = connect(hosts), connect(hosts)
    assert ControllerElection(one).current() is None
    mandate = mandate_of(one, 1)
    assert mandate.epoch == 1
    assert ControllerElection(two).elect(2) is None
    assert ControllerElection(two).current() == 1
    nodes = Znodes(two)
    node, epoch = nodes.get("/controller"), nodes.get("/controller_epoch")
    assert node is not None
    assert epoch is not None
    value = json.loads(node.data)
    assert (value["version"], value["brokerid"]) == (1, 1)
    assert int(value["timestamp"]) > 0
    assert node.owner == one.session_id
    assert (epoch.data, epoch.version) == (b"1", mandate.zk_version)


def test_a_controller_that_resigns_or_dies_is_followed_by_another_of_a_higher_epoch(
    connect: Callable[..., Session], hosts: str
) -> None:
    one, two = connect(hosts), connect(hosts)
    told: list[int | None] = []
    ControllerElection(two).watch(told.append)
    first = mandate_of(one, 1)
    until(two, lambda: told[-1:] == [1])
    assert ControllerElection(one).resign(first)
    until(two, lambda: told[-1] is None)
    second = mandate_of(two, 2)
    assert second.epoch == 2
    assert not ControllerElection(one).resign(first)
    assert ControllerElection(one).current() == 2
    until(two, lambda: told[-1] == 2)
    two.close()
    until(one, lambda: ControllerElection(one).current() is None)
    assert mandate_of(one, 1).epoch == 3


def test_a_controller_that_is_elected_again_in_its_session_fences_its_own_earlier_writes(session: Session) -> None:
    election = ControllerElection(session)
    first, second = mandate_of(session, 1), mandate_of(session, 1)
    assert second.epoch == first.epoch + 1
    election.check(second)
    with pytest.raises(ControllerFenced):
        election.check(first)


def test_the_place_of_a_brokers_earlier_life_is_taken_at_once(connect: Callable[..., Session], hosts: str) -> None:
    before, after, other = connect(hosts), connect(hosts), connect(hosts)
    first = mandate_of(before, 1)
    assert ControllerElection(other).elect(2) is None
    assert mandate_of(after, 1).epoch == first.epoch + 1
    node = Znodes(other).get("/controller")
    assert node is not None
    assert node.owner == after.session_id
    with pytest.raises(ControllerFenced):
        ControllerElection(before).check(first)
    before.close()
    assert ControllerElection(other).current() == 1


def test_a_replaced_controller_writes_nothing(session: Session) -> None:
    topics, states = TopicRegistry(session), PartitionStates(session)
    old = mandate_of(session, 1)
    info = topics.create("t", {0: [1, 2], 1: [2, 1]}, {}, uuid4())
    states.create_many({("t", 0): FIRST}, old)
    mandate_of(session, 1)
    attempts: list[Callable[[], object]] = [
        lambda: states.write_many({("t", 0): PartitionState(2, 1, (2,), 1)}, old),
        lambda: states.create_many({("t", 1): FIRST}, old),
        lambda: topics.set_assignment(info, old),
        lambda: topics.delete("t", old),
    ]
    for attempt in attempts:
        with pytest.raises(ControllerFenced):
            attempt()
    assert topics.all() == {"t": info}
    assert states.read_many([("t", 0), ("t", 1)]) == {("t", 0): FIRST}


def test_many_states_are_written_but_for_those_that_were_changed_meanwhile(session: Session) -> None:
    count = 700
    TopicRegistry(session).create("t", {p: [1, 2] for p in range(count)}, {}, uuid4())
    states, mandate = PartitionStates(session), mandate_of(session, 1)
    assert len(states.create_many({("t", p): FIRST for p in range(count)}, mandate)) == count
    shrunk = states.write("t", 350, PartitionState(1, 0, (1,), 1))
    new = PartitionState(2, 1, (2,), 1)
    wanted = {("t", p): new for p in range(count)} | {("gone", 0): new}
    result = states.write_many(wanted, mandate)
    assert result.conflicts == {("t", 350): shrunk, ("gone", 0): None}
    assert result.written == {("t", p): PartitionState(2, 1, (2,), 1, 1) for p in range(count) if p != 350}
    assert states.read_many([*result.written]) == result.written
    # The repeat of a write whose answer was lost is no conflict.
    assert states.write_many(wanted, mandate) == result


def test_a_topic_written_by_the_controller_compares_its_version_too(session: Session) -> None:
    topics, mandate = TopicRegistry(session), mandate_of(session, 1)
    info = topics.create("t", {0: [1, 2]}, {}, uuid4())
    moved = topics.set_assignment(TopicInfo("t", info.topic_id, {0: (3, 1, 2)}, 0, {0: (3,)}, {0: (2,)}), mandate)
    assert topics.get("t") == moved
    with pytest.raises(VersionConflict):
        topics.set_assignment(info, mandate)
    assert topics.delete("t", mandate)
    assert topics.all() == {}


def test_notices_of_isr_changes_are_told_of_read_and_deleted(session: Session) -> None:
    changes, told = IsrChanges(session), []
    changes.watch(lambda: told.append(1))
    assert told == []
    changes.tell([("t", 0), ("u", 3)])
    changes.tell([("t", 1)])
    until(session, lambda: told)
    notices = changes.read()
    assert [*notices.values()] == [[("t", 0), ("u", 3)], [("t", 1)]]
    assert all(name.startswith("isr_change_") for name in notices)
    changes.delete([*notices])
    assert changes.read() == {}
    told.clear()
    changes.tell([("t", 2)])
    until(session, lambda: told)


def test_topics_to_delete_are_told_of_until_they_are_gone(session: Session) -> None:
    topics, deletions = TopicRegistry(session), TopicDeletions(session)
    told: list[list[str]] = []
    deletions.watch(told.append)
    assert told == [[]]
    with pytest.raises(UnknownTopic):
        deletions.request("t")
    topics.create("t", {0: [1]}, {}, uuid4())
    deletions.request("t")
    deletions.request("t")
    until(session, lambda: told[-1] == ["t"])
    topics.delete("t", mandate_of(session, 1))
    until(session, lambda: told[-1] == [])
    assert deletions.pending() == []
    with pytest.raises(UnknownTopic):
        deletions.request("t")
