"""The pytest plugin: a real Kafka cluster as a fixture.

    def test_orders_arrive(kafka_bootstrap, kafka_topic):
        producer = KafkaProducer(bootstrap_servers=kafka_bootstrap)
        ...

`kafka_cluster` is the LocalCluster itself, with brokers to kill and pause. It is started when the first test asks for
it and lives as long as the test session. Override `kafka_brokers` (how many) or `kafka_settings` (broker settings by
Kafka's names) in your conftest.py, both session scoped.

Everything else is imported inside the fixtures: a test run that does not use them pays nothing.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafka_classic.testing.cluster import LocalCluster

_NOT_IN_A_TOPIC_NAME = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST = 200


@pytest.fixture(scope="session")
def kafka_brokers() -> int:
    """How many brokers the session's cluster has."""
    return 1


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, str]:
    """The settings of the session's brokers, by Kafka's names."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster(
    tmp_path_factory: pytest.TempPathFactory, kafka_brokers: int, kafka_settings: dict[str, str]
) -> Iterator[LocalCluster]:
    """A cluster of real processes, shared by all tests of the session."""
    from kafka_classic.testing.cluster import LocalCluster

    with LocalCluster(tmp_path_factory.mktemp("kafka"), kafka_brokers, settings=kafka_settings) as cluster:
        yield cluster


@pytest.fixture
def kafka_bootstrap(kafka_cluster: LocalCluster) -> str:
    """The cluster's addresses, for `bootstrap.servers`."""
    return kafka_cluster.bootstrap


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_bootstrap: str) -> str:
    """The name of a topic of one partition that this test alone uses; it exists and is empty."""
    from kafka_classic.client.admin import NewTopic, create_topics
    from kafka_classic.client.cluster import Cluster

    readable = _NOT_IN_A_TOPIC_NAME.sub("-", request.node.name)[:_LONGEST].strip("-.")
    name = f"{readable}-{uuid.uuid4().hex[:8]}"
    with Cluster(kafka_bootstrap) as cluster:
        create_topics(cluster, [NewTopic(name)])
    return name
