"""How to lose messages: the same writes with acks 0, 1 and all, unclean election on and off, under three faults.

Every cell is measured on real brokers: so many records were acknowledged, and so many of them are gone. What Kafka's
design admits is lost for certain, because the followers are held back while the records are written:

- *lagging*: the leader dies while followers that count as in sync lack its newest records; one of them leads. What
  only the leader had is lost, unless the producer waited for all.
- *alone*: the followers are out of sync when the leader dies. Nobody may lead until it is back, and nothing is lost;
  or, with unclean election, one of them leads, and what was acknowledged since is lost, for acks=all too
  (min.insync.replicas is 1 here: 2 would have refused these writes).
- *partition*: the leader is cut off from ZooKeeper and its followers, not from its clients. It takes writes while
  another is elected, and drops them when it hears of that.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kafka_classic.testing.checker import read_all
from kafka_classic.testing.faults import ZOOKEEPER, FaultyCluster

ACKS = ("0", "1", "all")
# A follower counts as in sync for this long after it was cut off: long enough to write, short enough to wait for.
SETTINGS = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "6000"}
HEALTHY, AT_RISK = 20, 50
LEADER, FOLLOWERS = 0, (1, 2)
PATIENCE_MS = 4000


class Cell(NamedTuple):
    """One way to write under one fault, and what came of it."""

    fault: str
    acks: str
    unclean: bool
    acknowledged: int
    lost: int


class _Topic:
    """A topic of one partition, led by broker 0, and the producer that writes to it."""

    def __init__(self, cluster: FaultyCluster, acks: str, unclean: bool) -> None:
        from kafka import KafkaProducer

        from kafka_classic.zk.topics import TopicRegistry

        self.cluster, self.acks, self.unclean = cluster, acks, unclean
        self.name = f"acks-{acks}-{uuid.uuid4().hex[:8]}"
        self.acknowledged: set[str] = set()
        configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(unclean).lower()}
        registry = TopicRegistry(cluster.zookeeper_session())
        registry.create(self.name, {0: (LEADER, *FOLLOWERS)}, configs, uuid.uuid4())
        cluster.until_whole([self.name], 1)
        self._sent = 0
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            acks=acks if acks == "all" else int(acks),
            retries=0,
            enable_idempotence=False,
            request_timeout_ms=PATIENCE_MS,
            delivery_timeout_ms=2 * PATIENCE_MS,
        )

    def write(self, count: int) -> None:
        """Send so many records and note which are acknowledged."""
        from kafka.errors import KafkaError

        sending: list[tuple[str, Any]] = []
        for _ in range(count):
            value = f"{self._sent}"
            self._sent += 1
            sending.append((value, self._producer.send(self.name, value.encode(), partition=0)))
        for value, future in sending:
            try:
                future.get(3 * PATIENCE_MS / 1000)
                self.acknowledged.add(value)
            except KafkaError:
                pass  # told that it may not be there

    def close(self) -> None:
        self._producer.close(PATIENCE_MS / 1000)

    def led_by(self, *brokers: int) -> Callable[[], bool]:
        return lambda: self.cluster.leader(self.name, 0) in brokers


def measure(cluster: FaultyCluster, fault: str) -> list[Cell]:
    """Break a whole cluster of three in one way, under all six ways to write at once."""
    topics = [_Topic(cluster, acks, unclean) for acks in ACKS for unclean in (False, True)]
    try:
        _write(topics, HEALTHY)
        FAULTS[fault](cluster, topics)
        cluster.mend()
        cluster.until_whole([topic.name for topic in topics], 1)
        cells = []
        for topic in topics:
            there = set(read_all(cluster.bootstrap, topic.name, 1).values())
            lost = len(topic.acknowledged - there)
            cells.append(Cell(fault, topic.acks, topic.unclean, len(topic.acknowledged), lost))
        return cells
    finally:
        for topic in topics:
            topic.close()


def _write(topics: Iterable[_Topic], count: int) -> None:
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(topic.write, count) for topic in topics]:
            done.result()


def _hold_followers_back(cluster: FaultyCluster) -> None:
    for follower in FOLLOWERS:
        cluster.cut(LEADER, follower)


def _lagging(cluster: FaultyCluster, topics: list[_Topic]) -> None:
    _hold_followers_back(cluster)
    # Those who wait for all would be waited for too long: the followers must still count as in sync when it dies.
    _write([topic for topic in topics if topic.acks != "all"], AT_RISK)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(topic.write, AT_RISK) for topic in topics if topic.acks == "all"]
        cluster.kill(LEADER)
        cluster.heal()
        for topic in topics:
            cluster.until(topic.led_by(*FOLLOWERS), f"a follower leads {topic.name}")
        for one in waiting:
            one.result()


def _alone(cluster: FaultyCluster, topics: list[_Topic]) -> None:
    _hold_followers_back(cluster)
    for topic in topics:
        cluster.until(lambda topic=topic: cluster.in_sync(topic.name, 0) == (LEADER,), "the leader alone")  # type: ignore[misc]
    _write(topics, AT_RISK)
    cluster.kill(LEADER)
    cluster.heal()
    for topic in topics:
        wanted = FOLLOWERS if topic.unclean else (-1,)
        cluster.until(topic.led_by(*wanted), f"{topic.name} is led by one of {wanted}")


def _partition(cluster: FaultyCluster, topics: list[_Topic]) -> None:
    _hold_followers_back(cluster)
    cluster.cut(LEADER, ZOOKEEPER)
    _write(topics, AT_RISK)
    for topic in topics:
        cluster.until(topic.led_by(*FOLLOWERS), f"a follower leads {topic.name}")


FAULTS: dict[str, Callable[[FaultyCluster, list[_Topic]], None]] = {
    "lagging": _lagging,
    "alone": _alone,
    "partition": _partition,
}


def admitted(cell: Cell) -> bool:
    """Whether Kafka's design admits a loss there."""
    if cell.fault == "alone":
        return cell.unclean
    return cell.acks != "all"
