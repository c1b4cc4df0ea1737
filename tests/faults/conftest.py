"""A cluster to break, and the seed by which it is broken: KAFKA_CLASSIC_FAULT_SEED replays a run that failed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from kafka_classic.testing.faults import FaultyCluster

SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "leader.imbalance.check.interval.seconds": "3",
}


@pytest.fixture(scope="session")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("faults"), 3, SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(breakable: FaultyCluster) -> FaultyCluster:
    """Three brokers, whole again whatever the test before left of them."""
    breakable.mend()
    return breakable


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("KAFKA_CLASSIC_FAULT_SEED") or random.randrange(1 << 32))
    print(f"replay with KAFKA_CLASSIC_FAULT_SEED={chosen}")  # pytest shows it with what failed
    return chosen
