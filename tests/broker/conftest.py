"""Clusters that the tests of the broker share: one to ask, one to restart, three brokers to break."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from kafka_classic.testing.cluster import LocalCluster
from tests.broker.calls import create_topics, new_topic
from tests.broker.raw import Raw

MakeTopic = Callable[..., str]


@pytest.fixture
def address(kafka_cluster: LocalCluster) -> str:
    """The session's broker, which no test may stop."""
    return kafka_cluster.brokers[0].address


@pytest.fixture
def raw(address: str) -> Iterator[Raw]:
    """A connection to the session's broker."""
    with Raw(address) as connection:
        yield connection


def make_topic(address: str, partitions: int = 1, **more: object) -> str:
    """Create a topic of its own for a test; returns its name."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Raw(address) as connection:
        (made,) = create_topics(connection, new_topic(name, partitions, **more))  # type: ignore[arg-type]
    assert not made.error_code, made.error_message
    return name


@pytest.fixture
def topic_with(address: str) -> MakeTopic:
    """`topic_with(partitions, configs={...})` creates a topic on the session's broker."""
    return lambda partitions=1, **more: make_topic(address, partitions, **more)


def mended(cluster: LocalCluster) -> LocalCluster:
    """A shared cluster, whole again whatever the test before left of it: its failure is not the next one's."""
    keeper = cluster.zookeeper_server
    assert keeper is not None
    broken = not keeper.alive() or not all(broker.alive() for broker in cluster.brokers)
    if not keeper.alive():
        keeper.start()
    for broker in cluster.brokers:
        if broker.alive():
            broker.resume()
        else:
            broker.kill()
            broker.start()
    if broken:
        cluster.wait_ready()
    return cluster


@pytest.fixture(scope="session")
def restartable_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {
        "log.retention.check.interval.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "100",
        "auto.create.topics.enable": "false",
        "zookeeper.session.timeout.ms": "2000",
    }
    with LocalCluster(tmp_path_factory.mktemp("restartable"), settings=settings) as cluster:
        yield cluster


@pytest.fixture
def restartable(restartable_cluster: LocalCluster) -> LocalCluster:
    """One broker that tests may stop and kill."""
    return mended(restartable_cluster)


@pytest.fixture(scope="session")
def cluster_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {
        "zookeeper.session.timeout.ms": "2000",
        "num.partitions": "3",
        "auto.leader.rebalance.enable": "false",
        "replica.selector.class": "RackAwareReplicaSelector",
    }
    cluster = LocalCluster(tmp_path_factory.mktemp("three"), 3, settings=settings)
    for broker in cluster.brokers:
        broker.settings["broker.rack"] = f"rack-{broker.id}"
    with cluster:
        yield cluster


@pytest.fixture
def three(cluster_of_three: LocalCluster) -> LocalCluster:
    """Three brokers in three racks with short ZooKeeper sessions, which tests may break."""
    return mended(cluster_of_three)
