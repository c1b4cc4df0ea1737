"""The broker that is measured: a process of its own on a core of its own, with its own ZooKeeper and data."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.load.machine import BROKER_CORE, on_cores, prefer
from bench.load.measure import Meter
from kafka_classic.testing.cluster import LocalCluster

SETTINGS = {"log.retention.check.interval.ms": "1000"}


class Target:
    """What a case needs to know of the broker; `quick` asks for shorter cases."""

    def __init__(self, cluster: LocalCluster, quick: bool, nice: int) -> None:
        self.quick = quick
        self.nice = nice
        self.cluster = cluster
        self._broker = cluster.brokers[0]
        self._topics = 0

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def address(self) -> tuple[str, int]:
        return self._broker.host, self._broker.port

    @property
    def pid(self) -> int:
        pid = self._broker.pid
        if pid is None:
            raise ProcessLookupError("the broker has ended: " + self._broker.log_path.read_text()[-2000:])
        return pid

    def meter(self) -> Meter:
        return Meter(self.pid)

    def restart(self) -> tuple[float, float]:
        """Stop the broker and start it on its core; returns the seconds until it served, and its processor time."""
        self._broker.stop()
        begin = time.perf_counter()
        with on_cores(BROKER_CORE):
            self._broker.start()
        prefer(self.pid, self.nice)
        self._broker.wait_ready(60)
        return time.perf_counter() - begin, self._broker.cpu_seconds()

    @contextmanager
    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> Iterator[str]:
        """A fresh topic, deleted afterwards so that the disk does not fill."""
        self._topics += 1
        name = f"bench-{self._topics}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 3})
        topic = NewTopic(name, partitions, 1, config=config or {})
        admin.create_topics([topic])[name].result(30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(30)

    def end_offset(self, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
        finally:
            consumer.close()


@contextmanager
def broker(quick: bool, folder: Path | None, nice: int) -> Iterator[Target]:
    """Start ZooKeeper and one broker in a temporary directory under `folder`; all is gone afterwards."""
    data = Path(tempfile.mkdtemp(prefix="kafka-classic-bench-", dir=folder))
    try:
        with LocalCluster(data, settings=SETTINGS) as cluster:
            yield Target(cluster, quick, nice)
    finally:
        shutil.rmtree(data, ignore_errors=True)
