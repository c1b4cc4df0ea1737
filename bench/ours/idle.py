"""An idle cluster, ZooKeeper and three brokers: how soon it serves, what it holds in memory, what it does meanwhile."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.load.measure import Goal, Meter, Sample, lines_of, memory_kb
from bench.load.results import Line
from bench.load.setting import Setting
from kafka_classic.testing.cluster import LocalCluster

BROKERS = 3
GOALS = (
    Goal("start", "s", more_is_better=False),
    Goal("brokers", "MB", more_is_better=False),
    Goal("zookeeper", "MB", more_is_better=False),
    Goal("busy", "% of a core", more_is_better=False),
)


def run(setting: Setting) -> Iterator[Line]:
    seconds = setting.pick(20.0, 2.0)
    found = setting.in_turns(["idle"], lambda _: stand(setting.folder, seconds))["idle"]
    yield from lines_of("idle", "kafka-classic", {"brokers": BROKERS}, GOALS, found)


def stand(folder: Path | None, seconds: float) -> Sample:
    """Start a cluster on an empty disk, let it stand, and weigh it."""
    data = Path(tempfile.mkdtemp(prefix="kafka-classic-bench-", dir=folder))
    try:
        began = time.perf_counter()
        with LocalCluster(data, BROKERS) as cluster:
            took = time.perf_counter() - began
            assert cluster.zookeeper_server is not None
            brokers = [broker.pid for broker in cluster.brokers if broker.pid is not None]
            zookeeper = cluster.zookeeper_server.pid
            assert zookeeper is not None
            with Meter(*brokers, zookeeper) as meter:
                time.sleep(seconds)
            values = {
                "start": took,
                "brokers": sum(memory_kb(pid, "Pss", "smaps_rollup") for pid in brokers) / 1000,
                "zookeeper": memory_kb(zookeeper, "Pss", "smaps_rollup") / 1000,
                "busy": meter.cpu_s / meter.wall_s * 100,
            }
            return Sample(values, meter.cpu_s, meter.wall_s, meter.wall_s, "second")
    finally:
        shutil.rmtree(data, ignore_errors=True)
