"""CreateTopics, DeleteTopics and CreatePartitions: checked here, written to the registry, done by whom they concern."""

from __future__ import annotations

import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import kio.schema.create_partitions.v3.response as create_partitions_response
import kio.schema.create_topics.v7.response as create_topics_response
import kio.schema.delete_topics.v6.response as delete_topics_response
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.settings import SettingsError, TopicSettings
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.errors import TopicExists, UnknownTopic, VersionConflict
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

    def create_missing(self, names: Collection[str], deadline: Deadline) -> dict[str, Error]:
        """Create topics because a client asked for them by name; returns why for each that is not there in time.

        One that another client or broker just made is as good.
        """
        view = self._broker.view
        failed: dict[str, Error] = {}
        made: list[str] = []
        for name in names:
            if not deadline.left:
                break
            try:
                self._check_name(name, made)
                self.create(name, self._assignment(-1, -1, {}), {}, deadline)
                made.append(name)
            except KafkaError as error:
                if error.code is not Error.topic_already_exists:
                    failed[name] = Error.leader_not_available if error.code is Error.request_timed_out else error.code
        view.wait_until(lambda: all(name in view.topics or name in failed for name in names), deadline.left)
        return {n: failed.get(n, Error.leader_not_available) for n in names if n not in view.topics}

    def create(self, name: str, assignment: Assignment, configs: dict[str, str], deadline: Deadline) -> uuid.UUID:
        """Write the topic into the registry; every broker that holds some of it hears of it there."""
        topic_id = uuid.uuid4()
        try:
            with deadline.asking():
                self._broker.topic_registry.create(name, assignment, configs, topic_id)
        except TopicExists:
            raise KafkaError(Error.topic_already_exists, f"topic {name} exists already") from None
        return topic_id

    def plan(self, topic: CreatableTopic, made: Collection[str]) -> tuple[Assignment, dict[str, str]]:
        """Check a request to create one topic beside those just `made`; returns what to write."""
        self._check_name(topic.name, made)
        if topic.name in self._broker.view.topics:
            raise KafkaError(Error.topic_already_exists, f"topic {topic.name} exists already")
        manual: Assignment = {row.partition_index: list(row.broker_ids) for row in topic.assignments}
        if len(manual) < len(topic.assignments):
            raise KafkaError(Error.invalid_replica_assignment, "an assignment names a partition twice")
        configs = {}
        for row in topic.configs:
            if row.value is None:
                raise KafkaError(Error.invalid_config, f"{row.name} has no value")
            configs[row.name] = row.value
        try:
            TopicSettings.load(self._broker.settings, configs)
        except SettingsError as error:
            raise KafkaError(Error.invalid_config, str(error)) from None
        return self._assignment(topic.num_partitions, topic.replication_factor, manual), configs

    def _check_name(self, name: str, made: Collection[str]) -> None:
        if not self.valid_name(name):
            raise KafkaError(Error.invalid_topic_exception)
        same = name.replace(".", "_")
        for other in (*self._broker.view.topics, *made) if "_" in same else ():
            if other != name and other.replace(".", "_") == same:
                raise KafkaError(Error.invalid_topic_exception, f"{name} and the topic {other} differ only in . and _")

    def _assignment(self, partitions: int, factor: int, manual: Assignment) -> Assignment:
        settings, live = self._broker.settings, self._broker.view.brokers
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
                Error.invalid_replication_factor, f"replication factor {factor}, live brokers {len(live)}; ask for 1"
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

    def grow(self, topic: CreatePartitionsTopic, validate_only: bool, deadline: Deadline) -> None:
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
        elif broker.view.brokers:
            added = spread(fresh, broker.view.brokers, self._pick(len(broker.view.brokers)))
        else:
            raise KafkaError(Error.broker_not_available, "no broker is registered; try again")
        if validate_only:
            return
        try:
            with deadline.asking():
                broker.topic_registry.add_partitions(topic.name, added, info.version)
        except VersionConflict:
            raise KafkaError(Error.reassignment_in_progress, f"{topic.name} changed meanwhile; try again") from None
        except UnknownTopic:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {topic.name}") from None

    def delete(self, info: TopicInfo, deadline: Deadline) -> None:
        if not self._broker.settings.delete_topic_enable:
            raise KafkaError(Error.topic_deletion_disabled)
        with deadline.asking():
            if not self._broker.topic_registry.delete(info.name):
                raise KafkaError(Error.unknown_topic_or_partition)


def create_topics(broker: Broker, connection: Connection, request: CreateTopicsRequest) -> Any:
    deadline = Deadline(request.timeout.total_seconds())
    times = Counter(topic.name for topic in request.topics)
    made: dict[str, uuid.UUID] = {}
    results = []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(Error.invalid_request, f"topic {topic.name} stands twice in the request")
            assignment, configs = broker.topics.plan(topic, made)
            topic_id = None
            if not request.validate_only:
                topic_id = made[topic.name] = broker.topics.create(topic.name, assignment, configs, deadline)
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
    # This broker knows a topic when it holds its own share of it.
    broker.view.wait_until(lambda: all(broker.view.id_of(name) == id for name, id in made.items()), deadline.left)
    return T.CreateTopicsResponse(throttle_time=NO_TIME, topics=tuple(results))


def delete_topics(broker: Broker, connection: Connection, request: DeleteTopicsRequest) -> Any:
    deadline = Deadline(request.timeout.total_seconds())
    gone: dict[str, uuid.UUID] = {}
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
                broker.topics.delete(info, deadline)
                gone[info.name] = info.topic_id
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
    broker.view.wait_until(lambda: all(broker.view.id_of(name) != id for name, id in gone.items()), deadline.left)
    return D.DeleteTopicsResponse(throttle_time=NO_TIME, responses=tuple(results))


def create_partitions(broker: Broker, connection: Connection, request: CreatePartitionsRequest) -> Any:
    deadline = Deadline(request.timeout.total_seconds())
    grown: dict[str, int] = {}
    results = []
    for topic in request.topics:
        code, message = Error.none, None
        try:
            broker.topics.grow(topic, request.validate_only, deadline)
            if not request.validate_only:
                grown[topic.name] = topic.count
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(P.CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message))
    broker.view.wait_until(lambda: all(broker.view.size_of(name) >= n for name, n in grown.items()), deadline.left)
    return P.CreatePartitionsResponse(throttle_time=NO_TIME, results=tuple(results))
