"""A cluster of controllers on a real ZooKeeper; the network between them and the brokers alone is played."""

from collections.abc import Iterator

import pytest

from tests.controller.cluster import Cluster
from tests.zk.conftest import hosts, zookeeper

__all__ = ["cluster", "hosts", "zookeeper"]


@pytest.fixture
def cluster(hosts: str) -> Iterator[Cluster]:
    cluster = Cluster(hosts)
    yield cluster
    cluster.close()
