"""Ourselves: one broker and its ZooKeeper, loaded by librdkafka or by our own producer and message streams."""

from __future__ import annotations

from pathlib import Path

from bench.load.target import SETTINGS
from bench.peers.kafka import KafkaLoad
from bench.peers.peer import WARM, Measured
from bench.peers.processes import cpu_seconds
from kafka_classic.testing.cluster import LocalCluster


class Classic:
    batches: tuple[int, ...] = (1, 50)
    keeps = True
    settles_s = 0.0  # what is appended is with the file system at once

    def __init__(self, client: str) -> None:
        self.name = f"classic-{client}"
        self.title = "kafka-classic, " + {"own": "its own clients"}.get(client, client)
        self._client = client

    def missing(self) -> str:
        return ""

    def start(self, folder: Path) -> None:
        cluster = self._cluster = LocalCluster(folder, settings=SETTINGS)
        cluster.start(timeout=180)
        broker, zookeeper = cluster.brokers[0], cluster.zookeeper_server
        assert broker.pid is not None
        assert zookeeper is not None
        assert zookeeper.process is not None
        servers = [broker.pid, zookeeper.process.pid]
        self.load = KafkaLoad(
            self._client, cluster.bootstrap, broker.data_dir, lambda: cpu_seconds(servers), cluster.zookeeper
        )

    def stop(self) -> None:
        self._cluster.stop()

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        return self.load.produce(messages, size, batch, warm)

    def consume(self, messages: int) -> Measured:
        return self.load.consume(messages)

    def clear(self) -> None:
        self.load.clear()

    def stored_bytes(self) -> int:
        return self.load.stored_bytes()
