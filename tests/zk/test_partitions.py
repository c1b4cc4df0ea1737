"""The states of partitions: written only over the version they were read at."""

import json
from uuid import uuid4

import pytest

from kafka_classic.zk.errors import UnknownTopic, VersionConflict
from kafka_classic.zk.partitions import PartitionState, PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicRegistry
from kafka_classic.zk.znodes import Znodes

FIRST = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=4)


def test_a_state_is_created_read_and_written_in_kafkas_json(session: Session) -> None:
    TopicRegistry(session).create("t", {0: [1, 2]}, {}, uuid4())
    states = PartitionStates(session)
    assert states.read("t", 0) is None
    assert states.create("t", 0, FIRST) == states.read("t", 0) == FIRST
    shrunk = states.write("t", 0, PartitionState(1, 1, (1,), 4, zk_version=0))
    assert shrunk == states.read("t", 0) == PartitionState(1, 1, (1,), 4, zk_version=1)
    node = Znodes(session).get("/brokers/topics/t/partitions/0/state")
    assert node is not None
    assert json.loads(node.data) == {"controller_epoch": 4, "leader": 1, "version": 1, "leader_epoch": 1, "isr": [1]}


def test_a_stale_write_is_refused_but_not_the_repeat_of_a_lost_one(session: Session) -> None:
    TopicRegistry(session).create("t", {0: [1, 2]}, {}, uuid4())
    states = PartitionStates(session)
    states.create("t", 0, FIRST)
    assert states.create("t", 0, FIRST).zk_version == 0
    write = PartitionState(2, 1, (2,), 4, zk_version=0)
    assert states.write("t", 0, write).zk_version == 1
    assert states.write("t", 0, write).zk_version == 1
    with pytest.raises(VersionConflict):
        states.write("t", 0, PartitionState(1, 1, (1,), 4, zk_version=0))
    with pytest.raises(VersionConflict):
        states.create("t", 0, FIRST)


def test_a_state_never_brings_a_deleted_topic_back(session: Session) -> None:
    TopicRegistry(session).create("t", {0: [1]}, {}, uuid4())
    TopicRegistry(session).delete("t")
    states = PartitionStates(session)
    with pytest.raises(UnknownTopic):
        states.create("t", 0, FIRST)
    with pytest.raises(UnknownTopic):
        states.write("t", 0, FIRST)
    assert states.create_many({("t", 0): FIRST}) == {}
    assert TopicRegistry(session).all() == {}


def test_many_states_are_created_and_read_at_once(session: Session) -> None:
    TopicRegistry(session).create("t", {p: [1] for p in range(300)}, {}, uuid4())
    states = PartitionStates(session)
    wanted = {("t", p): FIRST for p in range(300)}
    states.create("t", 7, PartitionState(9, 9, (9,), 9))
    created = states.create_many(wanted)
    assert len(created) == 299
    assert ("t", 7) not in created
    assert states.read_many([("t", 7), ("t", 299), ("t", 300)]) == {
        ("t", 7): PartitionState(9, 9, (9,), 9),
        ("t", 299): FIRST,
    }
