"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: topics' settings, and this broker's to read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kio.schema.alter_configs.v2.response as alter_response
import kio.schema.describe_configs.v4.response as describe_response
import kio.schema.incremental_alter_configs.v1.response as incremental_response
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.broker.unhurried import Unhurried
from kafka_classic.settings import BrokerSettings, Kind, Setting, SettingsError, TopicSettings, nearest
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.errors import VersionConflict

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

D: Any = describe_response
A: Any = alter_response
I: Any = incremental_response  # noqa: E741

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
FROM_TOPIC, FROM_FILE, FROM_DEFAULT = 1, 4, 5
CHANGE_S = 10.0  # for ZooKeeper to take a change


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting as DescribeConfigs tells it."""

    setting: Setting
    value: str
    config_source: int
    read_only: bool
    synonyms: tuple[tuple[str, str, int], ...]

    @property
    def name(self) -> str:
        return self.setting.name


class Configs:
    """Reads and changes settings on behalf of clients."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def topic_rows(self, given: dict[str, str]) -> list[ConfigRow]:
        """Every setting of a topic that has `given` set, with where its value comes from."""
        values = TopicSettings.load(self._broker.settings, given)
        rows = []
        for name, known in TopicSettings.TABLE.items():
            text = known.text(getattr(values, name.replace(".", "_")))
            synonyms = [(name, given[name], FROM_TOPIC)] if name in given else []
            if known.synonym:
                synonyms.extend(self._broker_synonyms(known.synonym))
            else:
                synonyms.append((name, known.text(known.default), FROM_DEFAULT))
            source = FROM_TOPIC if name in given else synonyms[0][2]
            rows.append(ConfigRow(known, text, source, False, tuple(synonyms)))
        return rows

    def broker_rows(self) -> list[ConfigRow]:
        rows = []
        for name, known in BrokerSettings.TABLE.items():
            synonyms = self._broker_synonyms(name)
            rows.append(ConfigRow(known, synonyms[0][1], synonyms[0][2], True, tuple(synonyms)))
        return rows

    def _broker_synonyms(self, name: str) -> list[tuple[str, str, int]]:
        known = BrokerSettings.TABLE[name]
        value = getattr(self._broker.settings, name.replace(".", "_"))
        default = (name, known.text(known.default), FROM_DEFAULT)
        return [default] if value == known.default else [(name, known.text(value), FROM_FILE), default]

    def rows_of(self, resource_type: int, resource_name: str) -> list[ConfigRow]:
        if resource_type == TOPIC:
            self._check_topic(resource_name)
            return self.topic_rows(self._broker.hosted.overrides(resource_name))
        if resource_type == BROKER:
            if not resource_name:
                return []  # the defaults of all brokers that were set while they ran, of which there are none
            if resource_name != str(self._broker.settings.broker_id):
                raise KafkaError(Error.invalid_request, f"ask broker {resource_name} itself for its settings")
            return self.broker_rows()
        raise KafkaError(Error.invalid_request, f"resource type {resource_type} is not served")

    def change(
        self, resource_type: int, name: str, operations: Sequence[tuple[str, int, str | None]], fresh: bool, dry: bool
    ) -> None:
        """Apply operations to a topic's settings, over none of them if `fresh`; all or nothing."""
        if resource_type != TOPIC:
            raise KafkaError(Error.invalid_request, "a broker's settings are read at its start: change its file")
        self._check_topic(name)
        registry = self._broker.config_registry
        with Deadline(CHANGE_S).asking():
            while True:
                # As they stand in the registry, lest a change that another client makes just now is undone.
                was = registry.get("topics", name)
                given = self._changed(was.values, operations, fresh)
                if dry:
                    return
                with suppress(VersionConflict):
                    registry.set("topics", name, given, was.version)
                    break
        self._broker.hosted.configure(name, given)

    def _changed(
        self, was: dict[str, str], operations: Sequence[tuple[str, int, str | None]], fresh: bool
    ) -> dict[str, str]:
        """A topic's settings after the operations; one that this release does not know can only be deleted."""
        given = {} if fresh else dict(was)
        for key, operation, value in operations:
            if key not in TopicSettings.TABLE and key not in was:
                raise KafkaError(
                    Error.invalid_config, f"unknown topic setting {key}{nearest(key, TopicSettings.TABLE)}"
                )
            if operation == DELETE:
                given.pop(key, None)
            elif operation == SET and value is not None:
                given[key] = value
            elif operation in (APPEND, SUBTRACT) and value is not None and self._is_list(key):
                given[key] = self._listed(given, key, operation, value)
            else:
                raise KafkaError(Error.invalid_config, f"{key} holds one value: it can be set or deleted")
        try:
            changed = TopicSettings.load(self._broker.settings, given)
        except SettingsError as error:
            raise KafkaError(Error.invalid_config, str(error)) from None
        if changed.classic != (was.get("classic", "false").lower() == "true"):
            raise KafkaError(
                Error.invalid_config, "classic is chosen when a topic is created, as its offsets depend on it"
            )
        return given

    @staticmethod
    def _is_list(key: str) -> bool:
        return key in TopicSettings.TABLE and TopicSettings.TABLE[key].kind is Kind.LIST

    def _listed(self, given: dict[str, str], key: str, operation: int, value: str) -> str:
        """A list that some of `value` is added to, or taken from; what was not set for the topic is the default."""
        known = TopicSettings.TABLE[key]
        default = getattr(self._broker.settings, known.synonym.replace(".", "_")) if known.synonym else known.default
        parts = [part.strip() for part in given.get(key, known.text(default)).split(",")]
        changed = [part.strip() for part in value.split(",")]
        if operation == APPEND:
            return ",".join([*parts, *(part for part in changed if part not in parts)])
        return ",".join(part for part in parts if part not in changed)

    def _check_topic(self, name: str) -> None:
        if not self._broker.topics.valid_name(name):
            raise KafkaError(Error.invalid_topic_exception)
        if name not in self._broker.view.topics:
            raise KafkaError(Error.unknown_topic_or_partition, f"no topic {name}")


def describe_configs(broker: Broker, connection: Connection, request: DescribeConfigsRequest) -> Any:
    results = Unhurried(lambda resource: _described(broker, request, resource), request.resources)
    return D.DescribeConfigsResponse(throttle_time=NO_TIME, results=results)


def _described(broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> Any:
    code, message, rows = Error.none, None, []
    try:
        rows = broker.configs.rows_of(resource.resource_type, resource.resource_name)
    except KafkaError as error:
        code, message = error.code, error.message
    wanted = resource.configuration_keys
    return D.DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            D.DescribeConfigsResourceResult(
                name=row.name,
                value=row.value,
                read_only=row.read_only,
                config_source=row.config_source,
                is_sensitive=False,
                synonyms=tuple(
                    D.DescribeConfigsSynonym(name=name, value=value, source=source)
                    for name, value, source in row.synonyms
                )
                if request.include_synonyms
                else (),
                config_type=int(row.setting.kind),
                documentation=row.setting.doc if request.include_documentation else None,
            )
            for row in rows
            if not wanted or row.name in wanted
        ),
    )


def incremental_alter_configs(broker: Broker, connection: Connection, request: IncrementalAlterConfigsRequest) -> Any:
    rows = []
    for resource in request.resources:
        operations = [(c.name, int(c.config_operation), c.value) for c in resource.configs]
        rows.append(_changed(I, broker, resource, operations, False, request.validate_only))
    return I.IncrementalAlterConfigsResponse(throttle_time=NO_TIME, responses=tuple(rows))


def alter_configs(broker: Broker, connection: Connection, request: AlterConfigsRequest) -> Any:
    rows = []
    for resource in request.resources:
        operations = [(c.name, SET, c.value) for c in resource.configs]
        rows.append(_changed(A, broker, resource, operations, True, request.validate_only))
    return A.AlterConfigsResponse(throttle_time=NO_TIME, responses=tuple(rows))


def _changed(
    made: Any, broker: Broker, resource: Any, operations: list[tuple[str, int, str | None]], fresh: bool, dry: bool
) -> Any:
    code, message = Error.none, None
    try:
        broker.configs.change(resource.resource_type, resource.resource_name, operations, fresh, dry)
    except KafkaError as error:
        code, message = error.code, error.message
    return made.AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
