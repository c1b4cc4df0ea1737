"""Three brokers that replicate, and a stream of messages while they are killed, paused, cut off and restarted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kafka_classic import Producer
from kafka_classic.producer import RecordFuture
from kafka_classic.testing.faults import CLIENT, ZOOKEEPER, FaultyCluster
from tests.producer.reading import new_topic, read

SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}
PARTITIONS = 3
ENOUGH = 300


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("broken"), 3, SETTINGS) as cluster:
        yield cluster


class Stream(threading.Thread):
    """Numbers to each partition, without a pause, until told to stop."""

    def __init__(self, producer: Producer, topic: str) -> None:
        super().__init__()
        self.futures: list[RecordFuture] = []
        self.acknowledged = 0
        self._producer = producer
        self._topic = topic
        self._enough = threading.Event()
        self._room = threading.Semaphore(500)

    def run(self) -> None:
        while not self._enough.is_set():
            self._room.acquire()
            number = len(self.futures)
            future = self._producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
            self.futures.append(future)
            future.add_done_callback(self._count)

    def _count(self, future: RecordFuture) -> None:
        self.acknowledged += future.exception(0) is None
        self._room.release()

    def stop(self) -> None:
        self._enough.set()
        self.join()


def kill(cluster: FaultyCluster, topic: str, leader: int, moved: Callable[[], None]) -> None:
    cluster.kill(leader)
    moved()


def pause(cluster: FaultyCluster, topic: str, leader: int, moved: Callable[[], None]) -> None:
    cluster.pause(leader)
    moved()
    cluster.resume(leader)


def cut_off(cluster: FaultyCluster, topic: str, leader: int, moved: Callable[[], None]) -> None:
    cluster.cut(leader, ZOOKEEPER)
    cluster.cut(leader, CLIENT)
    for other in {0, 1, 2} - {leader}:
        cluster.cut(leader, other)
    moved()
    cluster.heal()


def cut_from_clients(cluster: FaultyCluster, topic: str, leader: int, moved: Callable[[], None]) -> None:
    """Nobody else notices: what was sent must be sent again to the same leader."""
    cluster.cut(leader, CLIENT)
    cluster.network.reset(leader, CLIENT)
    cluster.heal()


def restart_in_turn(cluster: FaultyCluster, topic: str, leader: int, moved: Callable[[], None]) -> None:
    for id in range(3):
        cluster.until_whole([topic], PARTITIONS)
        cluster.restart(id)


@pytest.mark.parametrize("fault", [kill, pause, cut_off, cut_from_clients, restart_in_turn])
def test_everything_is_delivered_once_and_in_order(
    fault: Callable[[FaultyCluster, str, int, Callable[[], None]], None], breakable: FaultyCluster
) -> None:
    breakable.mend()
    topic = new_topic(breakable.bootstrap, PARTITIONS)
    breakable.until_whole([topic], PARTITIONS)
    leader = breakable.leader(topic, 0)
    with Producer(breakable.bootstrap, request_timeout_ms=1000, delivery_timeout_ms=120_000) as producer:
        stream = Stream(producer, topic)

        def more() -> None:
            wanted = stream.acknowledged + ENOUGH
            breakable.until(lambda: stream.acknowledged >= wanted, f"{ENOUGH} more acknowledged")

        def moved() -> None:
            breakable.until(lambda: breakable.leader(topic, 0) not in (leader, -1), "another leader")
            more()

        stream.start()
        try:
            more()
            fault(breakable, topic, leader, moved)
            breakable.mend()
            more()
        finally:
            stream.stop()
        producer.flush(90)
        places = [future.result(0) for future in stream.futures]
    found = read(breakable.bootstrap, topic)
    for partition in range(PARTITIONS):
        sent = [b"%d" % number for number in range(partition, len(places), PARTITIONS)]
        assert [record.value for record in found[partition]] == sent
        assert [place.offset for place in places[partition::PARTITIONS]] == [
            record.offset for record in found[partition]
        ]
