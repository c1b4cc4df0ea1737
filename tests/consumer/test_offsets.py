"""Offset stores: a group's share of the registry, and two stores while a group moves from one to the other."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

import pytest

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.group_offsets import fetch_offsets
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.consumer import DualOffsets, KafkaOffsets, ZooKeeperOffsets
from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from tests.consumer.memory import MemoryOffsets

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_a_group_sees_its_own_offsets() -> None:
    class Registry:
        def __init__(self) -> None:
            self.groups = {"g": MemoryOffsets(), "h": MemoryOffsets()}

        def fetch(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
            return self.groups[group].fetch(partitions)

        def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
            self.groups[group].commit(offsets)

    registry = Registry()
    ZooKeeperOffsets(registry, "g").commit({A: 5})
    assert ZooKeeperOffsets(registry, "g").fetch([A, B]) == {A: 5}
    assert ZooKeeperOffsets(registry, "h").fetch([A, B]) == {}


def test_both_stores_are_committed_to_and_the_larger_offset_counts() -> None:
    first, second = MemoryOffsets({A: 10, B: 3}), MemoryOffsets({B: 8, C: 1})
    both = DualOffsets(first, second)
    assert both.fetch([A, B, C]) == {A: 10, B: 8, C: 1}
    assert (first.commits, second.commits) == ([], [])  # whoever only asks changes nothing
    assert both.resume([A, B]) == {A: 10, B: 8}  # whoever reads on makes them equal, quiet partitions too
    assert (first.commits, second.commits) == ([{B: 8}], [{A: 10}])
    both.commit({A: 12})
    assert (first.offsets[A], second.offsets[A]) == (12, 12)


class Lease:
    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds


@pytest.fixture
def coordinator(kafka_bootstrap: str, kafka_topic: str) -> Iterator[Coordinator]:
    with Cluster(kafka_bootstrap) as cluster:
        yield Coordinator(cluster, f"offsets-{kafka_topic}")


def test_the_brokers_keep_offsets_of_a_consumer_while_its_lease_lasts(
    coordinator: Coordinator, kafka_topic: str
) -> None:
    at = kafka_topic, 0
    lease = Lease(60.0)
    store = KafkaOffsets(coordinator, lease, 30.0)
    assert store.fetch([at]) == {}
    store.commit({at: 5, ("a-topic-that-is-gone", 0): 1})
    assert store.fetch([at]) == {at: 5}
    lease.until = time.monotonic()
    with pytest.raises(ZooKeeperUnreachable, match="others may own"):
        store.commit({at: 6})
    assert fetch_offsets(coordinator) == {at: 5}


def test_what_zookeeper_refuses_the_brokers_are_not_sent(coordinator: Coordinator, kafka_topic: str) -> None:
    class Expired(MemoryOffsets):
        def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            raise SessionReplaced("expired, on purpose")

    store = DualOffsets(Expired(), KafkaOffsets(coordinator, Lease(60.0), 30.0))
    with pytest.raises(SessionReplaced):
        store.commit({(kafka_topic, 0): 5})
    assert fetch_offsets(coordinator) == {}
