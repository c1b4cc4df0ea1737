"""Groups of consumer processes that come, go, die, hang and are cut off: every record is read, by one at a time."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_classic.client.admin import NewTopic, create_partitions, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.group_offsets import fetch_offsets
from kafka_classic.client.simple import produce
from kafka_classic.client.writer import Acknowledged, Writer
from kafka_classic.consumer import ConsumerConnector
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.group import LocalGroup, Member
from kafka_classic.testing.proxy import ZOOKEEPER, Network
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session

SESSION_MS = 3000


class Load:
    """Writes records to all partitions of a topic until told to stop, and knows what it wrote."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._bootstrap = bootstrap
        self._counts = [0] * partitions
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def stop(self) -> dict[int, range]:
        """End the writing; returns the offsets of all that was written."""
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return {partition: range(count) for partition, count in enumerate(self._counts)}

    def _run(self) -> None:
        def acknowledged(share: Acknowledged) -> None:
            self._counts[share.partition] += share.records

        try:
            with (
                Cluster(self._bootstrap) as cluster,
                Writer(cluster, idempotent=True, on_acknowledged=acknowledged) as writer,
            ):
                while not self._ended.wait(0.05):
                    for partition in range(len(self._counts)):
                        writer.write(self._topic, partition, (None, b"x" * 100, (), 0))
                    writer.flush()
        except BaseException as error:
            self._failure = error


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("processes")) as cluster:
        yield cluster


def make_topic(cluster: LocalCluster, name: str, partitions: int) -> str:
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(name, partitions)])
    return name


def settings() -> dict[str, object]:
    return {"zookeeper.session.timeout.ms": SESSION_MS, "auto.commit.interval.ms": 500, "rebalance.backoff.ms": 500}


def test_sixteen_that_start_at_once_share_46_partitions_and_whatever_befalls_them_every_record_is_read_by_one_at_a_time(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = make_topic(cluster, "sixteen", 46)
    network = Network()
    assert cluster.zookeeper_server is not None
    zookeeper = cluster.zookeeper_server
    with (
        LocalGroup(tmp_path, cluster.zookeeper, "sixteen", topic, settings()) as group,
        Load(cluster.bootstrap, topic, 46) as load,
    ):

        def through(name: str) -> str:
            return network.proxy(ZOOKEEPER, lambda: (zookeeper.host, zookeeper.port), caller=name).address

        group.start(16, through=through)
        group.until_settled(46)

        group.kill(*group.members[3:5])
        group.until_settled(46)

        paused = group.members[0]
        group.pause(paused)
        others = [member for member in group.members if member is not paused]
        group.until_settled(46, among=others)
        group.resume(paused)  # its session is gone, and it does not know yet
        group.until_settled(46)

        group.stop(*group.members[5:8])
        group.start(2, streams=2, through=through)
        group.until(lambda: len(group.owners()) == 46, "an owner for each partition")

        cut = group.members[1]
        network.cut(cut.name, ZOOKEEPER)
        group.until(lambda: owns_nothing(group, cut) and len(group.owners()) == 46, "its partitions with others")
        network.heal()
        group.until(lambda: not owns_nothing(group, cut) and len(group.owners()) == 46, "it has its share again")

        written = load.stop()
        group.until_read(written)
        group.stop(*group.members)
        verdict = group.judge(written)
        assert verdict.clean, str(verdict)
    network.close()


def test_a_group_that_keeps_its_offsets_in_the_brokers_misses_nothing_when_consumers_and_coordinator_die(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = make_topic(cluster, "kept", 12)
    stored = {"offsets.storage": "kafka", "dual.commit.enabled": False}
    with (
        LocalGroup(tmp_path, cluster.zookeeper, "kept", topic, {**settings(), **stored}) as group,
        Load(cluster.bootstrap, topic, 12) as load,
    ):
        group.start(4)
        group.until_settled(12)
        group.kill(group.members[1])
        paused = group.members[0]
        group.pause(paused)
        group.until_settled(12, among=group.members[1:])
        group.resume(paused)  # it may commit nothing more of what it had
        group.until_settled(12)
        cluster.brokers[0].kill()  # the coordinator, and all else
        cluster.brokers[0].start()
        cluster.brokers[0].wait_ready(60)
        group.stop(group.members[1])
        group.start(1)
        group.until_settled(12)
        written = load.stop()
        group.until_read(written)
        group.stop(*group.members)
        verdict = group.judge(written)
        assert verdict.clean, str(verdict)
    with Session(cluster.zookeeper) as session:
        assert OffsetRegistry(session).all("kept") == {}
    with Cluster(cluster.bootstrap) as client:
        kept = fetch_offsets(Coordinator(client, "kept"))
    assert kept == {(topic, partition): len(offsets) for partition, offsets in written.items()}


def owns_nothing(group: LocalGroup, member: Member) -> bool:
    return member.consumer_id not in {owner.rpartition("-")[0] for owner in group.owners().values()}


@pytest.mark.soak
@pytest.mark.parametrize(("members", "partitions"), [(16, 46), (64, 1000)])
def test_a_group_under_random_faults_for_minutes(
    cluster: LocalCluster, tmp_path: Path, members: int, partitions: int
) -> None:
    seed = int(os.environ.get("KAFKA_CLASSIC_FAULT_SEED") or random.randrange(2**32))
    print(f"replay with KAFKA_CLASSIC_FAULT_SEED={seed}")
    rng = random.Random(seed)
    topic = make_topic(cluster, f"soak-{members}", partitions)
    assert cluster.zookeeper_server is not None
    zookeeper = cluster.zookeeper_server
    with (
        Network() as network,
        LocalGroup(tmp_path, cluster.zookeeper, f"soak-{members}", topic, settings()) as group,
        Load(cluster.bootstrap, topic, partitions) as load,
    ):

        def through(name: str) -> str:
            return network.proxy(ZOOKEEPER, lambda: (zookeeper.host, zookeeper.port), caller=name).address

        group.start(members, through=through)
        group.until_settled(partitions, 300)
        for _ in range(20):
            victim = rng.choice(group.members)
            others = [one for one in group.members if one is not victim]
            fault = rng.choice(("kill", "stop", "pause", "cut", "join"))
            before, began = group.costs(), time.monotonic()
            match fault:
                case "kill":
                    group.kill(victim)
                case "stop":
                    group.stop(victim)
                case "pause":
                    group.pause(victim)
                    group.until_settled(partitions, 300, others)
                    group.resume(victim)
                case "cut":
                    network.cut(victim.name, ZOOKEEPER)
                    group.until_settled(partitions, 300, others)
                    network.heal()
                case "join":
                    group.start(rng.randrange(1, 4), through=through)
            group.until_settled(partitions, 300)
            took = time.monotonic() - began
            spent: Counter[str] = Counter()
            for name, costs in group.costs().items():
                spent += costs - before.get(name, Counter())
            print(f"{fault}: settled after {took:.2f} s, {dict(spent)}")
        written = load.stop()
        group.until_read(written, 300)
        group.stop(*group.members)
        verdict = group.judge(written)
        print(verdict)
        assert verdict.clean, str(verdict)


def test_a_broker_that_joins_is_found_by_a_consumer_that_runs(cluster: LocalCluster) -> None:
    topic = make_topic(cluster, "growing", 1)
    values = {b"0"}
    with (
        ConsumerConnector(cluster.zookeeper, "growing", {"auto.offset.reset": "smallest"}) as connector,
        Cluster(cluster.bootstrap) as client,
    ):
        [stream] = connector.create_message_streams({topic: 1})[topic]
        stream.timeout = 60.0
        produce(client, topic, 0, [(None, b"0", (), 0)])
        assert next(stream).value == b"0"
        new = cluster.add_broker()
        create_partitions(client, {topic: 6})
        led = [partition for partition in range(1, 6) if client.leader(topic, partition) == new.id]
        assert led
        for partition in range(1, 6):
            values.add(b"%d" % partition)
            produce(client, topic, partition, [(None, b"%d" % partition, (), 0)])
        assert {next(stream).value for _ in range(5)} == values - {b"0"}
        assert ("127.0.0.1", int(new.address.rpartition(":")[2])) in connector._cluster._bootstrap
