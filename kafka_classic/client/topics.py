"""Topics: create, grow, delete, describe. Each call returns when every live broker knows of the change."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Refused, UnknownTopic
from kafka_classic.client.metadata import Topic
from kafka_classic.client.propagation import await_topics
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError, default_message

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created: -1 partitions or replicas mean the broker's defaults, `assignment` names the replicas."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    name: str
    id: uuid.UUID | None
    partitions: int
    replication_factor: int


def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> list[CreatedTopic]:
    """Create topics; raises the first error, after all were tried."""
    from kio.schema.create_topics.v7 import CreateTopicsRequest
    from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i16, i32, i32Timedelta

    wanted = list(topics)
    request = CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=TopicName(topic.name),
                num_partitions=i32(-1 if topic.assignment else topic.partitions),
                replication_factor=i16(-1 if topic.assignment else topic.replication_factor),
                assignments=tuple(
                    CreatableReplicaAssignment(partition_index=i32(index), broker_ids=tuple(map(BrokerId, replicas)))
                    for index, replicas in topic.assignment.items()
                ),
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
            )
            for topic in wanted
        ),
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
        validate_only=validate_only,
    )
    answer = _change(cluster, Api.CREATE_TOPICS, request, lambda answer: answer.topics, timeout)
    if not validate_only:
        await_topics(cluster, {topic.name: topic.partitions for topic in wanted}, timeout)
    return [
        CreatedTopic(str(topic.name), topic.topic_id, int(topic.num_partitions), int(topic.replication_factor))
        for topic in answer.topics
    ]


def delete_topics(cluster: Cluster, names: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Delete topics; raises the first error, after all were tried."""
    from kio.schema.delete_topics.v6 import DeleteTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicState
    from kio.schema.types import TopicName
    from kio.static.primitive import i32Timedelta

    wanted = list(names)
    request = DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=TopicName(name), topic_id=None) for name in wanted),
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
    )
    _change(cluster, Api.DELETE_TOPICS, request, lambda answer: answer.responses, timeout)
    await_topics(cluster, dict.fromkeys(wanted, 0), timeout)


def create_partitions(
    cluster: Cluster, counts: Mapping[str, int], *, validate_only: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> None:
    """Grow topics to the given numbers of partitions."""
    from kio.schema.create_partitions.v3 import CreatePartitionsRequest
    from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
    from kio.schema.types import TopicName
    from kio.static.primitive import i32, i32Timedelta

    request = CreatePartitionsRequest(
        topics=tuple(
            CreatePartitionsTopic(name=TopicName(name), count=i32(count), assignments=None)
            for name, count in counts.items()
        ),
        timeout=i32Timedelta.parse(timedelta(seconds=timeout)),
        validate_only=validate_only,
    )
    _change(cluster, Api.CREATE_PARTITIONS, request, lambda answer: answer.results, timeout)
    if not validate_only:
        await_topics(cluster, counts, timeout)


def list_topics(cluster: Cluster, *, internal: bool = False) -> list[str]:
    """Return the names of all topics, in order."""
    topics = cluster.metadata().topics.values()
    return sorted(topic.name for topic in topics if internal or not topic.internal)


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> list[Topic]:
    """Return all topics, or those named, in order; raises UnknownTopic for one that is not there."""
    wanted = None if names is None else list(names)
    topics = cluster.metadata(wanted).topics
    for topic in topics.values():
        if topic.error == Error.unknown_topic_or_partition:
            raise UnknownTopic(topic.error, f"there is no topic {topic.name!r}: `kafka-classic topics list` shows all")
        if topic.error:
            raise topic_error(topic.error, topic.name)
    return [topics[name] for name in (sorted(topics) if wanted is None else dict.fromkeys(wanted))]


def topic_error(code: int, name: str, message: str | None = None) -> KafkaError:
    """Return the error of one topic, with its name and what to do."""
    text = message or default_message(KafkaError(code).code)
    text = text if repr(name) in text else f"topic {name!r}: {text}"
    if code == Error.not_controller:
        return KafkaError(code, text)  # the request as a whole is sent again, to the right broker
    return UnknownTopic(code, text) if code == Error.unknown_topic_or_partition else Refused(code, text)


def _change(
    cluster: Cluster, api: Api, request: object, results: Callable[[Any], Iterable[Any]], timeout: float
) -> Any:
    """Send a change to the controller, anew when it has moved; raises the first topic's error."""

    def attempt() -> Any:
        answer = cluster.controller().request(api, request, timeout + cluster.request_timeout)
        for result in results(answer):
            if result.error_code:
                raise topic_error(result.error_code, str(result.name), result.error_message)
        return answer

    answer = cluster.retrying(attempt, timeout)
    cluster.forget()
    return answer
