"""Groups of other people's clients: they share a topic whoever comes, goes, dies or hangs, and nothing is missed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.group_calls import find_coordinator
from tests.broker.raw import Raw
from tests.clients.conftest import create
from tests.clients.groups import (
    LONG_S,
    ClientGroup,
    Writing,
    assert_no_generation_gives_a_partition_to_two,
    generations,
)
from tests.clients.parties import need_kcat
from tests.clients.with_librdkafka import admin_module, admin_of

KINDS = ("librdkafka", "kafka-python", "aiokafka")
SETTINGS = {"group.min.session.timeout.ms": "1000", "auto.create.topics.enable": "false"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("groups"), settings=SETTINGS) as cluster:
        yield cluster


def fresh(cluster: LocalCluster, partitions: int) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    create(cluster.bootstrap, name, partitions, None)
    return name


@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.soak)])
def test_three_kinds_of_clients_share_a_topic_whoever_comes_goes_dies_or_hangs(
    shared: LocalCluster, tmp_path: Path, assignor: str
) -> None:
    partitions = 12
    topic = fresh(shared, partitions)
    writing = Writing(shared.bootstrap, topic, partitions)
    with ClientGroup(tmp_path, shared.bootstrap, f"g-{topic}", topic, assignor=assignor) as group:
        writing.more(1000)
        first = [group.start(kind) for kind in KINDS]
        group.until_settled(partitions)
        second = group.start("librdkafka")  # one joins
        writing.more(1000)
        group.until_settled(partitions)
        group.stop(first[0])  # one leaves
        group.kill(first[1])  # one dies
        writing.more(1000)
        group.until_settled(partitions)
        second.process.signal(signal.SIGSTOP)  # one hangs, until it is given up
        group.until(lambda: len(group.described()[1]) == 1, "the one that hangs given up")
        writing.more(1000)
        second.process.signal(signal.SIGCONT)
        group.until_settled(partitions)
        group.until_read(writing.written)
        group.until(lambda: group.committed(partitions) == dict(writing.written), "all of it committed")
        group.stop(*list(group.members))
        assert group.judge(writing.written).missed == {}
        assert group.described() == ("EMPTY", {})
        assert_no_generation_gives_a_partition_to_two(group.generations())
        assert group.committed(partitions) == dict(writing.written)


def test_a_coordinator_that_dies_in_the_middle_of_a_rebalance_loses_nothing(tmp_path: Path) -> None:
    partitions = 9
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "2000", "offsets.topic.num.partitions": "6"}
    with LocalCluster(tmp_path / "cluster", 3, settings=settings) as cluster:
        topic = replicated(cluster, partitions)
        writing = Writing(cluster.bootstrap, topic, partitions)
        with ClientGroup(tmp_path, cluster.bootstrap, "g", topic) as group:
            writing.more(900)
            for kind in KINDS:
                group.start(kind)
            group.until_settled(partitions)
            group.until_read(writing.written)
            before = group.committed(partitions)
            group.start("librdkafka")
            group.until(lambda: group.described()[0] != "STABLE" or len(group.described()[1]) == 4, "a rebalance")
            coordinator = coordinator_of(cluster, "g")
            cluster.brokers[coordinator].kill()
            writing.more(900)
            group.until_settled(partitions)
            group.until_read(writing.written)
            group.until(lambda: group.committed(partitions) == dict(writing.written), "all of it committed")
            after = group.committed(partitions)
            assert all(after[n] >= before[n] for n in range(partitions))
            cluster.brokers[coordinator].start()
            cluster.brokers[coordinator].wait_ready(60)
            group.stop(*list(group.members))
            assert group.judge(writing.written).missed == {}
            assert_no_generation_gives_a_partition_to_two(group.generations())
            assert group.committed(partitions) == dict(writing.written)


def replicated(cluster: LocalCluster, partitions: int) -> str:
    admin = admin_of(cluster.bootstrap)
    topic = admin_module.NewTopic("replicated", num_partitions=partitions, replication_factor=3)
    admin.create_topics([topic])["replicated"].result(LONG_S)
    return "replicated"


def coordinator_of(cluster: LocalCluster, group: str) -> int:
    with Raw(cluster.brokers[0].address) as raw:
        return int(find_coordinator(raw, group)[0].node_id)


class InProcess:
    """A librdkafka consumer on a thread, and what it was told to give up."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.owned: set[int] = set()
        self.revoked = 0
        self.assigned = 0
        self.empty_at: list[float] = []
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 200,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _assign(self, _: object, partitions: list[Any]) -> None:
        self.assigned += 1
        self.owned |= {p.partition for p in partitions}

    def _revoke(self, _: object, partitions: list[Any]) -> None:
        self.revoked += len(partitions)
        self.owned -= {p.partition for p in partitions}
        if not self.owned:
            self.empty_at.append(time.monotonic())

    def _run(self) -> None:
        while not self._ended.is_set():
            self._consumer.poll(0.05)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LONG_S)
        self._consumer.close()


def shares(members: list[InProcess], partitions: int) -> bool:
    owned = sorted(p for member in members for p in member.owned)
    return owned == list(range(partitions)) and all(len(m.owned) >= partitions // len(members) for m in members)


def test_cooperative_rebalancing_takes_from_members_only_what_goes_to_others(shared: LocalCluster) -> None:
    partitions = 12
    topic = fresh(shared, partitions)
    revoked: dict[str, int] = {}
    stopped: dict[str, int] = {}
    for assignor in ("range", "cooperative-sticky"):
        made = {"partition.assignment.strategy": assignor}
        members = [InProcess(shared.bootstrap, f"{assignor}-{topic}", topic, **made) for _ in range(3)]
        try:
            until(partial(shares, members, partitions), "three members share")
            for member in members:
                member.revoked, member.empty_at = 0, []
            members.append(InProcess(shared.bootstrap, f"{assignor}-{topic}", topic, **made))
            until(partial(shares, members, partitions), "four members share")
            revoked[assignor] = sum(member.revoked for member in members)
            stopped[assignor] = sum(bool(member.empty_at) for member in members)
        finally:
            for member in members:
                member.close()
    # Eagerly everybody gives up everything; cooperatively three partitions move to the new member, one from each.
    assert (revoked["range"], stopped["range"]) == (partitions, 3)
    assert (revoked["cooperative-sticky"], stopped["cooperative-sticky"]) == (3, 0)


def test_a_static_member_restarts_and_the_others_do_not_notice(shared: LocalCluster) -> None:
    partitions = 6
    topic = fresh(shared, partitions)
    group = f"static-{topic}"

    def start(instance: str) -> InProcess:
        return InProcess(shared.bootstrap, group, topic, **{"group.instance.id": instance})

    members = {name: start(name) for name in ("a", "b", "c")}
    try:
        until(lambda: shares(list(members.values()), partitions), "three members share")
        until(lambda: len({len(m.owned) for m in members.values()}) == 1, "evenly")
        before = list(generations(shared.bootstrap, group))[-1]
        had, others = set(members["b"].owned), [members["a"], members["c"]]
        told = [(m.assigned, m.revoked) for m in others]
        members["b"].close()
        members["b"] = start("b")
        until(lambda: members["b"].owned == had, "the same partitions again")
        after = list(generations(shared.bootstrap, group))[-1]
        assert after.generation == before.generation
        ids = {m.instance_id: m.member_id for m in after.members}
        assert ids.keys() == {"a", "b", "c"}
        assert ids["b"] != {m.instance_id: m.member_id for m in before.members}["b"]
        assert [(m.assigned, m.revoked) for m in others] == told
    finally:
        for member in members.values():
            member.close()


def test_kcat_reads_as_a_group(shared: LocalCluster) -> None:
    need_kcat()
    topic = fresh(shared, 3)
    writing = Writing(shared.bootstrap, topic, 3)
    writing.more(30)
    # -c ends it; the group's name follows -G, then its topics.
    command = ["kcat", "-b", shared.bootstrap, "-G", f"kcat-{topic}", "-c", "30", "-o", "beginning"]
    command += ["-X", "auto.offset.reset=earliest", "-q", "-f", "%p:%o\n", topic]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S)
    assert sorted(found.stdout.split()) == sorted(f"{p}:{o}" for p in range(3) for o in range(10)), found.stderr


@pytest.mark.soak
def test_thirty_members_over_two_hundred_partitions_while_members_and_coordinators_die(tmp_path: Path) -> None:
    seed = int(os.environ.get("KAFKA_CLASSIC_FAULT_SEED") or random.randrange(1 << 32))
    print(f"replay with KAFKA_CLASSIC_FAULT_SEED={seed}")
    choose = random.Random(seed)
    partitions = 200
    settings = {**SETTINGS, "zookeeper.session.timeout.ms": "3000", "min.insync.replicas": "2"}
    with LocalCluster(tmp_path / "cluster", 3, settings=settings) as cluster:
        topic = replicated(cluster, partitions)
        writing = Writing(cluster.bootstrap, topic, partitions)
        with ClientGroup(tmp_path, cluster.bootstrap, "soak", topic, session_ms=15_000) as group:
            for n in range(30):
                group.start(KINDS[n % 3])
            writing.more(20_000)
            group.until_settled(partitions, 300)
            faults = ["kill", "coordinator", "pause", "stop", "coordinator", "join", "kill"]
            choose.shuffle(faults)
            for round, what in enumerate(faults):
                print(f"round {round}: {what}, {len(group.members)} members", flush=True)
                paused = None
                if what == "kill":
                    group.kill(choose.choice(group.members))
                elif what == "stop":
                    group.stop(choose.choice(group.members))
                elif what == "pause":
                    paused = choose.choice(group.members)
                    paused.process.signal(signal.SIGSTOP)
                elif what == "join":
                    group.start(choose.choice(KINDS))
                else:
                    broker = cluster.brokers[coordinator_of_any(cluster, "soak")]
                    broker.kill()
                    writing.more(2_000)
                    broker.start()
                    broker.wait_ready(120)
                writing.more(5_000)
                if paused is not None:
                    expected = len(group.members) - 1
                    group.until(lambda n=expected: len(group.described()[1]) == n, "given up", 300)  # type: ignore[misc]
                    paused.process.signal(signal.SIGCONT)
                group.until_settled(partitions, 300)
            group.until_read(writing.written, 300)
            group.until(lambda: group.committed(partitions) == dict(writing.written), "all committed", 300)
            group.stop(*list(group.members))
            assert group.judge(writing.written).missed == {}
            assert_no_generation_gives_a_partition_to_two(group.generations())


def coordinator_of_any(cluster: LocalCluster, group: str) -> int:
    found = -1
    deadline = time.monotonic() + LONG_S
    while found < 0:
        assert time.monotonic() < deadline
        found = coordinator_of(cluster, group)
    return found
