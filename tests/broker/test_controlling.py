"""Elections, reassignments and a controlled shutdown, asked for over the wire of three real brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import kio.schema.alter_partition_reassignments.v1.request as alter_request
import kio.schema.elect_leaders.v2.request as elect_request
import kio.schema.list_partition_reassignments.v0.request as list_request
import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.control import ControlledShutdownRequest
from tests.broker.calls import LONG_ENOUGH, create_partitions, create_topics, metadata, ms, new_topic
from tests.broker.conftest import make_topic
from tests.broker.raw import Raw, batch, fetch, produce

ALTER: Any = alter_request
ELECT: Any = elect_request
LIST: Any = list_request


@pytest.fixture
def boss(three: LocalCluster) -> Iterator[Raw]:
    """A connection to the controller."""
    with Raw(three.brokers[0].address) as any_broker:
        until(lambda: metadata(any_broker).controller_id >= 0)
        controller = metadata(any_broker).controller_id
    with Raw(three.brokers[controller].address) as connection:
        yield connection


@pytest.fixture
def other(three: LocalCluster, boss: Raw) -> Iterator[Raw]:
    """A connection to a broker that is not the controller."""
    with Raw(next(broker.address for broker in three.brokers if broker.address != boss.address)) as connection:
        yield connection


def partition_of(raw: Raw, topic: str, index: int = 0) -> Any:
    return metadata(raw, topic).topics[0].partitions[index]


def elect(raw: Raw, kind: int, topic: str | None, partitions: Iterable[int] = (0,), *, version: int = 2) -> Any:
    rows = None if topic is None else (ELECT.TopicPartitions(topic=topic, partitions=tuple(partitions)),)
    body = ELECT.ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout=ms(LONG_ENOUGH))
    return raw.call(Api.ELECT_LEADERS, version, body)


def reassign(raw: Raw, topic: str, replicas: Iterable[int] | None, *, version: int = 1, same_size: bool = False) -> Any:
    row = ALTER.ReassignablePartition(partition_index=0, replicas=None if replicas is None else tuple(replicas))
    body = ALTER.AlterPartitionReassignmentsRequest(
        timeout=ms(LONG_ENOUGH),
        allow_replication_factor_change=not same_size,
        topics=(ALTER.ReassignableTopic(name=topic, partitions=(row,)),),
    )
    return raw.call(Api.ALTER_PARTITION_REASSIGNMENTS, version, body)


def under_way(raw: Raw) -> Any:
    body = LIST.ListPartitionReassignmentsRequest(timeout=ms(LONG_ENOUGH), topics=None)
    return raw.call(Api.LIST_PARTITION_REASSIGNMENTS, 0, body)


def test_replicas_are_spread_over_the_brokers(boss: Raw) -> None:
    name = make_topic(boss.address, 6, factor=3)
    rows = metadata(boss, name).topics[0].partitions
    assert all(sorted(row.replica_nodes) == sorted(row.isr_nodes) == [0, 1, 2] for row in rows)
    assert sorted(row.leader_id for row in rows) == [0, 0, 1, 1, 2, 2]
    assert create_partitions(boss, name, 9).error_code is Error.none
    rows = metadata(boss, name).topics[0].partitions
    assert sorted(row.leader_id for row in rows) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(len(row.replica_nodes) == 3 for row in rows)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([(0, [0, 1]), (1, [1, 2])], Error.none),
        ([(0, [0, 1]), (1, [1])], Error.invalid_replica_assignment),
        ([(0, [0, 0])], Error.invalid_replica_assignment),
        ([(0, [0, 9])], Error.invalid_replica_assignment),
    ],
)
def test_a_manual_assignment_of_many_replicas(boss: Raw, rows: list[tuple[int, list[int]]], error: Error) -> None:
    (made,) = create_topics(boss, new_topic(f"manual-{uuid.uuid4().hex[:10]}", assignment=rows))
    assert made.error_code is error


def test_more_replicas_than_brokers_are_refused(boss: Raw) -> None:
    (made,) = create_topics(boss, new_topic("too-many", 1, 4))
    assert made.error_code is Error.invalid_replication_factor
    assert "live brokers 3" in made.error_message


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_is_elected_on_request(boss: Raw, version: int) -> None:
    name = make_topic(boss.address, assignment=[(0, [0, 1])])
    reassign(boss, name, (1, 0))  # another order: 0 leads on, and 1 is preferred
    until(lambda: list(partition_of(boss, name).replica_nodes) == [1, 0])
    assert partition_of(boss, name).leader_id == 0
    answer = elect(boss, 0, name, version=version)
    [result] = answer.replica_election_results
    assert (result.topic, [(row.partition_id, row.error_code) for row in result.partition_result]) == (
        name,
        [(0, Error.none)],
    )
    until(lambda: partition_of(boss, name).leader_id == 1)
    [again] = elect(boss, 0, name, version=version).replica_election_results
    assert [row.error_code for row in again.partition_result] == [Error.election_not_needed]
    assert name not in {row.topic for row in elect(boss, 0, None, version=version).replica_election_results}


def test_an_election_that_is_none_of_the_two_is_refused(boss: Raw) -> None:
    assert elect(boss, 7, "t").error_code is Error.invalid_request


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_moves_with_its_records(boss: Raw, three: LocalCluster, version: int) -> None:
    name = make_topic(boss.address, assignment=[(0, [0])])
    with Raw(three.brokers[0].address) as leader:
        until(lambda: fetch(leader, name, 0)[0] == 0)  # it has heard that it leads, too
        for n in range(20):
            assert produce(leader, name, batch(b"%d" % n)) == (0, n)
    answer = reassign(boss, name, (2, 1), version=version)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (Error.none, Error.none)
    until(lambda: list(partition_of(boss, name).replica_nodes) == [2, 1])
    until(lambda: partition_of(boss, name).leader_id == 2)
    assert under_way(boss).topics == ()
    with Raw(three.brokers[2].address) as leader:
        until(lambda: produce(leader, name, batch(b"last"), acks=-1)[0] == 0)
        until(lambda: fetch(leader, name, 0)[1] == 21)
    with Raw(three.brokers[0].address) as former:
        until(lambda: produce(former, name, batch(b"x"))[0] == Error.not_leader_or_follower.value)


def test_what_cannot_be_reassigned_is_refused(boss: Raw) -> None:
    name = make_topic(boss.address, assignment=[(0, [0])])

    def why(answer: Any) -> Error:
        assert answer.error_code is Error.none
        return Error(answer.responses[0].partitions[0].error_code)

    assert why(reassign(boss, name, (0, 9))) is Error.invalid_replica_assignment
    assert why(reassign(boss, name, ())) is Error.invalid_replica_assignment
    assert why(reassign(boss, name, None)) is Error.no_reassignment_in_progress
    assert why(reassign(boss, "no-such-topic", (0,))) is Error.unknown_topic_or_partition
    assert why(reassign(boss, name, (0, 1), same_size=True)) is Error.invalid_replication_factor
    assert list(partition_of(boss, name).replica_nodes) == [0]


def test_other_brokers_send_the_client_to_the_controller(other: Raw) -> None:
    assert elect(other, 0, "t").error_code is Error.not_controller
    assert reassign(other, "t", (0,)).error_code is Error.not_controller
    assert under_way(other).error_code is Error.not_controller
    body = ControlledShutdownRequest(broker_id=0, broker_epoch=1)
    assert other.call(Api.CONTROLLED_SHUTDOWN, 3, body).error_code is Error.not_controller


def test_a_shutdown_of_an_earlier_life_is_not_heeded(boss: Raw) -> None:
    for broker_id, error in ((0, Error.stale_broker_epoch), (9, Error.broker_not_available)):
        body = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=1)
        assert boss.call(Api.CONTROLLED_SHUTDOWN, 3, body).error_code is error
