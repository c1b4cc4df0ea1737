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
from pathlib import Path
from typing import Any, NamedTuple

from kafka_classic.testing.checker import plain_producer, read_all
from kafka_classic.testing.faults import ZOOKEEPER, FaultyCluster

ACKS = ("0", "1", "all")
SETTINGS = {"zookeeper.session.timeout.ms": "2000"}
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
        from kafka_classic.zk.topics import TopicRegistry

        self.cluster, self.acks, self.unclean = cluster, acks, unclean
        self.name = f"acks-{acks}-{uuid.uuid4().hex[:8]}"
        self.acknowledged: set[str] = set()
        configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(unclean).lower()}
        registry = TopicRegistry(cluster.zookeeper_session())
        registry.create(self.name, {0: (LEADER, *FOLLOWERS)}, configs, uuid.uuid4())
        cluster.until_whole([self.name], 1)
        self._sent = 0
        self._producer = plain_producer(cluster.bootstrap, acks, PATIENCE_MS)

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

    def read(self) -> set[str]:
        return set(read_all(self.cluster.bootstrap, self.name, 1).values())

    def close(self) -> None:
        self._producer.close(PATIENCE_MS / 1000)

    def taken_over(self) -> None:
        """Wait until a follower leads and knows it: what the old leader still had on its way comes too late then."""
        from kafka_classic.client.admin import LATEST, list_offsets
        from kafka_classic.client.cluster import Cluster

        def knows() -> bool:
            with Cluster(",".join(self.cluster.brokers[id].proxy for id in FOLLOWERS)) as client:
                if client.leader(self.name, 0) not in FOLLOWERS:
                    return False
                return bool(list_offsets(client, {(self.name, 0): LATEST}))

        self.cluster.until(self.led_by(*FOLLOWERS), f"a follower leads {self.name}")
        self.cluster.until(knows, f"a follower knows that it leads {self.name}")

    def led_by(self, *brokers: int) -> Callable[[], bool]:
        return lambda: self.cluster.leader(self.name, 0) in brokers


def measure(dir: Path, fault: str) -> list[Cell]:
    """Break a cluster of three in one way, under all six ways to write at once."""
    # A follower counts as in sync for so long after it was cut off: to write meanwhile, or to wait for the end of it.
    lag = "2000" if fault == "alone" else "60000"
    with FaultyCluster(dir, 3, SETTINGS | {"replica.lag.time.max.ms": lag}) as cluster:
        return _measure(cluster, fault)


def _measure(cluster: FaultyCluster, fault: str) -> list[Cell]:
    topics = [_Topic(cluster, acks, unclean) for acks in ACKS for unclean in (False, True)]
    try:
        _write(topics, HEALTHY)
        for topic in topics:
            # With acks=0 they may still be on their way.
            cluster.until(lambda topic=topic: len(topic.read()) == HEALTHY, f"{HEALTHY} records in {topic.name}")  # type: ignore[misc]
        FAULTS[fault](cluster, topics)
        cluster.mend()
        cluster.until_whole([topic.name for topic in topics], 1)
        cells = []
        for topic in topics:
            lost = len(topic.acknowledged - topic.read())
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
        for topic in topics:
            topic.taken_over()
        for one in waiting:
            one.result()


def _alone(cluster: FaultyCluster, topics: list[_Topic]) -> None:
    _hold_followers_back(cluster)
    for topic in topics:
        cluster.until(lambda topic=topic: cluster.in_sync(topic.name, 0) == (LEADER,), "the leader alone")  # type: ignore[misc]
    _write(topics, AT_RISK)
    cluster.kill(LEADER)
    for topic in topics:
        if topic.unclean:
            topic.taken_over()
        else:
            cluster.until(topic.led_by(-1), f"nobody leads {topic.name}")


def _partition(cluster: FaultyCluster, topics: list[_Topic]) -> None:
    _hold_followers_back(cluster)
    cluster.cut(LEADER, ZOOKEEPER)
    _write(topics, AT_RISK)
    for topic in topics:
        topic.taken_over()


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
