"""Brokers while ZooKeeper is away, or comes and goes at a bad moment: they answer, they stop, they catch up."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.broker.hosted import HostedPartitions
from kafka_classic.broker.offsets import offset_for_leader_epoch
from kafka_classic.broker.unhurried import AT_A_TIME_S, Unhurried
from kafka_classic.log.directory import LogDir
from kafka_classic.replication.fetcher import Fetchers
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import BrokerSettings
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from tests.broker.calls import (
    EPOCH,
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
from tests.broker.raw import Raw, batch, produce


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LocalCluster]:
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
        until(lambda: accepts(broker.address))
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
        until(lambda: not init_producer_id(raw).error_code)
        until(lambda: not metadata(raw, "newest", create=True).topics[0].error_code)


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


LEADS = Leadership(leader=0, leader_epoch=3, isr=(0,), replicas=(0,), version=0)


def hosting(directory: LogDir, settings: BrokerSettings | None = None) -> HostedPartitions:
    """What a broker holds, with nobody to fetch from."""
    settings = settings or BrokerSettings()
    fetchers = Fetchers(settings, lambda _: None, lambda _: None, lambda: None)
    return HostedPartitions(settings, ClusterView("cluster"), directory, fetchers)


def test_a_partition_that_cannot_be_opened_is_told_and_tried_again(tmp_path: Path) -> None:
    """The controller hears of it; when it speaks of it again, it may be possible."""
    directory = LogDir(tmp_path / "data", 0, "cluster")
    hosted = hosting(directory)
    in_the_way = tmp_path / "data" / "t-0"
    in_the_way.write_text("no folder")
    topic_id = uuid.uuid4()
    assert hosted.take("t", topic_id, 0, LEADS, 0.0) is Error.kafka_storage_error
    assert list(hosted) == []
    in_the_way.unlink()
    assert hosted.take("t", topic_id, 0, LEADS, 0.0) is Error.none
    assert hosted.lead("t", 0)[1] is Error.none
    directory.close()


def test_what_the_controller_does_not_name_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    directory = LogDir(tmp_path, 0, "cluster")
    hosted = hosting(directory)
    for index in (0, 1):
        hosted.take("t", uuid.uuid4(), index, LEADS, 0.0)
    hosted.keep_only({("t", 1)})
    assert [(p.topic, p.index) for p in hosted] == [("t", 1)]
    (stray,) = tmp_path.glob("t-0*")
    assert stray.name.endswith("-stray")
    directory.close()


def test_a_long_answer_holds_nobody_up() -> None:
    """What comes from a socket is handled while it is made."""
    ours, theirs = socket.socketpair()
    made: list[int] = []
    heard: list[int] = []
    watcher = gevent.get_hub().loop.io(ours.fileno(), 1)

    def hear() -> None:
        heard.append(len(made))
        watcher.stop()

    watcher.start(hear)
    theirs.send(b"x")

    def make(row: int) -> int:
        until = perf_counter() + 2 * AT_A_TIME_S
        while perf_counter() < until:
            pass
        made.append(row)
        return row

    assert list(Unhurried(make, range(10))) == list(range(10))
    watcher.close()
    ours.close()
    theirs.close()
    assert heard
    assert heard[0] < 10


def test_the_epochs_of_a_log_that_is_offline_are_refused_and_not_hung_up_on(tmp_path: Path) -> None:
    directory = LogDir(tmp_path, 0, "cluster")
    hosted = hosting(directory)
    hosted.take("t", uuid.uuid4(), 0, LEADS, 0.0)
    (partition,) = hosted
    partition.log.close()
    row = EPOCH.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=1)
    request = EPOCH.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(EPOCH.OffsetForLeaderTopic(topic="t", partitions=(row,)),)
    )
    broker: Any = SimpleNamespace(hosted=hosted)
    answer = offset_for_leader_epoch(broker, broker, request)
    assert answer.topics[0].partitions[0].error_code is Error.kafka_storage_error
    directory.close()


def test_a_setting_of_another_release_leaves_the_others_of_its_topic_in_force(tmp_path: Path) -> None:
    """Kafka's own tools may have set it; to go by the defaults would delete what the topic keeps."""
    directory = LogDir(tmp_path, 0, "cluster")
    hosted = hosting(directory)
    hosted.configure("t", {"retention.ms": "-1", "remote.storage.enable": "true", "segment.bytes": "many"})
    assert hosted.topic_settings("t").retention_ms == -1
    assert hosted.overrides("t") == {"retention.ms": "-1"}
    directory.close()


def test_producers_are_forgotten_when_the_broker_is_told_to(tmp_path: Path) -> None:
    directory = LogDir(tmp_path, 0, "cluster")
    hosted = hosting(directory, BrokerSettings.load({"producer.id.expiration.ms": "1234"}))
    hosted.take("t", uuid.uuid4(), 0, LEADS, 0.0)
    (partition,) = hosted
    hosted.configure("t", {"retention.ms": "5"})
    assert partition.log.config.producer_id_expiration_ms == 1234
    directory.close()
