"""A real ZooKeeper for the tests of this room: one that all share, and one that may be stopped and paused."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from kafka_classic.zk.handlers import HandlerName
from kafka_classic.zk.server import EmbeddedZooKeeper
from kafka_classic.zk.session import Session


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def fragile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("fragile")) as server:
        yield server


@pytest.fixture
def fragile(fragile_server: EmbeddedZooKeeper) -> Iterator[EmbeddedZooKeeper]:
    """A server to break; it is mended after the test."""
    fragile_server.start()
    yield fragile_server
    fragile_server.resume()
    fragile_server.start()


@pytest.fixture
def hosts(zookeeper: EmbeddedZooKeeper) -> str:
    """The shared server, below a root of this test's own."""
    return f"{zookeeper.hosts}/test-{uuid.uuid4().hex}"


@pytest.fixture(params=["threading", "gevent"])
def handler(request: pytest.FixtureRequest) -> HandlerName:
    name: HandlerName = request.param
    return name


@pytest.fixture
def connect() -> Iterator[Callable[..., Session]]:
    """Makes sessions, and closes them at the end of the test."""
    sessions: list[Session] = []

    def connect(hosts: str, handler: HandlerName = "threading", timeout_s: float = 10.0) -> Session:
        session = Session(hosts, handler=handler, timeout_s=timeout_s)
        sessions.append(session)
        return session.start(30.0)

    yield connect
    for session in sessions:
        session.close()


@pytest.fixture
def session(connect: Callable[..., Session], hosts: str, handler: HandlerName) -> Session:
    return connect(hosts, handler)
