"""What only the controller can do: elect leaders, and move partitions to other brokers.

Each request goes to the broker that the metadata names as the controller, and anew, with fresh metadata, while the one
that got it says NOT_CONTROLLER. Each call returns an outcome for every partition: one that fails holds up no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Refused, UnknownTopic
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.client.offsets import by_topic
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError, default_message

DEFAULT_TIMEOUT = 30.0


class Election(IntEnum):
    """Who may lead, by Kafka's numbers: the first of the replica list, or anyone alive for want of one in sync."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition on its way: `replicas` are all that hold it now, those coming and those leaving among them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas there will be at the end."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


# What became of each partition: None where all went well.
Outcomes = dict[TopicPartition, KafkaError | None]


def elect_leaders(
    cluster: Cluster,
    kind: Election,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> Outcomes:
    """Elect the leaders of these partitions, or of all; ELECTION_NOT_NEEDED is the outcome of one led as it should be.

    Asked about all partitions, the controller may answer only for those where there was something to do.
    """
    from kio.schema.elect_leaders.v2 import ElectLeadersRequest
    from kio.schema.elect_leaders.v2.request import TopicPartitions
    from kio.schema.types import TopicName
    from kio.static.primitive import i8, i32, i32Timedelta

    named = None if partitions is None else _indexes(partitions)
    request = ElectLeadersRequest(
        election_type=i8(kind),
        topic_partitions=None
        if named is None
        else tuple(
            TopicPartitions(topic=TopicName(topic), partitions=tuple(map(i32, indexes)))
            for topic, indexes in named.items()
        ),
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
    )

    def attempt() -> Outcomes:
        answer = _ask(cluster, Api.ELECT_LEADERS, request, timeout + cluster.request_timeout)
        return _outcomes(
            (str(topic.topic), int(one.partition_id), one)
            for topic in answer.replica_election_results
            for one in topic.partition_result
        )

    return _changed(cluster, cluster.retrying(attempt, timeout))


def alter_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float = DEFAULT_TIMEOUT
) -> Outcomes:
    """Begin to move partitions to these replicas; None cancels a move that is under way. Returns before they arrive."""
    from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
    from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i32, i32Timedelta

    request = AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
        topics=tuple(
            ReassignableTopic(
                name=TopicName(topic),
                partitions=tuple(
                    ReassignablePartition(
                        partition_index=i32(index),
                        replicas=None if replicas is None else tuple(map(BrokerId, replicas)),
                    )
                    for index, replicas in partitions
                ),
            )
            for topic, partitions in by_topic(targets).items()
        ),
    )

    def attempt() -> Outcomes:
        answer = _ask(cluster, Api.ALTER_PARTITION_REASSIGNMENTS, request, timeout + cluster.request_timeout)
        return _outcomes(
            (str(topic.name), int(one.partition_index), one) for topic in answer.responses for one in topic.partitions
        )

    return _changed(cluster, cluster.retrying(attempt, timeout))


def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None, *, timeout: float = DEFAULT_TIMEOUT
) -> dict[TopicPartition, Reassignment]:
    """Return the moves that are under way, of these partitions or of all."""
    from kio.schema.list_partition_reassignments.v0 import ListPartitionReassignmentsRequest
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsTopics
    from kio.schema.types import TopicName
    from kio.static.primitive import i32, i32Timedelta

    named = None if partitions is None else _indexes(partitions)
    request = ListPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
        topics=None
        if named is None
        else tuple(
            ListPartitionReassignmentsTopics(name=TopicName(topic), partition_indexes=tuple(map(i32, indexes)))
            for topic, indexes in named.items()
        ),
    )
    # The controller knows this without asking anybody: one that does not answer at once is frozen or gone.
    wait = min(timeout, cluster.request_timeout)
    answer = cluster.retrying(lambda: _ask(cluster, Api.LIST_PARTITION_REASSIGNMENTS, request, wait), timeout)
    return {
        (str(topic.name), int(one.partition_index)): Reassignment(
            tuple(map(int, one.replicas)), tuple(map(int, one.adding_replicas)), tuple(map(int, one.removing_replicas))
        )
        for topic in answer.topics
        for one in topic.partitions
    }


def _ask(cluster: Cluster, api: Api, request: object, wait: float) -> Any:
    """Ask the controller once; raises the error of the request as a whole."""
    answer = cluster.controller().request(api, request, wait)
    if answer.error_code:
        # ElectLeaders, alone of the three, has no words for an error of the whole.
        message = getattr(answer, "error_message", None)
        raise KafkaError(answer.error_code, message or default_message(answer.error_code))
    return answer


def _outcomes(results: Iterable[tuple[str, int, Any]]) -> Outcomes:
    found: Outcomes = {}
    for topic, index, one in results:
        failure = partition_error(one.error_code, topic, index, one.error_message) if one.error_code else None
        if failure is not None and failure.code == Error.not_controller:
            raise failure  # Kafka says it of each partition: the request as a whole is sent again
        found[topic, index] = None if failure is None else _final(failure)
    return found


def _final(failure: KafkaError) -> KafkaError:
    kind = UnknownTopic if failure.code == Error.unknown_topic_or_partition else Refused
    return kind(failure.code, failure.message)


def _changed(cluster: Cluster, outcomes: Outcomes) -> Outcomes:
    cluster.forget()
    return outcomes


def _indexes(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    return topics
