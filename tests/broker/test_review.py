"""Brokers while ZooKeeper is away, or comes and goes at a bad moment: they answer, they stop, they catch up."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from tests.broker.calls import (
    METADATA,
    change_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    init_producer_id,
    metadata,
    new_topic,
)
from tests.broker.raw import Raw, batch, eventually, produce


@pytest.fixture
def lone(tmp_path: Any) -> Iterator[LocalCluster]:
    """One broker and its ZooKeeper, both a test's own."""
    with LocalCluster(tmp_path / "lone", settings={"zookeeper.session.timeout.ms": "2000"}) as cluster:
        yield cluster


def test_a_broker_stops_cleanly_while_zookeeper_is_away(lone: LocalCluster) -> None:
    broker = lone.brokers[0]
    with Raw(broker.address) as raw:
        create_topics(raw, new_topic("kept"))
        assert produce(raw, "kept", batch(b"before")) == (0, 0)
    assert lone.zookeeper_server is not None
    lone.zookeeper_server.pause()
    try:
        assert broker.stop()
    finally:
        lone.zookeeper_server.resume()
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_a_broker_that_waits_for_zookeeper_at_its_start_can_be_stopped(lone: LocalCluster) -> None:
    broker = lone.brokers[0]
    broker.stop()
    assert lone.zookeeper_server is not None
    lone.zookeeper_server.pause()
    try:
        broker.settings["zookeeper.connection.timeout.ms"] = "600000"
        broker.start()
        eventually(lambda: accepts(broker.address))
        assert broker.stop()
    finally:
        lone.zookeeper_server.resume()


def accepts(address: str) -> bool:
    """Whether a broker listens, though it may not serve yet."""
    try:
        Raw(address).sock.close()
    except OSError:
        return False
    return True


def test_admin_requests_are_answered_in_their_time_while_zookeeper_is_away(lone: LocalCluster) -> None:
    broker = lone.brokers[0]
    assert lone.zookeeper_server is not None
    with Raw(broker.address) as raw:
        create_topics(raw, new_topic("there"))
        lone.zookeeper_server.pause()
        try:
            (made,) = create_topics(raw, new_topic("new"), timeout_ms=300)
            assert made.error_code == Error.request_timed_out
            (gone,) = delete_topics(raw, "there", timeout_ms=300)
            assert gone.error_code == Error.request_timed_out
            assert create_partitions(raw, "there", 2, timeout_ms=300).error_code == Error.request_timed_out
            assert change_configs(raw, "there", ("retention.ms", 0, "1")).error_code == Error.request_timed_out
            assert init_producer_id(raw).error_code == Error.coordinator_load_in_progress
            found = metadata(raw, "there", "newer", create=True).topics
            assert [t.error_code for t in found] == [Error.none, Error.leader_not_available]
            assert produce(raw, "there", batch(b"still")) == (0, 0)
        finally:
            lone.zookeeper_server.resume()
        eventually(lambda: not init_producer_id(raw).error_code)
        eventually(lambda: not metadata(raw, "newest", create=True).topics[0].error_code)


def test_settings_changed_by_many_at_once_are_all_kept(address: str, kafka_topic: str) -> None:
    changes = [
        ("retention.ms", "1000000"),
        ("segment.ms", "2000000"),
        ("max.message.bytes", "3000000"),
        ("flush.messages", "4000000"),
        ("segment.bytes", "5000000"),
        ("index.interval.bytes", "6000000"),
    ]
    with ExitStack() as stack:
        raws = [stack.enter_context(Raw(address)) for _ in changes]
        with ThreadPoolExecutor(len(changes)) as threads:
            done = threads.map(
                lambda raw, change: change_configs(raw, kafka_topic, (change[0], 0, change[1])), raws, changes
            )
            assert not any(row.error_code for row in done)
        rows = {row.name: row.value for row in describe_configs(raws[0], kafka_topic).configs}
    assert {name: rows[name] for name, _ in changes} == dict(changes)


def test_a_hundred_clients_that_ask_for_one_new_topic_all_get_the_same(address: str) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        raws = [stack.enter_context(Raw(address)) for _ in range(100)]
        for raw in raws:
            raw.send(write_request(Api.METADATA, 12, 7, "raw", wanted(name)))
        ids = set()
        for raw in raws:
            _, answer = read_response(Api.METADATA, 12, raw.frame())
            assert not answer.topics[0].error_code
            ids.add(answer.topics[0].topic_id)
    assert len(ids) == 1


def wanted(*names: str) -> Any:
    return METADATA.MetadataRequest(
        topics=tuple(METADATA.MetadataRequestTopic(topic_id=None, name=name) for name in names),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
