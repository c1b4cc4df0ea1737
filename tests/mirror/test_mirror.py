"""The mirror (P24): everything that one cluster has comes to the other, as it was and in order, whoever dies."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_classic.client.admin import LATEST, NewTopic, create_partitions, create_topics, describe_topics, list_offsets
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.configs import Resource, alter_configs, describe_topic_configs
from kafka_classic.client.simple import beginning, consume, produce
from kafka_classic.mirror import Mirror, MirrorFailed
from kafka_classic.records.decode import Record
from kafka_classic.records.encode import NewRecord
from kafka_classic.settings import SettingsError
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session
from tests.cli.command import CommandLine

LONG_S = 120.0
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("live")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, live: LocalCluster) -> Iterator[LocalCluster]:
    """Another cluster, which has its own corner of the same ZooKeeper."""
    with LocalCluster(tmp_path_factory.mktemp("warehouse"), zookeeper=f"{live.zookeeper}/warehouse") as cluster:
        yield cluster


@pytest.fixture
def source(live: LocalCluster) -> Iterator[Cluster]:
    with Cluster(live.bootstrap) as cluster:
        yield cluster


@pytest.fixture
def target(warehouse: LocalCluster) -> Iterator[Cluster]:
    with Cluster(warehouse.bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(source: Cluster) -> str:
    name = f"page-views-{uuid.uuid4().hex[:8]}"
    create_topics(source, [NewTopic(name, 3, configs={"retention.ms": "86400000000"})])
    return name


def numbered(count: int) -> list[NewRecord]:
    return [(b"k%d" % (n % 7), b"%d" % n, (("n", b"%d" % n),), NOW + n) for n in range(count)]


def held(cluster: Cluster, topic: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for _, partition, record in consume(cluster, beginning(cluster, [topic]), idle=0.5):
        found.setdefault(partition, []).append(record)
    return found


def without_offsets(records: list[Record]) -> list[tuple[object, ...]]:
    return [tuple(record[1:]) for record in records]


def copy(live: LocalCluster, warehouse: LocalCluster, topic: str, count: int, **options: object) -> None:
    """Mirror until so many messages were copied."""
    ended = threading.Event()

    def told(progress: object) -> None:
        if progress[0] >= count:  # type: ignore[index]
            ended.set()

    with Mirror(live.zookeeper, warehouse.bootstrap, topics=[topic], group=f"g-{topic}", **options) as mirror:  # type: ignore[arg-type]
        assert mirror.run(ended, idle_s=LONG_S, told=told).messages >= count


def test_a_message_is_what_it_was_and_where_it_was(
    live: LocalCluster, warehouse: LocalCluster, source: Cluster, target: Cluster, topic: str
) -> None:
    odd: list[NewRecord] = [
        (None, b"", (), NOW),
        (b"k", None, (), NOW + 1),
        (b"", b"v", (("h", None), ("h", b"")), NOW),
    ]
    for partition, records in enumerate(([*numbered(500), *odd], numbered(300), odd)):
        produce(source, topic, partition, records)
    copy(live, warehouse, topic, 806, prefix="live.")
    there = held(target, f"live.{topic}")
    assert {index: without_offsets(of) for index, of in there.items()} == {
        index: without_offsets(of) for index, of in held(source, topic).items()
    }
    (made,) = describe_topics(target, [f"live.{topic}"])
    assert len(made.partitions) == 3
    (settings,) = describe_topic_configs(target, [f"live.{topic}"], ["retention.ms"]).values()
    assert [setting.value for setting in settings] == ["86400000000"]


def test_it_goes_on_where_it_was_and_follows_a_topic_that_grows(
    live: LocalCluster, warehouse: LocalCluster, source: Cluster, target: Cluster, topic: str
) -> None:
    produce(source, topic, 0, numbered(10))
    copy(live, warehouse, topic, 10)
    produce(source, topic, 0, numbered(5))
    create_partitions(source, {topic: 5})
    produce(source, topic, 4, numbered(20))
    copy(live, warehouse, topic, 25)
    assert {index: len(of) for index, of in held(target, topic).items()} == {0: 15, 4: 20}
    assert len(target.topic(topic).partitions) == 5


def test_what_the_target_refuses_stops_it_and_is_not_committed(
    live: LocalCluster, warehouse: LocalCluster, source: Cluster, target: Cluster, topic: str
) -> None:
    create_topics(target, [NewTopic(topic, 3, configs={"max.message.bytes": "1000"})])
    produce(source, topic, 1, numbered(3))
    copy(live, warehouse, topic, 3)
    produce(source, topic, 1, [*numbered(2), (None, b"x" * 2000, (), NOW), *numbered(2)], batch_bytes=1)
    for _ in range(2):  # the next one meets it again
        with pytest.raises(MirrorFailed, match=rf"of partition 1 of '{topic}' was not copied: "):
            copy(live, warehouse, topic, 5, producer={"batch.size": 100})
    alter_configs(target, Resource.TOPIC, topic, {"max.message.bytes": "10000"})
    copy(live, warehouse, topic, 5)
    values = [record.value for record in held(target, topic)[1]]
    assert values[:3] == [b"0", b"1", b"2"]
    assert values[-5:] == [b"0", b"1", b"x" * 2000, b"0", b"1"]


def test_a_cluster_is_not_mirrored_into_itself(live: LocalCluster) -> None:
    with pytest.raises(SettingsError, match="are the same cluster"):
        Mirror(live.zookeeper, live.bootstrap, matching=".*")
    with pytest.raises(SettingsError, match="either the topics to mirror, or a pattern"):
        Mirror(live.zookeeper, live.bootstrap)
    with pytest.raises(SettingsError, match=r"'\(' is no pattern: "):
        Mirror(live.zookeeper, live.bootstrap, matching="(")


def in_order(records: list[Record]) -> tuple[list[bytes | None], int]:
    """What came, each the first time it came, and how many came again."""
    values = [record.value for record in records]
    return list(dict.fromkeys(values)), len(values) - len(set(values))


def test_mirrors_that_are_killed_lose_nothing(
    live: LocalCluster, warehouse: LocalCluster, source: Cluster, target: Cluster, topic: str
) -> None:
    each = 30_000
    create_topics(target, [NewTopic(topic, 3)])
    for partition in range(3):
        produce(source, topic, partition, [(None, b"%d" % n, (), NOW) for n in range(each)], batch_bytes=5_000)
    command = [sys.executable, "-P", "-m", "kafka_classic.cli", "mirror", topic, "--to", warehouse.bootstrap]
    command += [
        "--zookeeper",
        live.zookeeper,
        "--group",
        f"g-{topic}",
        "--consumer",
        "zookeeper.session.timeout.ms=2000",
    ]

    def has_written(wanted: int) -> bool:
        ends = list_offsets(target, {(topic, index): LATEST for index in range(3)})
        return sum(found.offset for found in ends.values()) >= wanted

    for wanted in (1, each, 2 * each):
        mirror = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            until(partial(has_written, wanted), f"{wanted} copies", LONG_S)
        finally:
            mirror.kill()
            mirror.wait()
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as survivor,
        Session(live.zookeeper).start() as session,
    ):
        try:
            committed = partial(OffsetRegistry(session).all, f"g-{topic}")
            everything = {(topic, index): each for index in range(3)}
            until(lambda: committed() == everything, "everything committed", LONG_S)
            survivor.terminate()
            said, _ = survivor.communicate(timeout=LONG_S)
        finally:
            survivor.kill()
    assert survivor.returncode == 0
    assert " messages copied in " in said
    for partition, records in held(target, topic).items():
        first, again = in_order(records)
        assert first == [b"%d" % n for n in range(each)], partition
        assert again < 4 * each


def test_the_command_copies_and_says_how_much(
    live: LocalCluster,
    warehouse: LocalCluster,
    source: Cluster,
    target: Cluster,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = CommandLine(tmp_path, monkeypatch)
    produce(source, topic, 0, numbered(10))
    to = ("--to", warehouse.bootstrap, "--zookeeper", live.zookeeper, "--group", f"g-{topic}", "--idle-timeout", "1")
    said = command("mirror", "--matching", f"{topic[:-1]}.", *to[:-1], "5")
    assert re.search(r"^10 messages copied in .* a second; the last is of 2023-11-14 22:13:20 UTC$", said, re.M)
    assert '"messages":0,' in command("mirror", topic, *to, "--json")
    assert "wants either topics or --matching" in command("mirror", *to, code=1)
    assert "are the same cluster" in command("mirror", topic, "--to", live.bootstrap, *to[2:], code=1)
    assert len(held(target, topic)[0]) == 10
