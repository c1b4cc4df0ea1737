"""The brokers of this room: one shared by most tests, one that tests may restart; a fresh topic for each test."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import pytest

from kafka_classic.testing.cluster import LocalCluster
from tests.clients.parties import DEADLINE_S, Party, has_kcat, need_kcat
from tests.clients.with_aiokafka import Aiokafka
from tests.clients.with_kafka_python import KafkaPython
from tests.clients.with_kcat import Kcat
from tests.clients.with_librdkafka import Librdkafka, admin_module, admin_of

PARTIES: tuple[Party, ...] = (Librdkafka(), Kcat(), KafkaPython(), Aiokafka())


def installed() -> list[Party]:
    """The clients that are there: what all read is read by the others where kcat is not installed."""
    return [party for party in PARTIES if party.name != "kcat" or has_kcat()]


class MakeTopic(Protocol):
    """Creates a topic that the test alone uses; returns its name."""

    def __call__(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str: ...


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker, as it comes."""
    with LocalCluster(tmp_path_factory.mktemp("clients")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap


@pytest.fixture(scope="session")
def restarted(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that tests stop, kill and start; it cleans its logs all the time and creates no topic by itself."""
    settings = {
        "auto.create.topics.enable": "false",
        "log.retention.check.interval.ms": "100",
        "zookeeper.session.timeout.ms": "3000",
    }
    with LocalCluster(
        tmp_path_factory.mktemp("restarted"), zookeeper=f"{cluster.zookeeper}/restarted", settings=settings
    ) as restarted:
        yield restarted


def fresh_name(request: pytest.FixtureRequest) -> str:
    """A topic's name that says which test it belongs to."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:150].strip("-.")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


def create(bootstrap: str, name: str, partitions: int, configs: Mapping[str, str] | None) -> None:
    topic = admin_module.NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
    admin = admin_of(bootstrap)  # kept: without a name it would be gone before its answer comes
    admin.create_topics([topic])[name].result(DEADLINE_S)


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, bootstrap: str) -> MakeTopic:
    def make(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = fresh_name(request)
        create(bootstrap, name, partitions, configs)
        return name

    return make


@pytest.fixture
def make_topic_restarted(request: pytest.FixtureRequest, restarted: LocalCluster) -> MakeTopic:
    def make(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = fresh_name(request)
        create(restarted.bootstrap, name, partitions, configs)
        return name

    return make


@pytest.fixture
def unmade_topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic that does not exist."""
    return fresh_name(request)


@pytest.fixture(params=["clean stop", "kill -9"])
def end(request: pytest.FixtureRequest, restarted: LocalCluster) -> Callable[[], object]:
    """Ends the broker that may be restarted, in either way."""
    broker = restarted.brokers[0]
    return broker.stop if request.param == "clean stop" else broker.kill


@pytest.fixture(params=PARTIES, ids=lambda party: party.name)
def party(request: pytest.FixtureRequest) -> Party:
    """Each client in turn."""
    found: Party = request.param
    if found.name == "kcat":
        need_kcat()
    return found


@pytest.fixture(params=PARTIES, ids=lambda party: f"read-by-{party.name}")
def reader(request: pytest.FixtureRequest) -> Party:
    """Each client in turn, once more: for tests where one writes and another reads."""
    found: Party = request.param
    if found.name == "kcat":
        need_kcat()
    return found
