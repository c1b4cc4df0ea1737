"""A cut between the controller and a leader: what is stuck goes on once it is mended, and who waits for it sees why."""

from __future__ import annotations

import uuid

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.controlling import Election, alter_reassignments, elect_leaders
from kafka_classic.testing.checker import Load
from kafka_classic.testing.faults import FaultyCluster
from kafka_classic.testing.waiting import NeverCame


def test_a_leader_that_cannot_hear_that_it_leads_does_so_once_the_cut_is_mended(cluster: FaultyCluster) -> None:
    cluster.until(lambda: cluster.controller() is not None, "a controller")
    controller = cluster.controller()
    assert controller is not None
    old, new = (broker.id for broker in cluster.brokers if broker.id != controller)
    topic = f"cut-off-{uuid.uuid4().hex[:8]}"
    at = (topic, 0)
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(topic, assignment={0: (old, new, controller)})])
        cluster.until_whole([topic], 1)
        load = Load(cluster.bootstrap, topic, 1, idempotent=True, producers=1, consume=False).start()
        try:
            cluster.until(lambda: load.acknowledged > 10, "records")
            cluster.cut(controller, new)
            assert alter_reassignments(client, {at: (new, old, controller)}) == {at: None}
            elect_leaders(client, Election.PREFERRED, [at])  # not needed, if the controller has just done it by itself
            cluster.until(lambda: cluster.leader(*at) == new, f"broker {new} named")
            assert cluster.untold(*at)
            with pytest.raises(NeverCame) as failure:
                cluster.until(lambda: not cluster.untold(*at), "its knowing", timeout=0.5)
            seen = str(failure.value)
            assert str((controller, new)) in seen
            assert f"{topic}-0 on {(new, old, controller)}: leader {new}, epoch 2, in sync" in seen
            assert f"broker {new} was told: leader {old}, epoch 0, in sync" in seen
            cluster.heal()
            cluster.until_whole([topic], 1)
            before = load.acknowledged
            cluster.until(lambda: load.acknowledged > before + 10, "records under the new leader")
        finally:
            load.stop()
