"""Elections and reassignments go to the controller, follow it when it moves, and tell each partition's outcome."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsResponse
from kio.schema.alter_partition_reassignments.v1.response import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.elect_leaders.v2 import ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.list_partition_reassignments.v0 import ListPartitionReassignmentsResponse
from kio.schema.list_partition_reassignments.v0.response import OngoingPartitionReassignment, OngoingTopicReassignment
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from kafka_classic.client.admin import (
    Election,
    Reassignment,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import NO_TIME, metadata
from tests.client.scripted import Hangup, Request, ScriptedBroker


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Brokers:
    """Three brokers, of which `controller` is the controller."""

    def __init__(self) -> None:
        self.controller = 1
        self.all = [ScriptedBroker() for _ in range(3)]
        ports = {id: broker.port for id, broker in enumerate(self.all)}
        for broker in self.all:
            broker.handlers[Api.METADATA] = lambda _: metadata(
                ports, {"t": [0, 1, 2], "u": [0]}, controller=self.controller
            )

    def answers(self, api: Api, *answers: object) -> None:
        """Every broker answers by the next of these, the last one for ever."""
        left = list(answers)

        def answer(_: Request) -> object:
            found = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(found, Exception):
                raise found
            return found

        for broker in self.all:
            broker.handlers[api] = answer

    def asked(self, api: Api) -> list[int]:
        """Which brokers were asked, and how often."""
        return [broker.count(api) for broker in self.all]

    def request(self, api: Api) -> Request:
        (found,) = (request for broker in self.all for request in broker.requests if request.header.api_key == api)
        return found


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    yield made
    for broker in made.all:
        broker.close()


@pytest.fixture
def cluster(brokers: Brokers) -> Iterator[Cluster]:
    clock = Clock()
    with Cluster(brokers.all[0].address, clock=clock, sleep=clock.sleep, rng=random.Random(1)) as made:
        yield made


def elected(outcomes: Mapping[int, Error], error: Error = Error.none) -> ElectLeadersResponse:
    results = tuple(
        PartitionResult(partition_id=i32(index), error_code=code, error_message=None)
        for index, code in outcomes.items()
    )
    return ElectLeadersResponse(
        throttle_time=NO_TIME,
        error_code=error,
        replica_election_results=(ReplicaElectionResult(topic=TopicName("t"), partition_result=results),),
    )


def altered(
    outcomes: Mapping[int, tuple[Error, str | None]], error: Error = Error.none
) -> AlterPartitionReassignmentsResponse:
    results = tuple(
        ReassignablePartitionResponse(partition_index=i32(index), error_code=code, error_message=message)
        for index, (code, message) in outcomes.items()
    )
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        error_code=error,
        error_message=None,
        responses=(ReassignableTopicResponse(name=TopicName("t"), partitions=results),),
    )


def test_an_election_is_asked_of_the_controller_and_each_partition_has_its_outcome(
    brokers: Brokers, cluster: Cluster
) -> None:
    brokers.answers(
        Api.ELECT_LEADERS,
        elected({0: Error.none, 1: Error.election_not_needed, 7: Error.unknown_topic_or_partition}),
    )
    outcomes = elect_leaders(cluster, Election.PREFERRED, [("t", 0), ("t", 1), ("t", 7)])
    assert brokers.asked(Api.ELECT_LEADERS) == [0, 1, 0]
    body = brokers.request(Api.ELECT_LEADERS).body
    assert (body.election_type, [(one.topic, one.partitions) for one in body.topic_partitions]) == (
        0,
        [("t", (0, 1, 7))],
    )
    assert outcomes["t", 0] is None
    not_needed, unknown = outcomes["t", 1], outcomes["t", 7]
    assert not_needed is not None
    assert not_needed.code == Error.election_not_needed
    assert isinstance(unknown, UnknownTopic)
    assert "partition 7 of 't'" in unknown.message


def test_an_unclean_election_of_all_partitions_names_none(brokers: Brokers, cluster: Cluster) -> None:
    brokers.answers(Api.ELECT_LEADERS, elected({0: Error.none}))
    assert elect_leaders(cluster, Election.UNCLEAN) == {("t", 0): None}
    body = brokers.request(Api.ELECT_LEADERS).body
    assert (body.election_type, body.topic_partitions) == (1, None)


@pytest.mark.parametrize(
    "refusal",
    [elected({}, Error.not_controller), elected({0: Error.not_controller}), Hangup()],
    ids=["as a whole", "of a partition", "gone"],
)
def test_a_controller_that_has_moved_is_looked_for_anew(brokers: Brokers, cluster: Cluster, refusal: object) -> None:
    def refuse(_: Request) -> object:
        brokers.controller = 2
        if isinstance(refusal, Exception):
            raise refusal
        return refusal

    brokers.answers(Api.ELECT_LEADERS, elected({0: Error.none}))
    brokers.all[1].handlers[Api.ELECT_LEADERS] = refuse
    assert elect_leaders(cluster, Election.PREFERRED, [("t", 0)]) == {("t", 0): None}
    assert brokers.asked(Api.ELECT_LEADERS) == [0, 1, 1]


def test_without_a_controller_the_attempts_end_with_kafkas_code(brokers: Brokers, cluster: Cluster) -> None:
    brokers.controller = -1
    brokers.answers(Api.LIST_PARTITION_REASSIGNMENTS, listed({}, Error.not_controller))
    with pytest.raises(KafkaError) as raised:
        list_reassignments(cluster, timeout=5.0)
    assert raised.value.code == Error.not_controller
    assert sum(brokers.asked(Api.LIST_PARTITION_REASSIGNMENTS)) > 3


def test_what_cannot_be_mended_is_raised_at_once(brokers: Brokers, cluster: Cluster) -> None:
    brokers.answers(Api.ALTER_PARTITION_REASSIGNMENTS, altered({}, Error.cluster_authorization_failed))
    with pytest.raises(KafkaError) as raised:
        alter_reassignments(cluster, {("t", 0): (1, 2)})
    assert raised.value.code == Error.cluster_authorization_failed
    assert sum(brokers.asked(Api.ALTER_PARTITION_REASSIGNMENTS)) == 1


def test_a_reassignment_names_its_replicas_and_none_cancels(brokers: Brokers, cluster: Cluster) -> None:
    brokers.answers(
        Api.ALTER_PARTITION_REASSIGNMENTS,
        altered({0: (Error.none, None), 1: (Error.invalid_replica_assignment, "broker 9 is not there")}),
    )
    outcomes = alter_reassignments(cluster, {("t", 0): (2, 1), ("u", 0): None, ("t", 1): (9,)})
    body = brokers.request(Api.ALTER_PARTITION_REASSIGNMENTS).body
    assert {topic.name: [(p.partition_index, p.replicas) for p in topic.partitions] for topic in body.topics} == {
        "t": [(0, (2, 1)), (1, (9,))],
        "u": [(0, None)],
    }
    assert outcomes["t", 0] is None
    failure = outcomes["t", 1]
    assert failure is not None
    assert failure.code == Error.invalid_replica_assignment
    assert failure.message == "partition 1 of 't': broker 9 is not there"


def listed(
    moves: Mapping[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]], error: Error = Error.none
) -> ListPartitionReassignmentsResponse:
    ids = [tuple(tuple(map(BrokerId, part)) for part in move) for move in moves.values()]
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        error_code=error,
        error_message=None,
        topics=(
            OngoingTopicReassignment(
                name=TopicName("t"),
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=i32(index),
                        replicas=replicas,
                        adding_replicas=adding,
                        removing_replicas=removing,
                    )
                    for index, (replicas, adding, removing) in zip(moves, ids, strict=True)
                ),
            ),
        ),
    )


def test_moves_under_way_are_told_with_where_they_end(brokers: Brokers, cluster: Cluster) -> None:
    brokers.answers(Api.LIST_PARTITION_REASSIGNMENTS, listed({1: ((2, 0, 1), (2,), (1,))}))
    moves = list_reassignments(cluster, [("t", 0), ("t", 1)])
    assert moves == {("t", 1): Reassignment((2, 0, 1), (2,), (1,))}
    assert moves["t", 1].target == (2, 0)
    body = brokers.request(Api.LIST_PARTITION_REASSIGNMENTS).body
    assert [(topic.name, topic.partition_indexes) for topic in body.topics] == [("t", (0, 1))]


def test_without_names_all_moves_are_asked_for(brokers: Brokers, cluster: Cluster) -> None:
    brokers.answers(Api.LIST_PARTITION_REASSIGNMENTS, listed({}))
    assert list_reassignments(cluster) == {}
    assert brokers.request(Api.LIST_PARTITION_REASSIGNMENTS).body.topics is None
