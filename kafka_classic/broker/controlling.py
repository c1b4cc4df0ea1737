"""What only the controller answers: elections on request, reassignments, and a broker that is about to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import kio.schema.alter_partition_reassignments.v1.response as alter_response
import kio.schema.elect_leaders.v2.response as elect_response
import kio.schema.list_partition_reassignments.v0.response as list_response
from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.controller.controller import Election
from kafka_classic.wire.control import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from kafka_classic.wire.errors import Error, KafkaError

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

A: Any = alter_response
E: Any = elect_response
L: Any = list_response

At = tuple[str, int]
KINDS = {int(kind) for kind in Election}
Value = TypeVar("Value")
LEAST_S = 1.0  # one who will not wait at all still wants it done


def elect_leaders(broker: Broker, connection: Connection, request: ElectLeadersRequest) -> Any:
    wanted = request.topic_partitions
    try:
        if request.election_type not in KINDS:
            raise KafkaError(Error.invalid_request, f"there is no election of type {request.election_type}")
        partitions = None if wanted is None else [(row.topic, index) for row in wanted for index in row.partitions]
        results = broker.controller.elect_leaders(
            Election(request.election_type), partitions, max(request.timeout.total_seconds(), LEAST_S)
        )
    except KafkaError as error:
        return E.ElectLeadersResponse(throttle_time=NO_TIME, error_code=error.code, replica_election_results=())
    if wanted is None:  # who asked for all wants to hear of those that had need of it
        results = {
            at: error for at, error in results.items() if not error or error.code is not Error.election_not_needed
        }
    return E.ElectLeadersResponse(
        throttle_time=NO_TIME,
        error_code=Error.none,
        replica_election_results=tuple(
            E.ReplicaElectionResult(
                topic=topic,
                partition_result=tuple(
                    E.PartitionResult(partition_id=index, error_code=_code(error), error_message=_message(error))
                    for index, error in rows
                ),
            )
            for topic, rows in _by_topic(results)
        ),
    )


def alter_partition_reassignments(
    broker: Broker, connection: Connection, request: AlterPartitionReassignmentsRequest
) -> Any:
    targets: dict[At, tuple[int, ...] | None] = {
        (topic.name, row.partition_index): None if row.replicas is None else tuple(row.replicas)
        for topic in request.topics
        for row in topic.partitions
    }
    allowed = request.allow_replication_factor_change
    try:
        refused = {} if allowed else _of_another_size(broker, targets)
        results = broker.controller.alter_reassignments(
            {at: target for at, target in targets.items() if at not in refused},
            max(request.timeout.total_seconds(), LEAST_S),
        )
    except KafkaError as error:
        return A.AlterPartitionReassignmentsResponse(
            throttle_time=NO_TIME,
            allow_replication_factor_change=allowed,
            error_code=error.code,
            error_message=error.message,
            responses=(),
        )
    return A.AlterPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        allow_replication_factor_change=allowed,
        error_code=Error.none,
        error_message=None,
        responses=tuple(
            A.ReassignableTopicResponse(
                name=topic,
                partitions=tuple(
                    A.ReassignablePartitionResponse(
                        partition_index=index, error_code=_code(error), error_message=_message(error)
                    )
                    for index, error in rows
                ),
            )
            for topic, rows in _by_topic({**results, **refused})
        ),
    )


def _of_another_size(broker: Broker, targets: Mapping[At, tuple[int, ...] | None]) -> dict[At, KafkaError]:
    """The partitions that would get more or fewer replicas than they have."""
    moving = broker.controller.list_reassignments([*targets])
    refused = {}
    for at, target in targets.items():
        topic = broker.view.topics.get(at[0])
        if target is None or topic is None or at[1] not in topic.partitions:
            continue
        have = len(moving[at].origin if at in moving else topic.partitions[at[1]].replicas)
        if len(target) != have:
            refused[at] = KafkaError(
                Error.invalid_replication_factor, f"it has {have} replicas, and is to keep as many"
            )
    return refused


def list_partition_reassignments(
    broker: Broker, connection: Connection, request: ListPartitionReassignmentsRequest
) -> Any:
    wanted = request.topics
    partitions = None if wanted is None else [(row.name, index) for row in wanted for index in row.partition_indexes]
    try:
        moving = broker.controller.list_reassignments(partitions)
    except KafkaError as error:
        return L.ListPartitionReassignmentsResponse(
            throttle_time=NO_TIME, error_code=error.code, error_message=error.message, topics=()
        )
    return L.ListPartitionReassignmentsResponse(
        throttle_time=NO_TIME,
        error_code=Error.none,
        error_message=None,
        topics=tuple(
            L.OngoingTopicReassignment(
                name=topic,
                partitions=tuple(
                    L.OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=way.replicas,
                        adding_replicas=way.adding,
                        removing_replicas=way.removing,
                    )
                    for index, way in rows
                ),
            )
            for topic, rows in _by_topic(moving)
        ),
    )


def controlled_shutdown(broker: Broker, connection: Connection, request: ControlledShutdownRequest) -> Any:
    try:
        remaining = broker.controller.shut_down(request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return ControlledShutdownResponse(error_code=error.code, remaining_partitions=())
    return ControlledShutdownResponse(
        error_code=Error.none,
        remaining_partitions=tuple(
            RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
        ),
    )


def _by_topic(rows: Mapping[At, Value]) -> Iterable[tuple[str, list[tuple[int, Value]]]]:
    for topic, group in groupby(sorted(rows), key=lambda at: at[0]):
        yield topic, [(at[1], rows[at]) for at in group]


def _code(error: KafkaError | None) -> Error:
    return Error.none if error is None else error.code


def _message(error: KafkaError | None) -> str | None:
    return None if error is None else error.message
