"""Nothing acknowledged is lost, doubled or moved, and nothing seen vanishes, whatever befalls the cluster meanwhile.

Each schedule runs under producers that repeat (idempotent) and under plain ones that do not, at once.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.checker import Load, diverged, judge
from kafka_classic.testing.faults import FaultyCluster
from tests.faults.schedules import PARTITIONS, SCHEDULES, Scene

BEFORE, AFTER = 150, 150  # acknowledged records of each kind before the fault and after it was mended


@contextmanager
def under_load(cluster: FaultyCluster, seed: int, queued: int = 0) -> Iterator[list[Load]]:
    """Producers of both kinds at work; at the end all that they were told is checked."""
    names = {kind: f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("idempotent", "plain")}
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(name, PARTITIONS, 3, {}) for name in names.values()])
    cluster.until_whole(names.values(), PARTITIONS)
    loads = [
        Load(cluster.bootstrap, name, PARTITIONS, idempotent=kind == "idempotent", queued=queued).start()
        for kind, name in names.items()
    ]
    try:
        more(cluster, loads, BEFORE)
        yield loads
        cluster.mend()
        more(cluster, loads, AFTER)
        cluster.until_whole(names.values(), PARTITIONS)
        for load in loads:
            load.stop()
        check(cluster, loads, seed)
    finally:
        for load in loads:
            load.abandon()


def more(cluster: FaultyCluster, loads: list[Load], count: int) -> None:
    wanted = [load.acknowledged + count for load in loads]
    cluster.until(
        lambda: all(load.acknowledged >= n for load, n in zip(loads, wanted, strict=True)),
        f"{count} more acknowledged records of {[load.topic for load in loads]}",
    )


def check(cluster: FaultyCluster, loads: list[Load], seed: int) -> None:
    folders = [broker.data_dir for broker in cluster.brokers]
    for load in loads:
        verdict = judge(load.history())
        assert verdict.kept, f"{load.topic}, replay with KAFKA_CLASSIC_FAULT_SEED={seed}\n{verdict}"
        assert verdict.acknowledged >= BEFORE + AFTER
        if load.idempotent:
            assert not verdict.unknown, verdict
        cluster.until(
            lambda load=load: not diverged(folders, load.topic, PARTITIONS),  # type: ignore[misc]
            f"replicas of {load.topic} that are equal byte for byte (KAFKA_CLASSIC_FAULT_SEED={seed})",
        )


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_nothing_acknowledged_is_lost(cluster: FaultyCluster, schedule: Callable[[Scene], None], seed: int) -> None:
    rng = random.Random(seed)
    with under_load(cluster, seed) as loads:
        schedule(Scene(cluster, rng.choice(loads).topic, rng))


@pytest.mark.soak
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_nothing_acknowledged_is_lost_by_clients_that_have_more_than_they_may_send(
    cluster: FaultyCluster, schedule: Callable[[Scene], None], seed: int
) -> None:
    """They spin meanwhile, and on two cores servers lose their sessions over it: a fault of its own."""
    rng = random.Random(seed)
    with under_load(cluster, seed, queued=45) as loads:
        schedule(Scene(cluster, rng.choice(loads).topic, rng))


@pytest.mark.soak
@pytest.mark.parametrize("round_", range(20))
def test_one_thing_after_another(cluster: FaultyCluster, seed: int, round_: int) -> None:
    """Ten faults in a row under one load, each as soon as the one before is noticed and mended."""
    rng = random.Random(seed + round_)
    with under_load(cluster, seed + round_) as loads:
        for _ in range(10):
            rng.choice(SCHEDULES)(Scene(cluster, rng.choice(loads).topic, rng))
            cluster.mend()
            more(cluster, loads, rng.randrange(100))
            cluster.until_whole([load.topic for load in loads], PARTITIONS)
