"""The paper's facts about consumers, each as a test against real brokers and a real ZooKeeper."""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.group_offsets import fetch_offsets
from kafka_classic.client.simple import produce
from kafka_classic.consumer import ConsumerConnector, ConsumerTimeout, Message, MessageStream, SimpleConsumer
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import expire

Connect = Callable[..., ConsumerConnector]
WAIT_MS = 60_000


@pytest.fixture
def cluster(kafka_cluster: LocalCluster) -> Iterator[Cluster]:
    with Cluster(kafka_cluster.bootstrap) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"paper-{uuid.uuid4().hex[:8]}"
    create_topics(cluster, [NewTopic(name, 4)])
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def connect(kafka_cluster: LocalCluster) -> Iterator[Connect]:
    connectors: list[ConsumerConnector] = []

    def connect(group: str, **settings: object) -> ConsumerConnector:
        given = {"auto_offset_reset": "smallest", "consumer_timeout_ms": WAIT_MS, **settings}
        connectors.append(ConsumerConnector(kafka_cluster.zookeeper, group, given))
        return connectors[-1]

    yield connect
    for connector in connectors:
        connector.shutdown()


def write(cluster: Cluster, topic: str, count: int, start: int = 0) -> dict[int, list[bytes]]:
    """Write numbered messages in turns; returns the values of each partition."""
    values: dict[int, list[bytes]] = defaultdict(list)
    for number in range(start, start + count):
        values[number % 4].append(b"%d" % number)
    for partition, each in values.items():
        produce(cluster, topic, partition, [(None, value, (), 1_000 + at) for at, value in enumerate(each)])
    return dict(values)


def one_stream(connector: ConsumerConnector, topic: str) -> MessageStream:
    return connector.create_message_streams({topic: 1})[topic][0]


def take(stream: MessageStream, count: int) -> list[Message]:
    return list(itertools.islice(stream, count))


def by_partition(messages: list[Message]) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = defaultdict(list)
    for message in messages:
        found[message.partition].append(message.value)
    return dict(found)


def test_p2_messages_are_spread_evenly_over_the_streams_and_an_iterator_blocks_when_there_is_no_more(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 400)
    streams = connect(group).create_message_streams({topic: 4})[topic]
    assert [len({message.partition for message in take(stream, 100)}) for stream in streams] == [1, 1, 1, 1]
    more: list[Message] = []
    readers = [threading.Thread(target=lambda s=stream: more.extend(take(s, 1))) for stream in streams]
    for reader in readers:
        reader.start()
    assert all(reader.is_alive() for reader in readers)
    write(cluster, topic, 4, 400)
    for reader in readers:
        reader.join(60)
    assert sorted(message.value or b"" for message in more) == [b"400", b"401", b"402", b"403"]


def test_p2_a_stream_that_waits_longer_than_it_was_told_says_so_and_goes_on(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    stream = one_stream(connect(group, consumer_timeout_ms=50), topic)
    with pytest.raises(ConsumerTimeout):
        next(stream)
    write(cluster, topic, 1)
    for _ in range(1000):
        try:
            assert next(stream).value == b"0"
            return
        except ConsumerTimeout:
            pass
    pytest.fail("the message never came")


def test_p3_consumers_of_one_group_share_one_copy_and_each_group_gets_its_own(
    cluster: Cluster, topic: str, connect: Connect
) -> None:
    written = write(cluster, topic, 200)
    shared, other = f"shared-{topic}", f"other-{topic}"
    one, two = one_stream(connect(shared), topic), one_stream(connect(shared), topic)
    alone = one_stream(connect(other), topic)
    handed: list[Message] = []
    enough = threading.Event()

    def read(stream: MessageStream) -> None:
        for message in stream:
            handed.append(message)
            if {(each.partition, each.offset) for each in handed} == everything:
                enough.set()

    everything = {(partition, offset) for partition, values in written.items() for offset in range(len(values))}
    for stream in (one, two):
        threading.Thread(target=read, args=(stream,), daemon=True).start()
    assert by_partition(take(alone, 200)) == written
    assert enough.wait(60)


def test_p11_a_consumer_rewinds_and_consumes_again(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    written = write(cluster, topic, 40)
    first = connect(group)
    assert by_partition(take(one_stream(first, topic), 40)) == written
    first.commit_offsets()
    first.shutdown()
    with Session(kafka_cluster.zookeeper) as session:
        OffsetRegistry(session).commit(group, {(topic, partition): 5 for partition in range(4)})
    assert by_partition(take(one_stream(connect(group), topic), 20)) == {p: v[5:] for p, v in written.items()}


def test_p11_the_simple_consumer_replays_from_any_offset(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str
) -> None:
    written = write(cluster, topic, 40)
    with SimpleConsumer(kafka_cluster.bootstrap) as consumer:
        for offset in (0, 7, 0):
            assert [message.value for message in consumer.fetch(topic, 1, offset)] == written[1][offset:]


def test_p15_members_owners_and_offsets_stand_in_zookeeper_and_offsets_alone_outlive_the_consumer(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 8)
    connector = connect(group)
    take(one_stream(connector, topic), 8)
    connector.commit_offsets()
    with Session(kafka_cluster.zookeeper) as session:
        nodes = Znodes(session)
        member = nodes.get(f"/consumers/{group}/ids/{connector.consumer_id}")
        owners = [nodes.get(f"/consumers/{group}/owners/{topic}/{partition}") for partition in range(4)]
        assert member is not None
        assert json.loads(member.data)["subscription"] == {topic: 1}
        assert {owner.data.decode() for owner in owners if owner} == {f"{connector.consumer_id}-0"}
        assert {node.owner for node in (member, *owners) if node} == {member.owner}  # ephemeral: of one session
        assert member.owner
        connector.shutdown()
        assert nodes.children(f"/consumers/{group}/ids") == []
        assert nodes.children(f"/consumers/{group}/owners/{topic}") == []
        offsets = [nodes.get(f"/consumers/{group}/offsets/{topic}/{partition}") for partition in range(4)]
        assert [(node.data, node.owner) for node in offsets if node] == [(b"2", 0)] * 4


def test_p16_who_expires_loses_all_it_owned_registers_again_and_goes_on_from_the_committed_offset(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str, group: str
) -> None:
    write(cluster, topic, 400)
    everything = {(partition, offset) for partition in range(4) for offset in range(100)}
    all_four = frozenset((topic, partition) for partition in range(4))
    told: list[tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]] = []
    settings = {"auto.offset.reset": "smallest", "consumer.timeout.ms": WAIT_MS}
    with ConsumerConnector(
        kafka_cluster.zookeeper, group, settings, on_rebalance=lambda *moved: told.append(moved)
    ) as connector:
        stream = one_stream(connector, topic)
        committed = {(message.partition, message.offset) for message in take(stream, 150)}
        connector.commit_offsets()
        handed = {(message.partition, message.offset) for message in take(stream, 50)}
        before = connector.zookeeper_operations
        expire(connector._session)
        again: set[tuple[int, int]] = set()
        while again | committed != everything:
            message = next(stream)
            again.add((message.partition, message.offset))
        assert again.isdisjoint(committed)
        assert handed <= again  # all that was not committed came once more
        assert connector.wait_until_steady(60)
        assert told == [(frozenset(), all_four), (all_four, frozenset()), (frozenset(), all_four)]
        first = connector.rebalances[0]
        [last] = [record for record in connector.rebalances if "the session expired" in record.why]
        assert "it starts" in first.why
        assert (first.released, first.acquired) == (frozenset(), all_four)
        assert (last.released, last.acquired) == (all_four, all_four)
        assert last.attempts >= 1
        assert 0 < last.operations <= connector.zookeeper_operations - before
        assert last.seconds > 0
        assert first.started <= last.started
        history = connector.history
        assert history is not None
        assert history.expirations == 1


def test_p19_a_new_group_begins_at_the_smallest_offset(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    written = write(cluster, topic, 40)
    assert by_partition(take(one_stream(connect(group), topic), 40)) == written


def test_p19_a_new_group_begins_at_the_largest_offset_and_misses_nothing_from_then_on(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 40)
    first = connect(group, auto_offset_reset="largest")
    one_stream(first, topic)
    with Session(kafka_cluster.zookeeper) as session:
        registry = OffsetRegistry(session)
        pause = threading.Event()
        while registry.all(group) != {(topic, partition): 10 for partition in range(4)}:
            pause.wait(0.02)
    first.shutdown()
    # Nobody reads while these are written, and the group has read nothing yet.
    later = write(cluster, topic, 8, 40)
    assert by_partition(take(one_stream(connect(group, auto_offset_reset="largest"), topic), 8)) == later


def test_p20_what_was_not_committed_comes_again_and_the_message_in_hand_was_not(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 4)
    first = connect(group, auto_commit_enable=False)
    stream = one_stream(first, topic)
    handed = take(stream, 4)
    first.commit_offsets()  # by the thread that holds the last one: it means that one too
    write(cluster, topic, 4, 4)
    lost = take(stream, 2)
    first.shutdown()
    again = take(one_stream(connect(group), topic), 4)
    assert {message.value for message in lost} <= {message.value for message in again}
    assert {(message.partition, message.offset) for message in handed}.isdisjoint(
        (message.partition, message.offset) for message in again
    )


def test_p20_a_clean_shutdown_hands_over_without_a_repeat_once_all_was_processed(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 40)
    first = connect(group, consumer_timeout_ms=200)
    stream = one_stream(first, topic)
    handed: list[Message] = []
    while len(handed) < 40:
        try:
            handed.append(next(stream))
        except ConsumerTimeout:
            pass
    with pytest.raises(ConsumerTimeout):  # it asked for more, so it is done with the last one
        next(stream)
    first.shutdown()
    later = write(cluster, topic, 4, 40)
    assert by_partition(take(one_stream(connect(group), topic), 4)) == later


@pytest.mark.parametrize("dual", [True, False])
def test_a_group_moves_its_offsets_from_zookeeper_to_the_brokers(
    kafka_cluster: LocalCluster, cluster: Cluster, topic: str, group: str, connect: Connect, dual: bool
) -> None:
    def read_and_leave(count: int, **settings: object) -> list[Message]:
        connector = connect(group, **settings)
        messages = take(one_stream(connector, topic), count)
        connector.commit_offsets()
        connector.shutdown()
        return messages

    def kept(session: Session) -> tuple[int, int]:
        in_zookeeper, in_brokers = OffsetRegistry(session).all(group), fetch_offsets(Coordinator(cluster, group))
        return sum(in_zookeeper.values()), sum(in_brokers.values())

    written = write(cluster, topic, 40)
    with Session(kafka_cluster.zookeeper) as session:
        read = read_and_leave(10)
        assert kept(session) == (10, 0)
        read += read_and_leave(10, offsets_storage="kafka")  # dual.commit.enabled, which is the default
        assert kept(session) == (20, 20)
        read += read_and_leave(10, offsets_storage="kafka", dual_commit_enabled=dual)
        assert kept(session) == (30 if dual else 20, 30)
        read += read_and_leave(10, offsets_storage="kafka", dual_commit_enabled=dual)
        assert kept(session) == (40 if dual else 20, 40)
    assert by_partition(read) == written  # each once, and in order


def test_p21_within_a_partition_messages_come_in_order(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    write(cluster, topic, 4000)
    messages = take(one_stream(connect(group), topic), 4000)
    offsets = {p: [m.offset for m in messages if m.partition == p] for p in range(4)}
    assert offsets == {p: list(range(1000)) for p in range(4)}


def test_a_message_carries_all_that_was_sent_with_it_and_the_offset_to_resume_from(
    cluster: Cluster, topic: str, group: str, connect: Connect
) -> None:
    produce(cluster, topic, 2, [(b"key", b"value", (("h", b"1"), ("n", None)), 1234)])
    message = next(one_stream(connect(group), topic))
    assert message == Message(topic, 2, 0, b"key", b"value", (("h", b"1"), ("n", None)), 1234)
    assert message.next_offset == 1


def test_a_white_list_reads_topics_that_come_later_and_a_black_list_leaves_out(
    cluster: Cluster, group: str, connect: Connect
) -> None:
    prefix = f"many-{uuid.uuid4().hex[:8]}"
    create_topics(cluster, [NewTopic(f"{prefix}-a", 4)])
    [white] = connect(group).create_message_streams_by_filter(white_list=f"{prefix}-.*", streams=1)
    write(cluster, f"{prefix}-a", 4)
    assert {message.topic for message in take(white, 4)} == {f"{prefix}-a"}
    create_topics(cluster, [NewTopic(f"{prefix}-b", 4)])
    write(cluster, f"{prefix}-b", 4)
    assert {message.topic for message in take(white, 4)} == {f"{prefix}-b"}
    [black] = connect(f"{group}-black").create_message_streams_by_filter(black_list=f"(?!{prefix}-[bc]$).*")
    assert {message.topic for message in take(black, 4)} == {f"{prefix}-b"}
    create_topics(cluster, [NewTopic(f"{prefix}-c", 4), NewTopic(f"{prefix}-d", 4)])
    write(cluster, f"{prefix}-d", 4)
    write(cluster, f"{prefix}-c", 4)
    assert {message.topic for message in take(black, 4)} == {f"{prefix}-c"}
