"""A broker that is told to stop gives its leadership away first: producers see no error beyond one retry."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.faults import FaultyCluster

PARTITIONS = 6
ENOUGH = 60
# Before the one retry: who leads now must have been heard of by the broker that is asked, on a busy machine too.
A_MOMENT_MS = 2000


class Librdkafka:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self.errors: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 1,
                "retry.backoff.ms": A_MOMENT_MS,
                "retry.backoff.max.ms": A_MOMENT_MS,
                "linger.ms": 1,
                "log_level": 0,
            }
        )

    def send(self, number: int) -> None:
        self._producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told)
        self._producer.poll(0.002)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(f"{error}, partition {message.partition()}")

    def end(self) -> None:
        assert not self._producer.flush(60)


class KafkaPython:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = 0
        self.errors: list[str] = []
        self._topic = topic
        self._producer: Any = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            retries=1,
            retry_backoff_ms=A_MOMENT_MS,
            enable_idempotence=False,
            linger_ms=1,
        )

    def send(self, number: int) -> None:
        sending = self._producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
        sending.add_both(self._told)

    def _told(self, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self.errors.append(str(answer))
        else:
            self.acknowledged += 1

    def end(self) -> None:
        self._producer.close(60)


@pytest.fixture
def unhurried(tmp_path: Path) -> Iterator[FaultyCluster]:
    """Sessions as long as Kafka's: on a machine that is busy none may end but by the stop."""
    settings = {"min.insync.replicas": "2", "auto.create.topics.enable": "false"}
    with FaultyCluster(tmp_path, 3, settings) as cluster:
        yield cluster


def leads(cluster: FaultyCluster, topic: str, broker: int) -> bool:
    return any(cluster.leader(topic, index) == broker for index in range(PARTITIONS))


def test_a_rolling_restart_costs_a_producer_one_retry_at_most(unhurried: FaultyCluster) -> None:
    cluster = unhurried
    topic = f"told-to-stop-{uuid.uuid4().hex[:8]}"
    with Cluster(cluster.bootstrap) as admin:
        create_topics(admin, [NewTopic(topic, PARTITIONS, 3, {})])
    cluster.until_whole([topic], PARTITIONS)
    producers: list[Any] = [Librdkafka(cluster.bootstrap, topic), KafkaPython(cluster.bootstrap, topic)]
    sent = 0

    def write() -> int:
        """One record by each; how many the slower one has had acknowledged."""
        nonlocal sent
        for producer in producers:
            producer.send(sent)
        sent += 1
        return int(min(producer.acknowledged + len(producer.errors) for producer in producers))

    def write_more(done: Callable[[], bool] = lambda: True) -> None:
        wanted = write() + ENOUGH
        cluster.until(lambda: write() >= wanted and done(), "records")

    for broker in cluster.brokers:
        write_more()
        cluster.until(partial(leads, cluster, topic, broker.id), "something to lead")
        before = broker.log_path.stat().st_size
        with ThreadPoolExecutor() as pool:
            stopped = pool.submit(broker.stop)
            write_more(stopped.done)
            assert stopped.result()
        assert b"others lead what was led here" in broker.log_path.read_bytes()[before:]
        broker.start()
        cluster.wait_ready()
        cluster.until_whole([topic], PARTITIONS)
    for producer in producers:
        producer.end()
        assert producer.errors == []
        assert producer.acknowledged == sent
