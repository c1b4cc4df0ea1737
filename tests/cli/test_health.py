"""What `status`, `topics describe` and the demo's picture make of a cluster: pure, from metadata to words."""

from __future__ import annotations

from kafka_classic.cli.cluster import replication_settings
from kafka_classic.cli.describe import Described, partition_line
from kafka_classic.cli.failover import bars
from kafka_classic.cli.status import summarise
from kafka_classic.client.controlling import Reassignment
from kafka_classic.client.metadata import Broker, Metadata, Partition, Topic
from kafka_classic.wire.errors import Error


def partition(index: int, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (0, 1, 2)) -> Partition:
    return Partition(index, leader, 4, replicas, isr, (), Error.none)


def cluster(*partitions: Partition, live: tuple[int, ...] = (0, 1, 2), controller: int = 1) -> Metadata:
    brokers = {id: Broker(id, "127.0.0.1", 9092 + id) for id in live}
    return Metadata("c", controller, brokers, {"t": Topic("t", None, partitions)})


def test_a_cluster_with_every_replica_in_sync_is_well() -> None:
    found = summarise(cluster(partition(0, 0, (0, 1, 2)), partition(1, 1, (2, 1, 0))), {"t": 2})
    assert found.troubles() == []
    assert (found.topics, found.partitions, found.controller) == (1, 2, 1)


def test_every_trouble_is_counted_and_its_partitions_are_named() -> None:
    known = cluster(
        partition(0, 0, (0, 1, 2)), partition(1, 0, (0, 1)), partition(2, 0, (0,)), partition(3, -1, (2,)), live=(0, 1)
    )
    found = summarise(known, {"t": 2})
    assert found.brokers_down == (2,)
    assert found.under_replicated_partitions == ("t-1", "t-2", "t-3")
    assert found.under_min_isr_partitions == ("t-2", "t-3")
    assert found.offline_partitions == ("t-3",)
    assert found.troubles() == [
        *("1 broker down", "1 partition offline", "2 partitions under min ISR", "3 partitions under-replicated")
    ]


def test_a_partition_is_not_asked_for_more_in_sync_replicas_than_it_has() -> None:
    assert summarise(cluster(partition(0, 0, (0,), (0,))), {"t": 2}).troubles() == []


def test_a_cluster_without_a_controller_is_not_well() -> None:
    assert summarise(cluster(controller=-1)).troubles() == ["no controller"]


def test_a_leader_that_is_down_is_none_and_a_move_is_told_as_kafka_does() -> None:
    plain = Described(partition(0, 1, (1, 2)), live=True)
    assert partition_line("t", plain) == "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 0,1,2\tIsr: 1,2"
    moving = Described(partition(0, 1, ()), live=False, start=3, move=Reassignment((0, 1, 2), (2,), (0,)))
    assert partition_line("t", moving, offsets=True) == (
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 0,1,2\tIsr: \tAdding Replicas: 2\tRemoving Replicas: 0"
        "\tStartOffset: 3\tEndOffset: unknown"
    )


def test_replication_grows_with_the_brokers_up_to_three() -> None:
    factor, least = "default.replication.factor", "min.insync.replicas"
    assert replication_settings(1) == {}
    assert replication_settings(2) == {factor: "2"}
    assert replication_settings(3) == replication_settings(9) == {factor: "3", least: "2"}


def test_a_gap_in_time_is_a_gap_in_the_picture() -> None:
    times = [0.1, 0.2, 0.3, 1.1]
    assert bars(times, 0.25, {0.6: "killed", 1.01: "leads"}, 10) == [
        f"  0.00 s      20 {'█' * 40}",
        f"  0.25 s      10 {'█' * 20}",
        "  0.50 s       0  ← killed",
        "  0.75 s       0",
        f"  1.00 s      10 {'█' * 20}  ← leads",
    ]
