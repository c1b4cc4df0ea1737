"""A coordinator that was given up and does not know it: it acknowledges nothing more, its members go to the next."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.groups.placing import partition_of
from kafka_classic.settings import OFFSETS_TOPIC
from kafka_classic.testing.faults import ZOOKEEPER, FaultyCluster
from kafka_classic.wire.errors import Error
from tests.broker.group_calls import (
    beat,
    commit,
    committed,
    coordinator,
    enter,
    fetch_offsets,
    find_coordinator,
    join,
    sync,
)
from tests.broker.raw import Raw
from tests.clients.groups import Writing

OFFSETS_PARTITIONS = 50
PARTITIONS = 3  # each broker leads one, so whoever is cut off leads something that is written to
SENT_AWAY = {Error.coordinator_not_available, Error.not_coordinator}
PATIENT: dict[str, Any] = {"session_ms": 120_000, "rebalance_ms": 300_000}


@pytest.fixture
def topic(cluster: FaultyCluster) -> str:
    name = f"zombie-{uuid.uuid4().hex[:8]}"
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(name, PARTITIONS, 3)])
    cluster.until_whole([name], PARTITIONS)
    return name


@contextmanager
def joining(address: str, group: str) -> Iterator[list[Error]]:
    """Somebody who joins, and waits for the members that are; what it is answered in the end."""
    answered: list[Error] = []

    def ask() -> None:
        with Raw(address, timeout=240) as raw:
            id = join(raw, group, **PATIENT).member_id
            answered.append(join(raw, group, id, **PATIENT).error_code)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    yield answered
    thread.join(240)
    assert not thread.is_alive(), "it waits for ever"


@pytest.mark.parametrize("alone", [False, True], ids=["cut from ZooKeeper", "cut from ZooKeeper and all brokers"])
def test_a_coordinator_that_was_given_up_acknowledges_nothing_and_sends_its_members_on(
    cluster: FaultyCluster, topic: str, alone: bool
) -> None:
    group = f"g-{topic}"
    at = (OFFSETS_TOPIC, partition_of(group, OFFSETS_PARTITIONS))
    with Raw(cluster.bootstrap.split(",")[0]) as raw:
        address = coordinator(raw, group)
    cluster.until_whole([OFFSETS_TOPIC], OFFSETS_PARTITIONS)
    zombie = cluster.leader(*at)
    others = [broker for broker in cluster.brokers if broker.id != zombie]

    def put(raw: Raw, offset: int) -> Error:
        (error,) = commit(raw, group, {(topic, 0): offset}, generation=generation, member=id).values()
        return error

    with Raw(address) as old:
        joined = enter(old, group, **PATIENT)
        id, generation = joined.member_id, joined.generation_id
        assert sync(old, group, id, generation).error_code is Error.none
        assert put(old, 1) is Error.none
        with joining(address, group) as answered:
            cluster.until(lambda: beat(old, group, id, generation) is Error.rebalance_in_progress, "a second one joins")
            cluster.cut(zombie, ZOOKEEPER)
            for broker in others if alone else ():
                cluster.cut(zombie, broker.id)
            # Until another leads, what it acknowledges is in all replicas; from then on it acknowledges nothing.
            acknowledged = sent = 1
            while True:
                deposed = cluster.leader(*at) not in (zombie, -1)
                sent += 1
                refused = put(old, sent)
                assert refused is Error.none or refused in SENT_AWAY, refused
                if refused is Error.none:
                    assert not deposed
                    acknowledged = sent
                elif deposed:
                    break
            last = sent
            cluster.until(lambda: bool(answered), "an answer to the one that waits")
        assert answered[0] in SENT_AWAY
        cluster.until(lambda: beat(old, group, id, generation) in SENT_AWAY, "its member sent on")
        assert sync(old, group, id, generation).error_code in SENT_AWAY
        assert join(old, group, id, **PATIENT).error_code in SENT_AWAY

        def coordinator_elsewhere() -> str:
            for broker in others:
                with Raw(broker.address) as raw:
                    (row,) = find_coordinator(raw, group)
                    if not row.error_code and row.node_id != zombie:
                        return f"{row.host}:{row.port}"
            return ""

        cluster.until(lambda: bool(coordinator_elsewhere()), "a coordinator elsewhere")
        with Raw(coordinator_elsewhere()) as new:
            cluster.until(lambda: beat(new, group, id, generation) is Error.none, "its member known to the next one")
            if alone:
                (found,) = find_coordinator(old, group)
                assert found.error_code is Error.coordinator_not_available
            else:
                cluster.until(
                    lambda: find_coordinator(old, group) == find_coordinator(new, group), "its successor named"
                )
            assert acknowledged <= committed(new, group)[topic, 0] <= last
            assert put(new, 1000) is Error.none
            cluster.heal()
            cluster.until(lambda: beat(old, group, id, generation) is Error.not_coordinator, "the zombie told")
            assert put(old, last + 1) is Error.not_coordinator
            assert committed(new, group) == {(topic, 0): 1000}
            cluster.until_whole([OFFSETS_TOPIC], OFFSETS_PARTITIONS)


def test_a_consumer_that_reaches_a_coordinator_that_was_given_up_reads_and_commits_on(
    cluster: FaultyCluster, topic: str
) -> None:
    group = f"g-{topic}"
    at = (OFFSETS_TOPIC, partition_of(group, OFFSETS_PARTITIONS))
    with Raw(cluster.bootstrap.split(",")[0]) as raw:
        coordinator(raw, group)
    cluster.until_whole([OFFSETS_TOPIC], OFFSETS_PARTITIONS)
    zombie = cluster.leader(*at)
    assert {cluster.leader(topic, index) for index in range(PARTITIONS)} == {0, 1, 2}
    writing = Writing(cluster.bootstrap, topic, PARTITIONS)
    writing.more(99)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 500,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    read: list[tuple[int | None, int | None]] = []

    def has_read_and_committed(count: int) -> bool:
        read.extend((m.partition(), m.offset()) for m in consumer.consume(100, 0.1) if m.error() is None)
        leads = cluster.leader(*at)
        if len(set(read)) < count or leads < 0:
            return False
        with Raw(cluster.brokers[leads].address) as raw:
            error, rows = fetch_offsets(raw, group, {topic: tuple(range(PARTITIONS))})
        return not error and sum(row.committed_offset for row in rows.values()) == count

    try:
        cluster.until(lambda: has_read_and_committed(99), "99 records read and committed")
        cluster.cut(zombie, ZOOKEEPER)
        cluster.until(lambda: cluster.leader(*at) not in (zombie, -1), "another coordinator")
        # One partition's leader was cut off as well, and a producer that asks it is sent on.
        writing.more(99)
        cluster.until(lambda: has_read_and_committed(198), "what came later read, and committed to the other one")
        cluster.heal()
        assert set(read) == {(index, offset) for index in range(PARTITIONS) for offset in range(66)}
    finally:
        consumer.close()
