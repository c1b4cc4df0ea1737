"""What a cluster shares: its id, broker numbers, producer ids."""

import json
import threading
from collections.abc import Callable

from kafka_classic.zk import paths
from kafka_classic.zk.cluster import ClusterRegistry
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Znodes

Connect = Callable[..., Session]


def test_the_cluster_has_one_id_for_all_and_for_ever(session: Session, connect: Connect, hosts: str) -> None:
    first = ClusterRegistry(session).cluster_id()
    assert ClusterRegistry(connect(hosts)).cluster_id() == first
    node = Znodes(session).get("/cluster/id")
    assert node is not None
    assert json.loads(node.data) == {"version": "1", "id": first}
    assert len(first) == 22


def test_brokers_without_an_id_are_numbered_above_the_reserved_ones(session: Session) -> None:
    cluster = ClusterRegistry(session)
    assert [cluster.next_broker_id(), cluster.next_broker_id(), cluster.next_broker_id(5)] == [1001, 1002, 8]


def test_no_producer_id_is_handed_out_twice(connect: Connect, hosts: str) -> None:
    blocks: list[range] = []

    def claim(broker: int) -> None:
        cluster = ClusterRegistry(connect(hosts))
        blocks.extend(cluster.claim_producer_ids(broker) for _ in range(10))

    threads = [threading.Thread(target=claim, args=(broker,)) for broker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(block.start for block in blocks) == [n * 1000 for n in range(40)]
    assert {len(block) for block in blocks} == {1000}


def test_the_block_is_written_as_kafka_writes_it(session: Session) -> None:
    ClusterRegistry(session).claim_producer_ids(7)
    node = Znodes(session).get("/latest_producer_id_block")
    assert node is not None
    assert json.loads(node.data) == {"version": 1, "broker": 7, "block_start": "0", "block_end": "999"}


def test_the_layout_may_be_created_by_every_broker(session: Session) -> None:
    for _ in range(2):
        ClusterRegistry(session).create_layout()
    assert all(Znodes(session).exists(path) for path in paths.TOP_LEVEL)


def test_paths_are_kafkas() -> None:
    assert paths.partition_state("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert paths.owner("g", "t", 3) == "/consumers/g/owners/t/3"
    assert paths.offset("g", "t", 3) == "/consumers/g/offsets/t/3"
    assert paths.consumer_id("g", "c") == "/consumers/g/ids/c"
    assert paths.config("brokers", "<default>") == "/config/brokers/<default>"
