"""CreateTopics, DeleteTopics and CreatePartitions: checked here, written to ZooKeeper, done by the controller.

Any broker takes them. The answer is given when this broker has heard from the controller that it is done.
"""

from __future__ import annotations

import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kio.schema.create_partitions.v3.response as create_partitions_response
import kio.schema.create_topics.v7.response as create_topics_response
import kio.schema.delete_topics.v6.response as delete_topics_response
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest

from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.controller.assignment import place
from kafka_classic.settings import OFFSETS_TOPIC, BrokerSettings, SettingsError, TopicSettings
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.errors import TopicExists, UnknownTopic, VersionConflict

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

T: Any = create_topics_response
D: Any = delete_topics_response
P: Any = create_partitions_response

NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
MOST_PARTITIONS = 10_000
Assignment = dict[int, tuple[int, ...]]


def offsets_topic_configs(settings: BrokerSettings) -> dict[str, str]:
    """The settings of `__consumer_offsets`: the last word on each key stays, however old it is."""
    return {"cleanup.policy": "compact", "segment.bytes": str(settings.offsets_topic_segment_bytes)}


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
                self.create(name, *self._suited(name), deadline)
                made.append(name)
            except KafkaError as error:
                if error.code is not Error.topic_already_exists:
                    failed[name] = Error.leader_not_available if error.code is Error.request_timed_out else error.code
        view.wait_until(lambda: all(self.is_led(name) or name in failed for name in names), deadline.left)
        return {n: failed.get(n, Error.leader_not_available) for n in names if n not in view.topics}

    def create_offsets_topic(self, deadline: Deadline) -> None:
        """Create the topic that groups are kept in, if nobody else just does; raises KafkaError where it cannot be."""
        try:
            self.create(OFFSETS_TOPIC, *self._suited(OFFSETS_TOPIC), deadline)
        except KafkaError as error:
            if error.code is not Error.topic_already_exists:
                raise
        if not self._broker.view.wait_until(lambda: self.is_led(OFFSETS_TOPIC), deadline.left):
            raise KafkaError(Error.coordinator_not_available, f"{OFFSETS_TOPIC} is being created: try again")

    def _suited(self, name: str) -> tuple[Assignment, dict[str, str]]:
        """How a topic is made that nobody describes: by the defaults, or as the brokers need it if it is theirs."""
        if name != OFFSETS_TOPIC:
            return self._assignment(-1, -1, {}), {}
        settings, live = self._broker.settings, self._broker.view.brokers
        if len(live) < settings.offsets_topic_replication_factor:
            raise KafkaError(
                Error.coordinator_not_available,
                f"{name} needs offsets.topic.replication.factor={settings.offsets_topic_replication_factor} brokers, "
                f"and {len(live)} are alive; start more, or set it lower",
            )
        assignment = self._assignment(
            settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor, {}
        )
        return assignment, offsets_topic_configs(settings)

    def create(self, name: str, assignment: Assignment, configs: dict[str, str], deadline: Deadline) -> uuid.UUID:
        """Write the topic into the registry, where the controller finds it."""
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
        manual: Assignment = {row.partition_index: tuple(row.broker_ids) for row in topic.assignments}
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
            self._check_replicas(manual, len(manual[0]))
            return manual
        partitions = settings.num_partitions if partitions == -1 else partitions
        factor = settings.default_replication_factor if factor == -1 else factor
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise KafkaError(Error.invalid_partitions, f"partitions must be from 1 to {MOST_PARTITIONS}")
        return self._place(partitions, factor, self._pick(max(1, len(live))), self._pick(max(1, len(live))))

    def _place(self, partitions: int, factor: int, start: int, shift: int, first: int = 0) -> Assignment:
        live = self._broker.view.brokers
        if not 1 <= factor <= len(live):
            raise KafkaError(
                Error.invalid_replication_factor,
                f"replication factor {factor}, live brokers {len(live)}; ask for as many at most, and for 1 at least",
            )
        racks = {id: info.rack for id, info in live.items()}
        return place(partitions, factor, racks, start=start, shift=shift, first=first)

    def _check_replicas(self, assignment: Assignment, factor: int) -> None:
        live = self._broker.view.brokers
        for index, replicas in assignment.items():
            if not replicas or len(set(replicas)) < len(replicas):
                raise KafkaError(Error.invalid_replica_assignment, f"partition {index} needs distinct replicas")
            dead = sorted(set(replicas) - live.keys())
            if dead:
                raise KafkaError(Error.invalid_replica_assignment, f"partition {index} names brokers {dead}: not alive")
            if len(replicas) != factor:
                raise KafkaError(
                    Error.invalid_replica_assignment, f"every partition needs {factor} replicas, as the first"
                )

    def is_led(self, name: str, topic_id: uuid.UUID | None = None, size: int = 1) -> bool:
        """Whether this broker knows a leader for every partition of the topic, of which there are `size` or more."""
        topic = self._broker.view.topics.get(name)
        return (
            topic is not None
            and topic_id in (None, topic.topic_id)
            and len(topic.partitions) >= size
            and all(partition.leader >= 0 for partition in topic.partitions.values())
        )

    def grow(self, topic: CreatePartitionsTopic, validate_only: bool, deadline: Deadline) -> None:
        """Write more partitions of a topic into the registry."""
        broker = self._broker
        if topic.name not in broker.view.topics:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {topic.name}")
        if topic.name == OFFSETS_TOPIC:
            raise KafkaError(Error.invalid_partitions, "groups would no longer be found where their offsets are")
        with deadline.asking():
            info = broker.topic_registry.get(topic.name)
        if info is None:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {topic.name}")
        if info.adding or info.removing:
            raise KafkaError(
                Error.reassignment_in_progress, f"{topic.name} is moving to other brokers; try again later"
            )
        have, factor = len(info.assignment), len(info.assignment[0])
        if topic.count <= have or topic.count > MOST_PARTITIONS:
            raise KafkaError(Error.invalid_partitions, f"{topic.name} has {have} partitions, and they may only grow")
        count = topic.count - have
        if topic.assignments is not None:
            if len(topic.assignments) != count:
                raise KafkaError(Error.invalid_replica_assignment, f"{count} partitions are added")
            added: Assignment = {have + n: tuple(row.broker_ids) for n, row in enumerate(topic.assignments)}
            self._check_replicas(added, factor)
        else:
            # As Kafka: from where the first partition is, so that new ones go on round the brokers.
            ids = sorted(broker.view.brokers)
            start = next((at for at, id in enumerate(ids) if id >= info.assignment[0][0]), 0)
            added = self._place(count, factor, start, start, have)
        if validate_only:
            return
        try:
            with deadline.asking():
                broker.topic_registry.add_partitions(topic.name, added, info.version)
        except VersionConflict:
            raise KafkaError(Error.reassignment_in_progress, f"{topic.name} changed meanwhile; try again") from None
        except UnknownTopic:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {topic.name}") from None

    def delete(self, name: str, deadline: Deadline) -> None:
        """Ask the controller to delete the topic."""
        if not self._broker.settings.delete_topic_enable:
            raise KafkaError(Error.topic_deletion_disabled)
        try:
            with deadline.asking():
                TopicDeletions(self._broker.session).request(name)
        except UnknownTopic:
            raise KafkaError(Error.unknown_topic_or_partition) from None


def _in_time(results: list[Any], late: Collection[str], what: str) -> tuple[Any, ...]:
    """The results, of which some are not to be seen yet though they were written."""
    message = f"{what}, but the controller has not said so in time: look before you try again"
    return tuple(
        replace(row, error_code=Error.request_timed_out, error_message=message)
        if row.error_code is Error.none and row.name in late
        else row
        for row in results
    )


def create_topics(broker: Broker, connection: Connection, request: CreateTopicsRequest) -> Any:
    deadline = Deadline(request.timeout.total_seconds())
    times = Counter(topic.name for topic in request.topics)
    made: dict[str, uuid.UUID] = {}
    sizes: dict[str, int] = {}
    results = []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(Error.invalid_request, f"topic {topic.name} stands twice in the request")
            assignment, configs = broker.topics.plan(topic, made)
            topic_id = None
            if not request.validate_only:
                topic_id = made[topic.name] = broker.topics.create(topic.name, assignment, configs, deadline)
                sizes[topic.name] = len(assignment)
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

    def late() -> list[str]:
        return [name for name, id in made.items() if not broker.topics.is_led(name, id, sizes[name])]

    broker.view.wait_until(lambda: not late(), deadline.left)
    return T.CreateTopicsResponse(throttle_time=NO_TIME, topics=_in_time(results, late(), "it is created"))


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
                broker.topics.delete(info.name, deadline)
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

    def late() -> list[str]:
        return [name for name, id in gone.items() if broker.view.id_of(name) == id]

    broker.view.wait_until(lambda: not late(), deadline.left)
    return D.DeleteTopicsResponse(throttle_time=NO_TIME, responses=_in_time(results, late(), "it will be deleted"))


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

    def late() -> list[str]:
        return [name for name, size in grown.items() if broker.view.size_of(name) < size]

    broker.view.wait_until(lambda: not late(), deadline.left)
    return P.CreatePartitionsResponse(throttle_time=NO_TIME, results=_in_time(results, late(), "it has grown"))
