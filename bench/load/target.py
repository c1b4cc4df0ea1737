"""What is measured: one broker on a core of its own, or several that share all; their own ZooKeeper and data."""

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
    """What a case needs to know of the broker, the first if there are several; `quick` asks for shorter cases."""

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
        """Of all brokers; ZooKeeper, which has nothing to do with a message, is left out."""
        return Meter(*(broker.pid for broker in self.cluster.brokers if broker.pid is not None))

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
    def topic(self, partitions: int = 1, config: dict[str, str] | None = None, replicas: int = 1) -> Iterator[str]:
        """A fresh topic, deleted afterwards so that the disk does not fill."""
        self._topics += 1
        name = f"bench-{self._topics}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 3})
        topic = NewTopic(name, partitions, replicas, config=config or {})
        admin.create_topics([topic])[name].result(60)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(60)

    def end_offset(self, topic: str, partitions: int = 1) -> int:
        """How many messages may be read: of all partitions together, what every in-sync replica has."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench"})
        try:
            ends = (consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in range(partitions))
            return sum(map(int, ends))
        finally:
            consumer.close()

    def disk_bytes(self, topic: str) -> int:
        """What a topic's segments take on the disks of all brokers."""
        logs = (log for broker in self.cluster.brokers for log in broker.data_dir.glob(f"{topic}-*/*.log"))
        return sum(log.stat().st_size for log in logs)


@contextmanager
def broker(quick: bool, folder: Path | None, nice: int, brokers: int = 1) -> Iterator[Target]:
    """Start ZooKeeper and a broker, or several, in a temporary directory under `folder`; all is gone afterwards."""
    data = Path(tempfile.mkdtemp(prefix="kafka-classic-bench-", dir=folder))
    try:
        with LocalCluster(data, brokers, settings=SETTINGS) as cluster:
            yield Target(cluster, quick, nice)
    finally:
        shutil.rmtree(data, ignore_errors=True)
