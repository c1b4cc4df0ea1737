"""Brokers while ZooKeeper is away, or comes and goes at a bad moment: they answer, they stop, they catch up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_classic.testing.cluster import LocalCluster
from tests.broker.calls import (
    create_topics,
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


def test_a_broker_that_cannot_register_leaves_its_logs_clean(lone: LocalCluster, tmp_path: Any) -> None:
    second = LocalCluster(tmp_path / "second", zookeeper=lone.zookeeper)
    second.dir.mkdir(exist_ok=True)
    second.brokers[0].zookeeper = lone.zookeeper
    with pytest.raises(Exception, match="taken"):
        second.start()
    assert (second.brokers[0].data_dir / ".kafka_cleanshutdown").exists()
