"""The way from a command to a cluster, by a broker or by ZooKeeper: one check that it answers, then attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka_classic.cli.failure import CommandFailed

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.zk.session import Session

_DEFAULT_ZOOKEEPER = "127.0.0.1:2181"


@contextmanager
def connect(bootstrap: str, *, connect_timeout: float = 5.0, deadline: float = 15.0) -> Iterator[Cluster]:
    """The cluster behind a bootstrap list, closed at the end; a list with no live broker in it fails at once."""
    from kafka_classic.client.cluster import Cluster

    with Cluster(bootstrap, "kafka-classic-cli", connect_timeout=connect_timeout, deadline=deadline) as cluster:
        # A person at a terminal who mistyped a port should not wait for the attempts that a program makes.
        cluster.any()
        yield cluster


def zookeeper_address(named: str | None) -> str:
    """The ZooKeeper that was named, else that of the cluster in this folder, else the usual one."""
    from kafka_classic.cli.cluster import DEFAULT_DIR
    from kafka_classic.testing.state import read_state

    if named is not None:
        return named
    state = read_state(DEFAULT_DIR)
    return state.zookeeper if state is not None else _DEFAULT_ZOOKEEPER


@contextmanager
def connect_zookeeper(named: str | None, *, timeout: float = 10.0) -> Iterator[Session]:
    """A session with ZooKeeper, closed at the end."""
    from kafka_classic.zk.session import Session

    session = Session(zookeeper_address(named), timeout_s=timeout).start()
    try:
        yield session
    finally:
        session.close()


def brokers_of(session: Session) -> str:
    """The bootstrap list of the brokers that are registered."""
    from kafka_classic.zk.brokers import BrokerRegistry, bootstrap_of

    live = bootstrap_of(BrokerRegistry(session).live())
    if not live:
        raise CommandFailed(
            f"no broker is registered in ZooKeeper at {session.hosts}", "starting one, or another --zookeeper"
        )
    return live
