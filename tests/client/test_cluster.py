"""A cluster finds leaders, asks again when they move, and gives up with what to do."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kio.schema.create_topics.v7 import CreateTopicsResponse
from kio.schema.create_topics.v7.response import CreatableTopicResult
from kio.schema.list_offsets.v11 import ListOffsetsResponse
from kio.schema.list_offsets.v11.response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i64

from kafka_classic.client.admin import LATEST, NewTopic, create_topics, list_offsets
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Closed, ConnectionLost, Refused, UnknownTopic, Unreachable
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import NO_TIME, metadata
from tests.client.scripted import Hangup, Request, ScriptedBroker

LONG = 30.0


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers() -> Iterator[list[ScriptedBroker]]:
    """Three brokers; broker N leads partition N of the topic t."""
    scripted = [ScriptedBroker() for _ in range(3)]
    ports = {id: broker.port for id, broker in enumerate(scripted)}
    for broker in scripted:
        broker.handlers[Api.METADATA] = lambda _: metadata(ports, {"t": [0, 1, 2]})
    yield scripted
    for broker in scripted:
        broker.close()


@pytest.fixture
def cluster(brokers: list[ScriptedBroker], clock: Clock) -> Iterator[Cluster]:
    with Cluster(brokers[0].address, clock=clock, sleep=clock.sleep, rng=random.Random(1)) as made:
        yield made


def _asked(brokers: list[ScriptedBroker]) -> int:
    return sum(broker.count(Api.METADATA) for broker in brokers)


def test_the_leader_of_a_partition_is_asked_for_once(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    assert [cluster.leader("t", index) for index in (0, 1, 2, 1, 0)] == [0, 1, 2, 1, 0]
    assert _asked(brokers) <= 2  # the brokers, then the topic
    assert cluster.connection(2).address == brokers[2].address
    assert cluster.connection(2) is cluster.connection(2)


def test_metadata_is_asked_for_anew_when_it_is_forgotten_or_old(
    brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock
) -> None:
    cluster.leader("t", 0)
    before = _asked(brokers)
    cluster.leader("t", 0)
    assert _asked(brokers) == before
    cluster.forget()
    cluster.leader("t", 0)
    assert _asked(brokers) == before + 1
    clock.now += cluster.metadata_max_age + 1
    cluster.leader("t", 0)
    assert _asked(brokers) == before + 2


def test_the_next_address_is_tried_when_the_first_is_dead(brokers: list[ScriptedBroker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        dead = gone.getsockname()[1]
    with Cluster(f"127.0.0.1:{dead},{brokers[1].address}") as cluster:
        assert sorted(cluster.brokers()) == [0, 1, 2]


def test_a_cluster_nobody_answers_for_fails_at_once_with_what_to_do(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        dead = gone.getsockname()[1]
    with (
        Cluster(f"127.0.0.1:{dead}", clock=clock, sleep=clock.sleep) as cluster,
        pytest.raises(Unreachable, match="is it running"),
    ):
        cluster.metadata()
    assert clock.slept == []


def test_a_topic_that_is_not_there_fails_at_once_with_what_to_do(
    brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock
) -> None:
    for broker in brokers:
        broker.handlers[Api.METADATA] = lambda _: metadata(
            {0: brokers[0].port}, errors={"nope": Error.unknown_topic_or_partition}
        )
    with pytest.raises(UnknownTopic, match="there is no topic 'nope': create it with") as raised:
        cluster.leader("nope", 0)
    assert raised.value.code == Error.unknown_topic_or_partition
    assert clock.slept == []


def test_a_partition_that_is_not_there_fails_at_once_with_how_many_there_are(cluster: Cluster, clock: Clock) -> None:
    with pytest.raises(UnknownTopic, match="topic 't' has no partition 3: it has 3, numbered from 0"):
        cluster.leader("t", 3)
    assert clock.slept == []


def test_a_leader_that_is_being_elected_is_waited_for(
    brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock
) -> None:
    def elected(_: Request) -> object:
        return metadata({0: brokers[0].port}, {"t": [0 if len(clock.slept) >= 3 else -1]})

    for broker in brokers:
        broker.handlers[Api.METADATA] = elected
    assert cluster.leader("t", 0) == 0
    assert len(clock.slept) == 3


def test_a_leader_that_never_comes_is_given_up_at_the_deadline(
    brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock
) -> None:
    for broker in brokers:
        broker.handlers[Api.METADATA] = lambda _: metadata({0: brokers[0].port}, {"t": [-1]})
    with pytest.raises(KafkaError, match=r"partition 0 of 't' has no leader now: are its brokers \[0\] running"):
        cluster.leader("t", 0)
    assert cluster.deadline * 0.9 < sum(clock.slept) <= cluster.deadline


def test_a_lost_connection_is_made_again(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    before = cluster.connection(1)
    brokers[1].hang_up()

    def ask() -> Any:
        return cluster.call(lambda: cluster.connection(1), Api.METADATA, _nothing())

    assert len(ask().brokers) == 3
    assert not before.usable
    assert cluster.connection(1).usable


def test_attempts_go_on_while_a_broker_hangs_up(brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock) -> None:
    healthy = brokers[1].handlers[Api.METADATA]

    def flaky(request: Request) -> object:
        if len(clock.slept) < 4:
            raise Hangup
        return healthy(request)

    cluster.connection(1)
    brokers[1].handlers[Api.METADATA] = flaky
    assert len(cluster.call(lambda: cluster.connection(1), Api.METADATA, _nothing()).brokers) == 3
    assert len(clock.slept) == 4
    assert clock.slept[0] < clock.slept[3]


def test_an_attempt_that_cannot_help_is_not_made(cluster: Cluster, clock: Clock) -> None:
    def refused() -> None:
        raise KafkaError(Error.topic_already_exists)

    with pytest.raises(KafkaError):
        cluster.retrying(refused)
    assert clock.slept == []


def test_closing_a_cluster_ends_the_wait_for_the_next_attempt(brokers: list[ScriptedBroker]) -> None:
    tried = threading.Semaphore(0)

    def attempt() -> None:
        tried.release()
        raise KafkaError(Error.leader_not_available)

    cluster = Cluster(brokers[0].address, deadline=3600.0)
    cluster.brokers()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(cluster.retrying, attempt)
        for _ in range(5):
            assert tried.acquire(timeout=LONG)
        cluster.close()
        with pytest.raises(Closed):
            waiting.result(LONG)
    with pytest.raises(Closed):
        cluster.metadata()


def test_many_threads_share_one_connection_to_each_broker(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    cluster.brokers()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: cluster.connection(i % 3), range(60)))
    assert len(set(map(id, made))) == 3
    assert [len(broker.connections) for broker in brokers] == [1, 1, 1]


def _offsets(request: Request, errors: Callable[[int], Error]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=errors(one.partition_index),
                        offset=i64(100 + one.partition_index),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.body.topics
        ),
    )


def test_each_leader_is_asked_once_for_all_its_partitions(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    for broker in brokers:
        broker.handlers[Api.LIST_OFFSETS] = lambda request: _offsets(request, lambda _: Error.none)
    found = list_offsets(cluster, {("t", index): LATEST for index in range(3)})
    assert {at: one.offset for at, one in found.items()} == {("t", 0): 100, ("t", 1): 101, ("t", 2): 102}
    assert [broker.count(Api.LIST_OFFSETS) for broker in brokers] == [1, 1, 1]


def test_a_partition_whose_leader_moved_is_asked_for_at_the_new_leader(
    brokers: list[ScriptedBroker], cluster: Cluster
) -> None:
    cluster.leader("t", 0)
    ports = {id: broker.port for id, broker in enumerate(brokers)}
    for broker in brokers:
        broker.handlers[Api.METADATA] = lambda _: metadata(ports, {"t": [0, 2, 2]})
        broker.handlers[Api.LIST_OFFSETS] = lambda request: _offsets(request, lambda _: Error.none)
    brokers[1].handlers[Api.LIST_OFFSETS] = lambda request: _offsets(request, lambda _: Error.not_leader_or_follower)
    found = list_offsets(cluster, {("t", index): LATEST for index in range(3)})
    assert len(found) == 3
    # What was answered is not asked again.
    assert [broker.count(Api.LIST_OFFSETS) for broker in brokers] == [1, 1, 2]


def test_an_error_of_one_partition_names_it(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    for broker in brokers:
        broker.handlers[Api.LIST_OFFSETS] = lambda request: _offsets(
            request, lambda index: Error.unsupported_for_message_format if index == 1 else Error.none
        )
    with pytest.raises(KafkaError, match="partition 1 of 't': ") as raised:
        list_offsets(cluster, {("t", index): LATEST for index in range(3)})
    assert raised.value.code == Error.unsupported_for_message_format


def _creation(name: str, error: Error, message: str | None = None) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        throttle_time=NO_TIME,
        topics=(
            CreatableTopicResult(
                name=TopicName(name),
                topic_id=None,
                error_code=error,
                error_message=message,
                num_partitions=i32(3),
                replication_factor=i16(1),
                configs=None,
            ),
        ),
    )


def test_a_topic_is_created_by_the_controller_also_when_that_has_moved(
    brokers: list[ScriptedBroker], cluster: Cluster
) -> None:
    ports = {id: broker.port for id, broker in enumerate(brokers)}
    moved = threading.Event()

    def not_any_more(request: Request) -> object:
        moved.set()
        return _creation("t", Error.not_controller)

    for broker in brokers:
        broker.handlers[Api.METADATA] = lambda _: metadata(
            ports, {"t": [0, 1, 2]}, controller=2 if moved.is_set() else 0
        )
    brokers[0].handlers[Api.CREATE_TOPICS] = not_any_more
    brokers[2].handlers[Api.CREATE_TOPICS] = lambda _: _creation("t", Error.none)
    created = create_topics(cluster, [NewTopic("t", 3)])
    assert [(one.name, one.partitions) for one in created] == [("t", 3)]


def test_a_topic_is_created_only_when_every_broker_shows_it(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    ports = {id: broker.port for id, broker in enumerate(brokers)}
    late = iter([False, False, True])

    def later(request: Request) -> object:
        topics = request.body.topics
        if topics and next(late):
            brokers[2].handlers[Api.METADATA] = lambda _: metadata(ports, {"new": [0, 1, 2]})
            return metadata(ports, {"new": [0, 1, 2]})
        return metadata(ports, errors={"new": Error.unknown_topic_or_partition} if topics else {})

    for broker in brokers:
        broker.handlers[Api.METADATA] = lambda _: metadata(ports, {"new": [0, 1, 2]})
    brokers[2].handlers[Api.METADATA] = later
    brokers[0].handlers[Api.CREATE_TOPICS] = lambda _: _creation("new", Error.none)
    create_topics(cluster, [NewTopic("new", 3)])
    assert next(late, None) is None


def test_a_refusal_carries_the_brokers_own_words(brokers: list[ScriptedBroker], cluster: Cluster, clock: Clock) -> None:
    brokers[0].handlers[Api.CREATE_TOPICS] = lambda _: _creation(
        "t", Error.invalid_config, "retention.ms must be a number"
    )
    with pytest.raises(Refused, match=r"INVALID_CONFIG: topic 't': retention\.ms must be a number"):
        create_topics(cluster, [NewTopic("t")])
    brokers[0].handlers[Api.CREATE_TOPICS] = lambda _: _creation("t", Error.topic_already_exists)
    with pytest.raises(Refused, match="topic 't': the topic exists: choose another name"):
        create_topics(cluster, [NewTopic("t")])
    assert clock.slept == []


def test_a_broker_not_in_the_cluster_is_named(cluster: Cluster) -> None:
    with pytest.raises(Unreachable, match="broker 9 is not in the cluster now"):
        cluster.connection(9)


def test_a_connection_of_ones_own_is_not_shared(cluster: Cluster) -> None:
    own = cluster.new_connection(1)
    try:
        assert own is not cluster.connection(1)
    finally:
        own.close()
    assert cluster.connection(1).usable


def test_what_is_in_flight_fails_when_the_cluster_is_closed(brokers: list[ScriptedBroker], cluster: Cluster) -> None:
    connection = cluster.connection(1)
    brokers[1].handlers[Api.METADATA] = lambda _: None
    pending = connection.send(Api.METADATA, _nothing())
    cluster.close()
    with pytest.raises((Closed, ConnectionLost)):
        pending.result()


def _nothing() -> Any:
    from kio.schema.metadata.v13 import MetadataRequest

    return MetadataRequest(topics=(), include_topic_authorized_operations=False)
