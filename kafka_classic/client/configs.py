"""Settings of topics and brokers: read, set, put back to their defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import Connection
from kafka_classic.client.errors import Refused, UnknownTopic
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError, default_message


class Resource(IntEnum):
    """What a setting belongs to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Source(IntEnum):
    """Where a setting's value comes from, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Setting(NamedTuple):
    """One setting as it is in force; `value` is None for a secret."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


_SET, _DELETE = 0, 1


def describe_configs(
    cluster: Cluster, resource: Resource, name: str, settings: Iterable[str] | None = None
) -> list[Setting]:
    """Return all settings of a topic or a broker (named by its id), or those named, in order of their names."""
    return _describe(cluster, resource, [name], settings)[name]


def describe_topic_configs(
    cluster: Cluster, topics: Iterable[str], settings: Iterable[str] | None = None
) -> dict[str, list[Setting]]:
    """Return the settings of many topics by one request; a topic that is gone by now is left out."""
    names = list(topics)
    return _describe(cluster, Resource.TOPIC, names, settings, skip=Error.unknown_topic_or_partition) if names else {}


def _describe(
    cluster: Cluster,
    resource: Resource,
    names: list[str],
    settings: Iterable[str] | None,
    skip: Error = Error.none,
) -> dict[str, list[Setting]]:
    from kio.schema.describe_configs.v4 import DescribeConfigsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsResource
    from kio.static.primitive import i8

    keys = None if settings is None else tuple(settings)
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=i8(resource), resource_name=name, configuration_keys=keys)
            for name in names
        )
    )
    answer = cluster.call(lambda: _whom_to_ask(cluster, resource, names[0]), Api.DESCRIBE_CONFIGS, request)
    found: dict[str, list[Setting]] = {}
    for result in answer.results:
        if skip and result.error_code == skip:
            continue
        _check(resource, result.resource_name, result.error_code, result.error_message)
        found[result.resource_name] = sorted(
            Setting(config.name, config.value, _source(config.config_source), config.read_only, config.is_sensitive)
            for config in result.configs
        )
    return found


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    name: str,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set settings of a topic or a broker; None puts one back to its default. Those not named stay as they are."""
    from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
    from kio.static.primitive import i8

    request = IncrementalAlterConfigsRequest(
        resources=(
            AlterConfigsResource(
                resource_type=i8(resource),
                resource_name=name,
                configs=tuple(
                    AlterableConfig(name=key, config_operation=i8(_DELETE if value is None else _SET), value=value)
                    for key, value in changes.items()
                ),
            ),
        ),
        validate_only=validate_only,
    )
    answer = cluster.call(lambda: _whom_to_ask(cluster, resource, name), Api.INCREMENTAL_ALTER_CONFIGS, request)
    for result in answer.responses:
        _check(resource, name, result.error_code, result.error_message)


def _whom_to_ask(cluster: Cluster, resource: Resource, name: str) -> Connection:
    """Only a broker itself knows its own settings; a topic's are known to all."""
    if resource is Resource.BROKER and name:
        if not name.isdecimal():
            raise KafkaError(Error.invalid_request, f"{name!r} is not a broker's id: give its number, as in 0")
        return cluster.connection(int(name))
    return cluster.any()


def _source(number: int) -> Source:
    try:
        return Source(number)
    except ValueError:
        return Source.UNKNOWN


def _check(resource: Resource, name: str, code: int, message: str | None) -> None:
    if not code:
        return
    text = f"{resource.name.lower()} {name!r}: {message or default_message(KafkaError(code).code)}"
    if code == Error.unknown_topic_or_partition:
        raise UnknownTopic(code, f"there is no topic {name!r}: `kafka-classic topics list` shows all")
    raise Refused(code, text)
