"""CreateTopics, DeleteTopics and CreatePartitions: checked here, written to the registry, done by whom they concern."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import kio.schema.create_partitions.v3.response as create_partitions_response
import kio.schema.create_topics.v7.response as create_topics_response
import kio.schema.delete_topics.v6.response as delete_topics_response
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.settings import SettingsError, TopicSettings
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.errors import TopicExists, VersionConflict
from kafka_classic.zk.topics import TopicInfo

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

T: Any = create_topics_response
D: Any = delete_topics_response
P: Any = create_partitions_response

NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = 10_000
Assignment = dict[int, list[int]]


def spread(partitions: Iterable[int], brokers: Iterable[int], first: int) -> Assignment:
    """One replica a partition, round robin over the brokers from the `first`-th on."""
    ids = sorted(brokers)
    return {index: [ids[(first + n) % len(ids)]] for n, index in enumerate(partitions)}


class Topics:
    """Creates, grows and deletes topics for this broker's clients."""

    def __init__(self, broker: Broker, pick: Callable[[int], int] = random.randrange) -> None:
        self._broker = broker
        self._pick = pick

    @staticmethod
    def valid_name(name: str) -> bool:
        return NAME.fullmatch(name) is not None and name not in (".", "..")

    def create_default(self, name: str, wait_s: float) -> None:
        """Create a topic because a client asked for it by name; one that another broker just made is as good."""
        try:
            self.create(name, self._assignment(name, -1, -1, {}), {}, wait_s)
        except KafkaError as error:
            if error.code is not Error.topic_already_exists:
                raise

    def create(self, name: str, assignment: Assignment, configs: dict[str, str], wait_s: float) -> uuid.UUID:
        """Write the topic into the registry and wait until this broker sees it and holds what is its own."""
        broker = self._broker
        topic_id = uuid.uuid4()
        try:
            broker.topic_registry.create(name, assignment, configs, topic_id)
        except TopicExists:
            raise KafkaError(Error.topic_already_exists, f"topic {name} exists already") from None
        mine = [index for index, replicas in assignment.items() if broker.settings.broker_id in replicas]

        def there() -> bool:
            return name in broker.view.topics and all(broker.hosted.find(name, i)[0] for i in mine)

        broker.view.wait_until(there, wait_s)
        return topic_id

    def plan(self, topic: CreatableTopic) -> tuple[Assignment, dict[str, str]]:
        """Check a request to create one topic; returns what to write."""
        if not self.valid_name(topic.name):
            raise KafkaError(Error.invalid_topic_exception)
        if topic.name in self._broker.view.topics:
            raise KafkaError(Error.topic_already_exists, f"topic {topic.name} exists already")
        manual: Assignment = {row.partition_index: list(row.broker_ids) for row in topic.assignments}
        configs = {}
        for row in topic.configs:
            if row.value is None:
                raise KafkaError(Error.invalid_config, f"{row.name} has no value")
            configs[row.name] = row.value
        try:
            TopicSettings.load(self._broker.settings, configs)
        except SettingsError as error:
            raise KafkaError(Error.invalid_config, str(error)) from None
        return self._assignment(topic.name, topic.num_partitions, topic.replication_factor, manual), configs

    def _assignment(self, name: str, partitions: int, factor: int, manual: Assignment) -> Assignment:
        settings, live = self._broker.settings, self._broker.view.brokers
        if not self.valid_name(name):
            raise KafkaError(Error.invalid_topic_exception)
        same = name.replace(".", "_")
        for other in self._broker.view.topics:
            if other != name and other.replace(".", "_") == same:
                raise KafkaError(Error.invalid_topic_exception, f"{name} and the topic {other} differ only in . and _")
        if manual:
            if partitions != -1 or factor != -1:
                raise KafkaError(Error.invalid_request, "give an assignment, or counts, not both")
            if sorted(manual) != list(range(len(manual))):
                raise KafkaError(Error.invalid_replica_assignment, "an assignment names partitions 0, 1, … each once")
            for replicas in manual.values():
                self._check_replicas(replicas)
            return manual
        partitions = settings.num_partitions if partitions == -1 else partitions
        factor = settings.default_replication_factor if factor == -1 else factor
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise KafkaError(Error.invalid_partitions, f"partitions must be from 1 to {MOST_PARTITIONS}")
        if factor < 1 or factor > len(live):
            raise KafkaError(
                Error.invalid_replication_factor, f"factor {factor} with {len(live)} live brokers; ask for factor 1"
            )
        if factor > 1:
            raise KafkaError(
                Error.invalid_replication_factor, "one replica a partition is kept in this release; ask for factor 1"
            )
        return spread(range(partitions), live, self._pick(len(live)))

    def _check_replicas(self, replicas: list[int]) -> None:
        if len(replicas) != 1 or replicas[0] not in self._broker.view.brokers:
            raise KafkaError(
                Error.invalid_replica_assignment, "each partition needs one replica, on a live broker, in this release"
            )

    def grow(self, topic: CreatePartitionsTopic, validate_only: bool, wait_s: float) -> None:
        broker = self._broker
        info = broker.view.topics.get(topic.name)
        if info is None:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {topic.name}")
        have = len(info.assignment)
        if topic.count <= have or topic.count > MOST_PARTITIONS:
            raise KafkaError(Error.invalid_partitions, f"{topic.name} has {have} partitions, and they may only grow")
        fresh = range(have, topic.count)
        if topic.assignments is not None:
            if len(topic.assignments) != len(fresh):
                raise KafkaError(Error.invalid_replica_assignment, f"{len(fresh)} partitions are added")
            added: Assignment = {
                index: list(row.broker_ids) for index, row in zip(fresh, topic.assignments, strict=True)
            }
            for replicas in added.values():
                self._check_replicas(replicas)
        else:
            added = spread(fresh, broker.view.brokers, self._pick(len(broker.view.brokers)))
        if validate_only:
            return
        try:
            broker.topic_registry.add_partitions(topic.name, added, info.version)
        except VersionConflict:
            raise KafkaError(Error.reassignment_in_progress, f"{topic.name} changed meanwhile; try again") from None
        mine = [index for index, replicas in added.items() if broker.settings.broker_id in replicas]

        def there() -> bool:
            now = broker.view.topics.get(topic.name)
            grown = now is not None and len(now.assignment) >= topic.count
            return grown and all(broker.hosted.find(topic.name, i)[0] for i in mine)

        broker.view.wait_until(there, wait_s)

    def delete(self, info: TopicInfo, wait_s: float) -> None:
        broker = self._broker
        if not broker.settings.delete_topic_enable:
            raise KafkaError(Error.topic_deletion_disabled)
        if not broker.topic_registry.delete(info.name):
            raise KafkaError(Error.unknown_topic_or_partition)

        def away() -> bool:
            now = broker.view.topics.get(info.name)
            return now is None or now.topic_id != info.topic_id

        broker.view.wait_until(away, wait_s)


def create_topics(broker: Broker, connection: Connection, request: CreateTopicsRequest) -> Any:
    names = [topic.name for topic in request.topics]
    results = []
    for topic in request.topics:
        try:
            if names.count(topic.name) > 1:
                raise KafkaError(Error.invalid_request, f"topic {topic.name} stands twice in the request")
            assignment, configs = broker.topics.plan(topic)
            topic_id = None
            if not request.validate_only:
                topic_id = broker.topics.create(topic.name, assignment, configs, request.timeout.total_seconds())
            results.append(
                T.CreatableTopicResult(
                    name=topic.name,
                    topic_id=topic_id,
                    error_code=Error.none,
                    error_message=None,
                    num_partitions=len(assignment),
                    replication_factor=len(assignment[0]),
                    configs=tuple(
                        T.CreatableTopicConfigs(
                            name=row.name,
                            value=row.value,
                            read_only=row.read_only,
                            config_source=row.config_source,
                            is_sensitive=False,
                        )
                        for row in broker.configs.topic_rows(configs)
                    ),
                )
            )
        except KafkaError as error:
            results.append(
                T.CreatableTopicResult(
                    name=topic.name,
                    topic_id=None,
                    error_code=error.code,
                    error_message=error.message,
                    configs=None,
                )
            )
    return T.CreateTopicsResponse(throttle_time=NO_TIME, topics=tuple(results))


def delete_topics(broker: Broker, connection: Connection, request: DeleteTopicsRequest) -> Any:
    results = []
    for row in request.topics:
        name: str | None = row.name
        by_id = name is None
        if name is None:
            name = broker.view.names.get(row.topic_id) if row.topic_id is not None else None
        info = broker.view.topics.get(name) if name is not None else None
        code, message = Error.none, None
        if info is None:
            code = Error.unknown_topic_id if by_id else Error.unknown_topic_or_partition
        else:
            try:
                broker.topics.delete(info, request.timeout.total_seconds())
            except KafkaError as error:
                code, message = error.code, error.message
        results.append(
            D.DeletableTopicResult(
                name=name,
                topic_id=info.topic_id if info is not None else row.topic_id,
                error_code=code,
                error_message=message,
            )
        )
    return D.DeleteTopicsResponse(throttle_time=NO_TIME, responses=tuple(results))


def create_partitions(broker: Broker, connection: Connection, request: CreatePartitionsRequest) -> Any:
    results = []
    for topic in request.topics:
        code, message = Error.none, None
        try:
            broker.topics.grow(topic, request.validate_only, request.timeout.total_seconds())
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(P.CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    return P.CreatePartitionsResponse(throttle_time=NO_TIME, results=tuple(results))
