"""Brokers together: who leads what, what the others say of one that died, and what happens when ZooKeeper goes away."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.calls import create_topics, init_producer_id, metadata, new_topic, topic_id
from tests.broker.conftest import make_topic
from tests.broker.raw import Raw, batch, fetch, fetch_frame, fetched, produce


def partitions(address: str, topic: str) -> dict[int, Any]:
    with Raw(address) as raw:
        return {int(p.partition_index): p for p in metadata(raw, topic).topics[0].partitions}


def brokers_seen(address: str) -> set[int]:
    with Raw(address) as raw:
        return {int(b.node_id) for b in metadata(raw).brokers}


def whole(cluster: LocalCluster) -> None:
    """Wait until every broker sees every other."""
    ids = {broker.id for broker in cluster.brokers}
    until(lambda: all(brokers_seen(broker.address) == ids for broker in cluster.brokers))


def everywhere(cluster: LocalCluster, topic: str) -> None:
    """Wait until every broker knows the topic."""

    def known(address: str) -> bool:
        with Raw(address) as raw:
            return metadata(raw, topic).topics[0].error_code is Error.none

    until(lambda: all(known(broker.address) for broker in cluster.brokers))


@pytest.fixture
def addresses(three: LocalCluster) -> list[str]:
    return [broker.address for broker in three.brokers]


class TestTogether:
    def test_partitions_are_spread_over_the_brokers(self, three: LocalCluster, addresses: list[str]) -> None:
        topic = make_topic(addresses[1], 9)
        everywhere(three, topic)
        leaders = [int(p.leader_id) for p in partitions(addresses[0], topic).values()]
        assert Counter(leaders) == {0: 3, 1: 3, 2: 3}
        for partition, leader in enumerate(leaders):
            with Raw(addresses[leader]) as raw:
                assert produce(raw, topic, batch(b"%d" % partition), partition=partition) == (0, 0)
        # Topics of one partition do not all begin at the same broker.
        first = {int(partitions(addresses[0], make_topic(addresses[0]))[0].leader_id) for _ in range(20)}
        assert len(first) > 1

    def test_metadata_is_the_same_on_all(self, three: LocalCluster, addresses: list[str]) -> None:
        topic = make_topic(addresses[0], 5)
        everywhere(three, topic)

        def told(address: str) -> Any:
            with Raw(address) as raw:
                answer = metadata(raw)
            return (
                answer.cluster_id,
                int(answer.controller_id),
                sorted((int(b.node_id), b.host, int(b.port)) for b in answer.brokers),
                sorted(
                    (
                        str(t.name),
                        str(t.topic_id),
                        [(p.partition_index, p.leader_id, p.isr_nodes) for p in t.partitions],
                    )
                    for t in answer.topics
                ),
            )

        until(lambda: told(addresses[0]) == told(addresses[1]) == told(addresses[2]))
        assert len(told(addresses[0])[2]) == 3


class TestABrokerDies:
    def test_its_partitions_have_no_leader_until_it_is_back_in_a_new_epoch(
        self, three: LocalCluster, addresses: list[str]
    ) -> None:
        topic = make_topic(addresses[0], assignment=[(0, [0]), (1, [1]), (2, [2])])
        everywhere(three, topic)
        dead = three.brokers[2]
        with Raw(dead.address) as raw:
            assert produce(raw, topic, batch(b"before"), partition=2) == (0, 0)
        epoch = int(partitions(dead.address, topic)[2].leader_epoch)
        dead.kill()
        for address in addresses[:2]:
            until(lambda address=address: brokers_seen(address) == {0, 1})  # type: ignore[misc]
            rows = partitions(address, topic)
            assert (rows[2].error_code, rows[2].leader_id) == (Error.leader_not_available, -1)
            assert (list(rows[2].offline_replicas), list(rows[2].replica_nodes)) == ([2], [2])
            assert [(rows[p].error_code, rows[p].leader_id) for p in (0, 1)] == [(Error.none, 0), (Error.none, 1)]
        for partition in (0, 1):
            with Raw(addresses[partition]) as raw:
                assert produce(raw, topic, batch(b"meanwhile"), partition=partition)[0] == 0
        # No new partitions for a broker that is not there.
        assert {int(p.leader_id) for p in partitions(addresses[0], make_topic(addresses[0], 6)).values()} == {0, 1}
        dead.start()
        three.wait_ready()
        until(lambda: partitions(addresses[0], topic)[2].leader_id == 2)
        assert partitions(dead.address, topic)[2].leader_epoch > epoch
        with Raw(dead.address) as raw:
            assert produce(raw, topic, batch(b"after"), partition=2) == (0, 1)

    def test_a_clean_stop_is_seen_at_once_and_topics_made_meanwhile_are_found(
        self, three: LocalCluster, addresses: list[str]
    ) -> None:
        away = three.brokers[1]
        away.stop()
        until(lambda: brokers_seen(addresses[0]) == {0, 2})
        topic = make_topic(addresses[0], 2)
        away.start()
        three.wait_ready()
        with Raw(away.address) as raw, Raw(addresses[0]) as other:
            assert topic_id(raw, topic) == topic_id(other, topic)

    def test_a_frozen_broker_loses_its_session_and_registers_again(
        self, three: LocalCluster, addresses: list[str]
    ) -> None:
        frozen = three.brokers[1]
        topic = make_topic(addresses[1], assignment=[(0, [1])])
        with Raw(frozen.address) as raw:
            assert produce(raw, topic, batch(b"before"))[0] == 0
            frozen.pause()
            try:
                until(lambda: brokers_seen(addresses[0]) == {0, 2})
            finally:
                frozen.resume()
            whole(three)
            assert produce(raw, topic, batch(b"after")) == (0, 1)  # on the connection it had
            assert metadata(raw, topic).topics[0].partitions[0].leader_id == 1


class TestZooKeeperAway:
    def test_produce_and_fetch_go_on_while_it_stands_still(self, three: LocalCluster, addresses: list[str]) -> None:
        topic = make_topic(addresses[0], assignment=[(0, [0])])
        keeper = three.zookeeper_server
        assert keeper is not None
        with Raw(addresses[0]) as raw, Raw(addresses[0]) as waiting:
            keeper.pause()
            try:
                for number in range(50):
                    assert produce(raw, topic, batch(b"x")) == (0, number)
                waiting.send(fetch_frame(topic, 50, max_wait_ms=300_000))
                assert produce(raw, topic, batch(b"y")) == (0, 50)
                assert fetched(waiting, topic)[:2] == (0, 51)
                assert metadata(raw, topic).topics[0].partitions[0].leader_id == 0
            finally:
                keeper.resume()
            whole(three)
            assert fetch(raw, topic, 0)[1] == 51

    def test_changes_are_answered_in_time_while_it_is_gone_and_done_once_it_is_back(
        self, three: LocalCluster, addresses: list[str]
    ) -> None:
        topic = make_topic(addresses[0], assignment=[(0, [0])])
        keeper = three.zookeeper_server
        assert keeper is not None
        with Raw(addresses[0]) as raw:
            keeper.kill()
            try:
                assert produce(raw, topic, batch(b"x"))[0] == 0
                (late,) = create_topics(raw, new_topic(topic + "-late"), timeout_ms=500)
                assert late.error_code is Error.request_timed_out
                (missing,) = metadata(raw, topic + "-auto", create=True).topics
                assert missing.error_code is Error.leader_not_available
                assert produce(raw, topic, batch(b"y"))[0] == 0
            finally:
                keeper.start()
            whole(three)
            fresh = make_topic(addresses[0], 3)
            everywhere(three, fresh)
            assert int(init_producer_id(raw).producer_id) >= 0
            assert produce(raw, topic, batch(b"z")) == (0, 2)

    def test_a_broker_stops_cleanly_while_it_is_gone(self, three: LocalCluster) -> None:
        keeper = three.zookeeper_server
        stopping = three.brokers[2]
        assert keeper is not None
        keeper.kill()
        try:
            process = stopping.process
            assert process is not None
            assert stopping.stop()
            assert process.exit_code == 0
            assert (stopping.data_dir / ".kafka_cleanshutdown").exists()
        finally:
            keeper.start()
        stopping.start()
        three.wait_ready()
        whole(three)
