"""A group's coordinator is found, followed when it moves, and asked no longer than a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.find_coordinator.v6.response import Coordinator as CoordinatorRow
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.offset_commit.v9.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.group_offsets import commit_offsets, delete_offsets, fetch_offsets
from kafka_classic.client.groups import assigned_by
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.simple import produce
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import NO_TIME, metadata
from tests.client.scripted import Hangup, Request, ScriptedBroker

A, B = ("t", 0), ("t", 1)


class Pair:
    """Two brokers of which one coordinates; `outcomes` are what it says to commits, one by one, then no error."""

    def __init__(self, brokers: list[ScriptedBroker]) -> None:
        self.brokers = brokers
        self.coordinator = 0
        self.outcomes: list[Error | type[Hangup]] = []
        self.kept: dict[TopicPartition, int] = {}
        for node, broker in enumerate(brokers):
            broker.handlers |= {
                Api.METADATA: lambda _: metadata({0: brokers[0].port, 1: brokers[1].port}),
                Api.FIND_COORDINATOR: self._found,
                Api.OFFSET_COMMIT: self._commit_at(node),
            }

    def _found(self, request: Request) -> Any:
        node = self.coordinator
        row = CoordinatorRow(
            key=request.body.coordinator_keys[0],
            node_id=BrokerId(node),
            host="127.0.0.1",
            port=i32(self.brokers[node].port) if node >= 0 else i32(-1),
            error_code=Error.none if node >= 0 else Error.coordinator_not_available,
            error_message=None,
        )
        return FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=(row,))

    def _commit_at(self, node: int) -> Callable[[Request], Any]:
        def commit(request: Request) -> Any:
            said = self.outcomes.pop(0) if self.outcomes else Error.none
            if said is Hangup:
                raise Hangup
            code = said if node == self.coordinator else Error.not_coordinator
            rows = {
                (str(topic.name), int(row.partition_index)): int(row.committed_offset)
                for topic in request.body.topics
                for row in topic.partitions
            }
            if code is Error.none:
                self.kept |= rows
            return OffsetCommitResponse(
                throttle_time=NO_TIME,
                topics=tuple(
                    OffsetCommitResponseTopic(
                        name=TopicName(topic),
                        partitions=(OffsetCommitResponsePartition(partition_index=i32(index), error_code=code),),  # type: ignore[arg-type]
                    )
                    for topic, index in rows
                ),
            )

        return commit

    @property
    def commits(self) -> int:
        return sum(broker.count(Api.OFFSET_COMMIT) for broker in self.brokers)

    @property
    def lookups(self) -> int:
        return sum(broker.count(Api.FIND_COORDINATOR) for broker in self.brokers)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair([stack.enter_context(ScriptedBroker()) for _ in range(2)])


@pytest.fixture
def coordinator(pair: Pair) -> Iterator[Coordinator]:
    with Cluster(pair.brokers[0].address, backoff=Backoff(0.005, 0.02)) as cluster:
        yield Coordinator(cluster, "g")


def test_a_coordinator_is_looked_for_once(pair: Pair, coordinator: Coordinator) -> None:
    for offset in range(5):
        commit_offsets(coordinator, {A: offset, B: 7})
    assert pair.kept == {A: 4, B: 7}
    assert (pair.commits, pair.lookups) == (5, 1)
    sent = pair.brokers[0].requests[-1].body
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (-1, "")


def test_a_coordinator_that_moved_is_followed(pair: Pair, coordinator: Coordinator) -> None:
    commit_offsets(coordinator, {A: 1})
    pair.coordinator = 1
    commit_offsets(coordinator, {A: 2})
    assert pair.kept == {A: 2}
    assert pair.brokers[1].count(Api.OFFSET_COMMIT) == 1
    assert pair.lookups == 2


@pytest.mark.parametrize(
    ("trouble", "lookups"),
    [(Error.coordinator_load_in_progress, 1), (Error.coordinator_not_available, 2), (Hangup, 2)],
)
def test_what_may_pass_is_tried_again(
    pair: Pair, coordinator: Coordinator, trouble: Error | type[Hangup], lookups: int
) -> None:
    pair.outcomes = [trouble]
    commit_offsets(coordinator, {A: 3})
    assert pair.kept == {A: 3}
    assert (pair.commits, pair.lookups) == (2, lookups)


def test_one_that_is_not_there_yet_is_waited_for(pair: Pair, coordinator: Coordinator) -> None:
    pair.coordinator = -1
    elected = threading.Timer(0.1, lambda: setattr(pair, "coordinator", 1))
    elected.start()
    commit_offsets(coordinator, {A: 3})
    elected.join()
    assert pair.kept == {A: 3}


def test_after_the_deadline_nothing_is_sent(pair: Pair, coordinator: Coordinator) -> None:
    pair.outcomes = [Error.coordinator_load_in_progress] * 10_000
    began = time.monotonic()
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        commit_offsets(coordinator, {A: 3}, deadline=0.2)
    assert time.monotonic() >= began + 0.1
    pair.outcomes = []
    with pytest.raises(KafkaError, match="not found in time"):
        commit_offsets(coordinator, {A: 3}, deadline=-1.0)
    assert pair.kept == {}


def test_what_will_not_pass_is_told_at_once_with_what_to_do(pair: Pair, coordinator: Coordinator) -> None:
    pair.outcomes = [Error.unknown_member_id]
    with pytest.raises(KafkaError, match=r"'g': the brokers share its partitions out .*another group"):
        commit_offsets(coordinator, {A: 3})
    assert pair.commits == 1


def test_offsets_are_kept_told_and_forgotten_by_a_real_coordinator(kafka_bootstrap: str, kafka_topic: str) -> None:
    at = kafka_topic, 0
    with Cluster(kafka_bootstrap) as cluster:
        produce(cluster, kafka_topic, 0, [(None, b"v", (), 0)])
        group = Coordinator(cluster, f"of-{kafka_topic}")
        assert fetch_offsets(group) == fetch_offsets(group, [at]) == fetch_offsets(group, []) == {}
        delete_offsets(group, [at])  # nothing to forget
        commit_offsets(group, {})
        commit_offsets(group, {at: 1})
        assert fetch_offsets(group) == fetch_offsets(group, [at, (kafka_topic, 9)]) == {at: 1}
        with pytest.raises(UnknownTopic, match="partition 0 of 'nowhere'"):
            commit_offsets(group, {at: 0, ("nowhere", 0): 5})
        assert fetch_offsets(group) == {at: 0}  # the others were kept
        delete_offsets(group, [at])
        assert fetch_offsets(group) == {}


def test_an_assignment_is_read_and_garbage_assigns_nothing() -> None:
    words = (
        b"\0\3" + b"\0\0\0\2" + b"\0\1t" + b"\0\0\0\2\0\0\0\0\0\0\0\5" + b"\0\1u" + b"\0\0\0\1\0\0\0\1" + b"\xff" * 4
    )
    assert list(assigned_by(words)) == [("t", 0), ("t", 5), ("u", 1)]
    for size in range(len(words) - 4):
        assert not list(assigned_by(words[:size]))
    assert not list(assigned_by(b"\0\0\x7f\xff\xff\xff\0\1t\x7f\xff\xff\xff"))
    assert not list(assigned_by(b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"))
