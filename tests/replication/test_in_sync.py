"""The in-sync replicas are written to ZooKeeper: what is counted meanwhile is what is written, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import gevent
import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.replication import in_sync
from kafka_classic.replication.in_sync import InSync
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import BrokerSettings, TopicSettings
from kafka_classic.testing.waiting import until
from kafka_classic.zk.errors import VersionConflict, ZooKeeperUnreachable
from kafka_classic.zk.partitions import PartitionState

REPLICAS = (0, 1, 2)


class States:
    """ZooKeeper for one partition; `before` runs ahead of a write, and may raise in its place."""

    def __init__(self) -> None:
        self.state = PartitionState(0, 1, REPLICAS, 1, 5)
        self.before: Callable[[], None] = lambda: None
        self.written: list[tuple[int, ...]] = []

    def write(self, topic: str, index: int, state: PartitionState) -> PartitionState:
        self.before()
        if state.zk_version != self.state.zk_version:
            raise VersionConflict("changed meanwhile")
        self.written.append(state.isr)
        self.state = replace(state, zk_version=state.zk_version + 1)
        return self.state

    def read(self, topic: str, index: int) -> PartitionState:
        return self.state


@pytest.fixture
def partition(tmp_path: Path) -> Any:
    log = Log.open(tmp_path / "t-0", LogConfig())
    partition = Partition("t", 0, UUID(int=5), log, TopicSettings(), BrokerSettings())
    partition.take(Leadership(0, 1, REPLICAS, REPLICAS, 5, 1), 0.0)
    yield partition
    log.close()


@pytest.fixture
def states() -> States:
    return States()


@pytest.fixture
def told() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def keeper(states: Any, told: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> InSync:
    """Whoever has not been heard of for ten seconds is out; it is time zero when it is made, and then as told."""
    monkeypatch.setattr(in_sync, "RETRY_S", 0.001)

    def tell(partitions: Iterable[tuple[str, int]]) -> None:
        told.extend(partitions)

    return InSync(states, tell, 10.0, clock=lambda: 9.0)


def shrink(keeper: InSync, partition: Partition) -> None:
    for id in (1, 2):
        partition.followers[id].caught_up_at = -5.0
    keeper.look_at_all([partition])


def settled(partition: Partition) -> None:
    until(lambda: partition.pending is None, "a settled ISR", sleep=gevent.sleep)


@pytest.mark.parametrize("error", [ZooKeeperUnreachable("away"), ZeroDivisionError("nobody thought of this")])
def test_a_write_that_fails_is_tried_until_it_succeeds(
    keeper: InSync, partition: Partition, states: States, told: list[tuple[str, int]], error: Exception
) -> None:
    errors = [error, error]

    def fails() -> None:
        if errors:
            raise errors.pop()

    states.before = fails
    shrink(keeper, partition)
    settled(partition)
    assert (states.state.isr, partition.isr, partition.version) == ((0,), frozenset({0}), 6)
    until(lambda: told, "word to the controller", sleep=gevent.sleep)
    assert told == [("t", 0)]


def test_a_proposal_that_was_overtaken_is_not_written_under_the_name_of_the_next(
    keeper: InSync, partition: Partition, states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waits for its turn when the controller's word settles the set otherwise, and another is proposed."""
    monkeypatch.setattr(in_sync, "AT_A_TIME", 0)  # nobody works yet
    shrink(keeper, partition)
    states.state = replace(states.state, isr=(0, 1), zk_version=6)
    partition.take(Leadership(0, 1, (0, 1), REPLICAS, 6, 1), 9.0)
    partition.followers[2].end = partition.log.end_offset
    keeper.caught_up(partition, 2)
    assert partition.pending == frozenset(REPLICAS)
    keeper._work()
    assert states.written == [(0, 1, 2)]
    assert partition.pending is None


def test_nothing_is_written_over_the_state_of_a_topic_that_was_made_anew(
    keeper: InSync, partition: Partition, states: States, told: list[tuple[str, int]]
) -> None:
    """Its leader has not heard yet, and the versions of the znodes may be the same: they begin at zero again."""
    states.state = PartitionState(2, 0, REPLICAS, 1, 5)
    shrink(keeper, partition)
    until(lambda: not keeper._workers, "the end of the work", sleep=gevent.sleep)
    assert (states.written, states.state.leader, told) == ([], 2, [])


def test_nothing_is_written_of_a_partition_that_is_gone(keeper: InSync, partition: Partition, states: States) -> None:
    def goes() -> None:
        partition.gone = True
        raise ZooKeeperUnreachable("away")

    states.before = goes
    shrink(keeper, partition)
    until(lambda: not keeper._workers, "the end of the work", sleep=gevent.sleep)
    assert states.written == []


def test_a_leader_that_cannot_open_its_log_leaves_the_isr_if_others_are_in_it(
    keeper: InSync, states: States, told: list[tuple[str, int]]
) -> None:
    errors: list[Exception] = [ZooKeeperUnreachable("away"), VersionConflict("another leads")]

    def fails() -> None:
        if errors:
            raise errors.pop(0)

    states.before = fails
    keeper.decline("t", 0, Leadership(0, 1, (0,), REPLICAS, 5, 1))  # nobody else is in sync
    for _ in range(2):  # the second is told anew, after the first was overtaken
        keeper.decline("t", 0, Leadership(0, 1, REPLICAS, REPLICAS, 5, 1))
    until(lambda: told, "word to the controller", sleep=gevent.sleep)
    assert (states.written, told, errors) == ([(1, 2)], [("t", 0)], [])
    assert (states.state.leader, states.state.leader_epoch, states.state.zk_version) == (0, 1, 6)
