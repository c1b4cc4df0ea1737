"""The load on a Kafka broker, ours or Apache's: a topic of one partition a run, and clients in their own processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.client import Client
from bench.peers.peer import Measured
from bench.peers.processes import disk_bytes

PROGRAM = Path(__file__).resolve().parent / "kafka_client.py"


class KafkaLoad:
    """Clients of one kind against one broker, whose partitions stand in folders below `data`."""

    def __init__(
        self, client: str, bootstrap: str, data: Path, server_cpu: Callable[[], float], zookeeper: str = ""
    ) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._data = data
        self._server_cpu = server_cpu
        self._zookeeper = zookeeper
        self._numbers = count(1)
        self._topics: list[str] = []

    def produce(self, messages: int, size: int, batch: int, warm: int) -> Measured:
        topic = self.topic()
        return self.producer(topic, messages, size, batch, warm).wait()

    def consume(self, messages: int) -> Measured:
        return self.consumer(self._topics[-1], messages).wait()

    def topic(self) -> str:
        """A fresh one."""
        name = f"bench-{next(self._numbers)}"
        admin = self._admin()  # it must outlive what it was asked for
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
        self._topics.append(name)
        return name

    def clear(self) -> None:
        if self._topics:
            admin = self._admin()
            for done in admin.delete_topics(self._topics).values():
                done.result(60)
            self._topics.clear()

    def stored_bytes(self) -> int:
        return sum(disk_bytes(folder) for name in self._topics for folder in self.folders(name))

    def folders(self, topic: str) -> list[Path]:
        return list(self._data.glob(f"{topic}-*"))

    def producer(self, topic: str, messages: int, size: int, batch: int, warm: int = 0) -> Client:
        return self._start("produce", topic, messages, f"--size={size}", f"--batch={batch}", f"--warm={warm}")

    def consumer(self, topic: str, messages: int, start: int = 0, pace: float = 0) -> Client:
        return self._start("consume", topic, messages, f"--start={start}", f"--pace={pace}")

    def _admin(self) -> AdminClient:
        """One for a call or two: one that is kept complains on the terminal when the broker is stopped."""
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 3})

    def _start(self, act: str, topic: str, messages: int, *more: str) -> Client:
        # -P: this folder must not shadow an installed package.
        command = [sys.executable, "-P", str(PROGRAM), act, self._client, self._bootstrap, topic, str(messages), *more]
        if self._zookeeper:
            command.append(f"--zookeeper={self._zookeeper}")
        return Client(command, self._server_cpu)
