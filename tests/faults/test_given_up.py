"""A broker that ZooKeeper has given up, and that clients still ask: it learns from the others whom to send them to."""

from __future__ import annotations

import uuid

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.faults import ZOOKEEPER, FaultyCluster
from kafka_classic.wire.errors import Error
from tests.broker.calls import metadata
from tests.broker.raw import Raw


def named_by(raw: Raw, topic: str) -> tuple[int, int]:
    """Who leads the topic's partition, and in which epoch, for all that this broker knows."""
    (row,) = metadata(raw, topic).topics[0].partitions
    assert (row.error_code is Error.leader_not_available) == (row.leader_id == -1)
    return row.leader_id, row.leader_epoch


@pytest.mark.parametrize("led", [True, False], ids=["it led the partition", "it led nothing"])
def test_it_names_who_leads_by_now(cluster: FaultyCluster, led: bool) -> None:
    topic = f"given-up-{uuid.uuid4().hex[:8]}"
    old, new, other = 0, 1, 2
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(topic, assignment={0: (old, new, other)})])
    cluster.until_whole([topic], 1)
    given_up = old if led else other
    with Raw(cluster.brokers[given_up].address) as raw:
        assert named_by(raw, topic) == (old, 0)
        cluster.cut(given_up, ZOOKEEPER)
        if not led:
            cluster.kill(old)
        cluster.until(lambda: cluster.leader(topic, 0) not in (old, -1), "another leader")
        cluster.until(lambda: named_by(raw, topic)[0] == cluster.leader(topic, 0), "its naming that one")
        state = cluster.state_of(topic, 0)
        assert state is not None
        assert named_by(raw, topic) == (state.leader, state.leader_epoch)


def test_whom_nobody_can_tell_names_nobody(cluster: FaultyCluster) -> None:
    topic = f"given-up-{uuid.uuid4().hex[:8]}"
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(topic, assignment={0: (0, 1, 2)})])
    cluster.until_whole([topic], 1)
    with Raw(cluster.brokers[0].address) as raw:
        for other in (ZOOKEEPER, 1, 2):
            cluster.cut(0, other)
        cluster.until(lambda: named_by(raw, topic) == (-1, 0), "its naming nobody")
        cluster.heal()
        cluster.until(lambda: named_by(raw, topic)[0] == cluster.leader(topic, 0), "its naming the leader again")


def test_a_controller_that_was_given_up_names_the_next_one(cluster: FaultyCluster) -> None:
    cluster.until(lambda: cluster.controller() is not None, "a controller")
    given_up = cluster.controller()
    assert given_up is not None
    with Raw(cluster.brokers[given_up].address) as raw:
        cluster.until(lambda: metadata(raw).controller_id == given_up, "its naming itself")
        cluster.cut(given_up, ZOOKEEPER)
        cluster.until(lambda: cluster.controller() not in (given_up, None), "another controller")
        cluster.until(lambda: metadata(raw).controller_id == cluster.controller(), "its naming that one")
