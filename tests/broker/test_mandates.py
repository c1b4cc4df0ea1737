"""Whom a broker obeys: one controller after the other, and none before it can tell which of its lives is spoken to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import gevent
import pytest
from gevent.event import Event
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.broker.replicas import Mandates, leader_and_isr, update_metadata
from kafka_classic.log.directory import LogDir
from kafka_classic.wire import control
from tests.broker.test_review import hosting

REGISTERED = 100


class Broker:
    """What a broker has that these words are about; it may be slow to read topics' settings."""

    def __init__(self, folder: Path) -> None:
        self.directory = LogDir(folder, 0, "cluster")
        self.hosted = hosting(self.directory)
        self.mandates = Mandates()
        self.turn = SimpleNamespace(end=lambda: None)
        self.leaders: dict[int, tuple[str, int]] = {}
        self.slow: dict[str, Event] = {}
        self.view = ClusterView("cluster")
        self.coordination = SimpleNamespace(forget_topics=lambda names: None)
        self.settled: list[int] = []
        self.settle_in = self.settled.append

    def learn_settings(self, topics: dict[str, UUID]) -> None:
        for name in topics:
            if name in self.slow:
                self.slow[name].wait()

    def hear(self, controller_epoch: int, *topics: str, broker_epoch: int = REGISTERED) -> Any:
        """A greeting: all that this broker is to lead."""
        rows = tuple(
            control.LeaderAndIsrTopicState(
                topic_name=name,
                topic_id=UUID(int=1 + ord(name[0])),
                partition_states=(
                    control.LeaderAndIsrPartitionState(
                        partition_index=0,
                        controller_epoch=controller_epoch,
                        leader=0,
                        leader_epoch=0,
                        isr=(0,),
                        partition_epoch=0,
                        replicas=(0,),
                    ),
                ),
            )
            for name in topics
        )
        request = control.LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type=control.FULL,
            topic_states=rows,
            live_leaders=(),
        )
        return gevent.spawn(leader_and_isr, self, None, request)

    def read(self, *partitions: int, broker_epoch: int = REGISTERED) -> Any:
        """What clients are to be told of these partitions of a topic."""
        rows = tuple(
            control.UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=5,
                leader=0,
                leader_epoch=0,
                isr=(0,),
                zk_version=0,
                replicas=(0,),
                offline_replicas=(),
            )
            for index in partitions
        )
        request = control.UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=5,
            broker_epoch=broker_epoch,
            topic_states=(
                control.UpdateMetadataTopicState(topic_name="t", topic_id=UUID(int=7), partition_states=rows),
            ),
            live_brokers=(),
        )
        return gevent.spawn(update_metadata, self, None, request)

    def leads(self) -> list[str]:
        return sorted(partition.topic for partition in self.hosted if partition.leading)


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    broker = Broker(tmp_path / "data")
    yield broker
    broker.directory.close()


def test_an_earlier_controller_does_not_undo_what_a_later_one_has_said(broker: Broker) -> None:
    """Its word was being done when the later one's came, which names a topic that it did not know."""
    broker.mandates.registered(REGISTERED)
    broker.slow["a"] = Event()
    earlier, later = broker.hear(5, "a"), broker.hear(6, "a", "new")
    gevent.idle()
    broker.slow.pop("a").set()
    assert earlier.get(10).error_code is later.get(10).error_code is Error.none
    assert broker.leads() == ["a", "new"]
    assert broker.hear(5, "a").get(10).error_code is Error.stale_controller_epoch
    assert broker.leads() == ["a", "new"]


def test_a_word_that_was_meant_for_the_life_before_is_refused_however_early_it_comes(broker: Broker) -> None:
    """A broker whose disk was wiped would else lead, with nothing, what its former life was told to lead."""
    late, greeting = broker.hear(5, "old", broker_epoch=REGISTERED - 1), broker.hear(5, "a")
    gevent.idle()
    assert not late.ready()
    assert broker.leads() == []
    broker.mandates.registered(REGISTERED)
    assert late.get(10).error_code is Error.stale_broker_epoch
    assert greeting.get(10).error_code is Error.none
    assert broker.leads() == ["a"]


def test_one_partition_that_fails_keeps_no_other_from_its_leader(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = broker.hosted.take

    def sometimes(topic: str, *more: Any) -> Error:
        if topic == "bad":
            raise ZeroDivisionError("nobody thought of this")
        return take(topic, *more)

    monkeypatch.setattr(broker.hosted, "take", sometimes)
    broker.mandates.registered(REGISTERED)
    answer = broker.hear(5, "a", "bad", "c").get(10)
    codes = [row.error_code for topic in answer.topics for row in topic.partition_errors]
    assert codes == [Error.none, Error.unknown_server_error, Error.none]
    assert broker.leads() == ["a", "c"]


def test_a_change_that_was_meant_for_the_life_before_is_not_taken_for_all_there_is(broker: Broker) -> None:
    """Clients would see a topic with some of its partitions, and say that it has no others."""
    late = broker.read(1, broker_epoch=REGISTERED - 1)
    gevent.idle()
    assert broker.view.topics == {}
    assert broker.settled == []
    broker.mandates.registered(REGISTERED)
    assert late.get(10).error_code is Error.stale_broker_epoch
    assert broker.read(0, 1, 2).get(10).error_code is Error.none
    assert broker.read(1).get(10).error_code is Error.none
    assert sorted(broker.view.topics["t"].partitions) == [0, 1, 2]
    assert broker.settled == [REGISTERED, REGISTERED]
