"""The hands between brokers and streams: nothing missed, nothing committed too early, silence after a stop."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_classic.client import admin, simple
from kafka_classic.client.backoff import Backoff
from kafka_classic.client.chunk import Chunk, read_chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.writer import Writer
from kafka_classic.consumer.handing import Hands, Streams
from kafka_classic.consumer.message import Message
from kafka_classic.consumer.settings import ConsumerSettings
from kafka_classic.consumer.streams import ConsumerTimeout, MessageStream
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from tests.client.answers import fetched, metadata
from tests.client.scripted import Request, ScriptedBroker
from tests.consumer.memory import LONG, MemoryOffsets

NewTopicName = Callable[..., str]


@pytest.fixture
def cluster(kafka_bootstrap: str) -> Iterator[Cluster]:
    with Cluster(kafka_bootstrap) as made:
        yield made


@pytest.fixture
def new_topic(cluster: Cluster) -> NewTopicName:
    def create(partitions: int = 1, **configs: str) -> str:
        name = f"hands-{uuid.uuid4().hex[:12]}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        admin.create_topics(cluster, [admin.NewTopic(name, partitions, 1, settings)])
        return name

    return create


def records(count: int, start: int = 0) -> list[NewRecord]:
    now = int(time.time() * 1000)
    return [(None, b"%d" % i, (), now) for i in range(start, start + count)]


@contextmanager
def hands_of(
    cluster: Cluster, streams: Streams, store: MemoryOffsets | None = None, **settings: str
) -> Iterator[Hands]:
    given = {"auto.offset.reset": "smallest", **{key.replace("_", "."): value for key, value in settings.items()}}
    hands = Hands(cluster, streams, store or MemoryOffsets(), ConsumerSettings.load(given))
    try:
        yield hands
    finally:
        hands.close()


def read(stream: MessageStream, count: int) -> list[Message]:
    stream.timeout = LONG
    return [next(stream) for _ in range(count)]


def numbers(messages: list[Message]) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = defaultdict(list)
    for message in messages:
        assert message.value is not None
        found[message.topic, message.partition].append(int(message.value))
    return found


def nothing_more(stream: MessageStream) -> bool:
    """Tell whether the stream is silent for half a second: longer than a poll."""
    stream.timeout = 0.5
    try:
        next(stream)
    except ConsumerTimeout:
        return True
    return False


def test_the_partitions_of_a_topic_are_handed_to_their_streams(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic, other = new_topic(4), new_topic(1)
    for index in range(4):
        simple.produce(cluster, topic, index, records(500, 1000 * index))
    simple.produce(cluster, other, 0, records(10))
    streams = {topic: [MessageStream(), MessageStream()], other: [MessageStream()]}
    with hands_of(cluster, streams) as hands:
        hands.start({(topic, 0): 0, (topic, 1): 0, (topic, 2): 1, (topic, 3): 1, (other, 0): 0})
        first, second = (numbers(read(stream, 1000)) for stream in streams[topic])
        third = numbers(read(streams[other][0], 10))
    assert first == {(topic, index): list(range(1000 * index, 1000 * index + 500)) for index in (0, 1)}
    assert second == {(topic, index): list(range(1000 * index, 1000 * index + 500)) for index in (2, 3)}
    assert third == {(other, 0): list(range(10))}


def test_streams_may_be_shared_by_all_topics(cluster: Cluster, new_topic: NewTopicName) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        simple.produce(cluster, topic, 0, records(10))
    stream = MessageStream()
    with hands_of(cluster, [stream]) as hands:
        hands.start({(topic, 0): 0 for topic in topics})
        assert numbers(read(stream, 20)) == {(topic, 0): list(range(10)) for topic in topics}


@pytest.mark.parametrize("codec", Codec)
def test_messages_of_every_codec_come(cluster: Cluster, new_topic: NewTopicName, codec: Codec) -> None:
    topic = new_topic()
    simple.produce(cluster, topic, 0, [(b"k", b"%d" % i, (("h", None),), 5 + i) for i in range(300)], codec=codec)
    stream = MessageStream()
    with hands_of(cluster, [stream]) as hands:
        hands.start({(topic, 0): 0})
        found = read(stream, 300)
    assert found == [Message(topic, 0, i, b"k", b"%d" % i, (("h", None),), 5 + i) for i in range(300)]


def test_p20_what_is_committed_was_processed_and_the_rest_comes_again(
    cluster: Cluster, new_topic: NewTopicName
) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(100))
    store = MemoryOffsets()
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({at: 0})
        read(stream, 31)
        hands.commit()
        assert store.offsets == {at: 30}  # the one in hand is not processed
        hands.commit(held=True)
        assert store.offsets == {at: 31}
        read(stream, 10)
        hands.stop([at])
        assert store.offsets == {at: 40}
        assert hands.positions() == {}
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({at: 0})
        assert numbers(read(stream, 60)) == {at: list(range(40, 100))}


def test_only_what_has_changed_is_committed(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    simple.produce(cluster, topic, 0, records(10))
    store = MemoryOffsets({(topic, 0): 0, (topic, 1): 0})
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({(topic, 0): 0, (topic, 1): 0})
        read(stream, 5)
        hands.commit()
        hands.commit()
        assert store.commits == [{(topic, 0): 4}]
        assert hands.positions() == {(topic, 0): 4, (topic, 1): 0}


def test_without_auto_commit_a_stop_commits_nothing(cluster: Cluster, new_topic: NewTopicName) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(10))
    store = MemoryOffsets({at: 2})
    stream = MessageStream()
    with hands_of(cluster, [stream], store, auto_commit_enable="false") as hands:
        hands.start({at: 0})
        read(stream, 5)
        hands.stop([at])
        assert store.commits == []


def test_a_commit_that_failed_at_a_stop_is_made_by_the_next_one(cluster: Cluster, new_topic: NewTopicName) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(10))
    store = MemoryOffsets({at: 0})
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({at: 0})
        read(stream, 5)
        store.refuses = True
        with pytest.raises(ConnectionError):
            hands.stop([at])
        assert nothing_more(stream)
        store.refuses = False
        hands.stop([at])
        assert store.offsets == {at: 4}
        hands.stop([at])
        assert len(store.commits) == 1


def test_what_the_brokers_do_not_keep_is_given_up_all_the_same_and_the_next_reader_has_it_again(
    cluster: Cluster, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(MemoryOffsets):
        def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            raise KafkaError(Error.coordinator_not_available, "no coordinator, on purpose")

    at = new_topic(), 0
    simple.produce(cluster, *at, records(10))
    stream = MessageStream()
    with hands_of(cluster, [stream], Away({at: 2})) as hands:
        hands.start({at: 0})
        read(stream, 5)
        hands.stop([at])
        hands.stop([at])
    assert caplog.text.count("1 partitions are given up without a commit") == 1


def test_what_is_dropped_is_forgotten_and_not_committed(cluster: Cluster, new_topic: NewTopicName) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(100))
    store = MemoryOffsets({at: 20})
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({at: 0})
        read(stream, 10)
        hands.drop()
        assert nothing_more(stream)
        hands.commit()
        hands.stop([at])
        assert store.commits == []
        hands.start({at: 0})
        assert read(stream, 1)[0].offset == 20


def test_a_start_that_was_overtaken_by_a_drop_starts_nothing(cluster: Cluster, new_topic: NewTopicName) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(10))

    class Overtaken(MemoryOffsets):
        def fetch(self, partitions: object) -> dict[TopicPartition, int]:
            hands.drop()
            return {}

    stream = MessageStream()
    with hands_of(cluster, [stream], Overtaken()) as hands:
        hands.start({at: 0})
        assert hands.positions() == {}
        assert nothing_more(stream)


def test_p19_a_new_group_begins_at_the_smallest_or_at_the_largest_offset_and_commits_it_at_once(
    cluster: Cluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    for index in range(2):
        simple.produce(cluster, topic, index, records(100))
    admin.delete_records(cluster, {(topic, 1): 30})
    claims = {(topic, 0): 0, (topic, 1): 0}
    smallest, largest = MemoryOffsets(), MemoryOffsets()
    with hands_of(cluster, [MessageStream()], smallest, auto_offset_reset="smallest") as hands:
        hands.start(claims)
        until(lambda: len(smallest.offsets) == 2)
    assert smallest.offsets == {(topic, 0): 0, (topic, 1): 30}
    with hands_of(
        cluster, [MessageStream()], largest, auto_offset_reset="largest", auto_commit_enable="false"
    ) as hands:
        hands.start(claims)
        until(lambda: len(largest.offsets) == 2)
    assert largest.offsets == {(topic, 0): 100, (topic, 1): 100}
    assert len(largest.commits) == 1
    # Its first consumer has died without a word; what came since is not missed.
    simple.produce(cluster, topic, 0, records(5, 100))
    stream = MessageStream()
    with hands_of(cluster, [stream], largest, auto_offset_reset="largest") as hands:
        hands.start(claims)
        assert numbers(read(stream, 5)) == {(topic, 0): list(range(100, 105))}


def test_where_a_group_begins_is_committed_later_when_it_cannot_be_at_once(
    cluster: Cluster, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    at = new_topic(), 0
    store = MemoryOffsets()
    store.refuses = True
    with hands_of(cluster, [MessageStream()], store) as hands:
        hands.start({at: 0})
        until(lambda: "could not be committed now" in caplog.text)
        store.refuses = False
        hands.commit()
    assert store.offsets == {at: 0}


def test_where_a_group_begins_is_committed_at_once_though_another_commit_is_under_way() -> None:
    one, two = ("t", 0), ("t", 1)
    store = MemoryOffsets({one: 5})

    def found(hands: Hands, at: TopicPartition, offset: int) -> None:
        hands._put(Chunk(*at, offset, offset, -1, b"", (), None, hands._fetcher._places[at]))

    with (
        ScriptedBroker() as broker,
        Cluster(broker.address) as cluster,
        hands_of(cluster, [MessageStream()], store) as hands,
    ):
        broker.handlers[Api.METADATA] = lambda _: metadata({0: broker.port}, {"t": [-1, -1]})  # nobody is asked

        def commit_while_the_other_is_found(offsets: Mapping[TopicPartition, int]) -> None:
            MemoryOffsets.commit(store, offsets)
            if one in offsets:
                found(hands, two, 3)

        store.commit = commit_while_the_other_is_found  # type: ignore[method-assign]
        hands.start({one: 0, two: 0})
        found(hands, one, 9)
        hands.commit()
        hands._commit_chosen()  # as the fetcher does once it has found where reading begins
        assert store.commits == [{one: 9}, {two: 3}]


def test_what_was_handed_out_since_is_not_committed_with_where_reading_began() -> None:
    one = ("t", 0)
    store = MemoryOffsets()
    stream = MessageStream(5.0)
    with (
        ScriptedBroker() as broker,
        Cluster(broker.address) as cluster,
        hands_of(cluster, [stream], store, auto_commit_enable="false") as hands,
    ):
        broker.handlers[Api.METADATA] = lambda _: metadata({0: broker.port}, {"t": [-1]})  # nobody is asked
        hands.start({one: 0})
        life = hands._fetcher._places[one]
        hands._put(Chunk(*one, 9, 9, -1, b"", (), None, life))
        store.refuses = True
        hands._commit_chosen()
        store.refuses = False
        hands._put(read_chunk(*one, 9, 10**6, encode_batch(records(5), base_offset=9))._replace(source=life))
        assert [next(stream).offset for _ in range(4)] == [9, 10, 11, 12]
        hands._commit_chosen()  # as the fetcher does when another partition begins
        assert store.commits == [{one: 9}]
        hands.commit(held=True)
        assert store.commits == [{one: 9}, {one: 13}]


@pytest.mark.parametrize(("reset", "begins"), [("smallest", 60), ("largest", 100)])
def test_an_offset_that_retention_has_passed_is_replaced_as_the_setting_says(
    cluster: Cluster, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture, reset: str, begins: int
) -> None:
    at = new_topic(), 0
    simple.produce(cluster, *at, records(100))
    admin.delete_records(cluster, {at: 60})
    store = MemoryOffsets({at: 10})
    stream = MessageStream()
    with hands_of(cluster, [stream], store, auto_offset_reset=reset) as hands:
        hands.start({at: 0})
        until(lambda: store.offsets[at] == begins)
        simple.produce(cluster, *at, records(1, 100))
        assert read(stream, 1)[0].offset == begins
    said = [record for record in caplog.records if "offset 10 of partition 0" in record.message]
    assert len(said) == 1
    assert said[0].levelno == logging.WARNING


def test_retention_that_passes_a_slow_reader_costs_it_nothing_that_was_fetched(
    cluster: Cluster, new_topic: NewTopicName
) -> None:
    at = new_topic(), 0
    for start in range(0, 100, 10):
        simple.produce(cluster, *at, records(10, start))
    store = MemoryOffsets({at: 0})
    stream = MessageStream()
    # A chunk is one batch: what lies far ahead has not been fetched when it goes.
    with hands_of(cluster, [stream], store, fetch_message_max_bytes="1") as hands:
        hands.start({at: 0})
        read(stream, 1)
        admin.delete_records(cluster, {at: 90})
        offsets = [0]
        while offsets[-1] < 99:
            offsets.append(read(stream, 1)[0].offset)
            hands.commit()
            assert store.offsets[at] <= offsets[-1]  # the new beginning is not committed before its turn
        gap = next(index for index in range(1, len(offsets)) if offsets[index] != index)
        assert offsets[gap:] == list(range(90, 100))
        assert gap <= 60


def test_a_classic_topic_is_resumed_after_any_message(cluster: Cluster, new_topic: NewTopicName) -> None:
    at = new_topic(classic="true"), 0
    for start in (0, 5, 10):
        simple.produce(cluster, *at, records(5, start), codec=Codec.GZIP if start == 5 else Codec.NONE)
    stream = MessageStream()
    with hands_of(cluster, [stream]) as hands:
        hands.start({at: 0})
        whole = read(stream, 15)
    assert numbers(whole) == {at: list(range(15))}
    assert whole[5].offset > 5 + 61  # a byte position: the first batch's header alone is 61 bytes
    for read_before, message in enumerate(whole, 1):
        stream = MessageStream()
        with hands_of(cluster, [stream], MemoryOffsets({at: message.next_offset})) as hands:
            hands.start({at: 0})
            if read_before < 15:
                assert read(stream, 1)[0] == whole[read_before]
    store = MemoryOffsets({at: 0})
    stream = MessageStream()
    with hands_of(cluster, [stream], store) as hands:
        hands.start({at: 0})
        read(stream, 15)
        hands.commit(held=True)
    assert store.offsets == simple.end(cluster, [at[0]])  # no lag is left


def test_a_partition_that_comes_later_is_read_beside_the_others(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    stream = MessageStream()
    with hands_of(cluster, [stream]) as hands:
        # Claimed before the brokers know it, as a watcher of ZooKeeper may do.
        hands.start({(topic, 0): 0, (topic, 1): 0})
        simple.produce(cluster, topic, 0, records(10))
        assert numbers(read(stream, 10)) == {(topic, 0): list(range(10))}
        admin.create_partitions(cluster, {topic: 2})
        simple.produce(cluster, topic, 1, records(10))
        assert numbers(read(stream, 10)) == {(topic, 1): list(range(10))}


def test_an_abandoned_stream_holds_up_no_other_and_holds_little(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    for index in range(2):
        for start in range(0, 200, 10):
            simple.produce(cluster, topic, index, records(10, start))
    abandoned, used = MessageStream(), MessageStream()
    with hands_of(cluster, [abandoned, used], fetch_message_max_bytes="1") as hands:
        hands.start({(topic, 0): 0, (topic, 1): 1})
        read(abandoned, 1)
        assert numbers(read(used, 200)) == {(topic, 1): list(range(200))}
        hands.stop([(topic, 1)])
        assert len(abandoned._line) <= 2


def test_the_end_comes_to_every_stream_that_waits(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    streams = [MessageStream(), MessageStream()]
    with hands_of(cluster, streams) as hands:
        hands.start({(topic, 0): 0, (topic, 1): 1})
        readers = [threading.Thread(target=lambda one=stream: list(one), daemon=True) for stream in streams]
        for reader in readers:
            reader.start()
        hands.close()
        for reader in readers:
            reader.join(LONG)
            assert not reader.is_alive()


class Reader(threading.Thread):
    """Reads a stream to its end and notes what it may not see: a partition that was stopped before it asked."""

    def __init__(self, stream: MessageStream, stopped: set[TopicPartition]) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.stopped = stopped
        self.wrong: list[Message] = []
        self.found: list[Message] = []

    def run(self) -> None:
        while True:
            before = frozenset(self.stopped)
            try:
                message = next(self.stream)
            except StopIteration:
                return
            if (message.topic, message.partition) in before:
                self.wrong.append(message)
            self.found.append(message)


def more_than(readers: list[Reader], count: int, other: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """The condition that the readers have got so many messages, or the other one."""
    return lambda: sum(len(reader.found) for reader in readers) > count or other()


def test_partitions_that_come_and_go_under_load_miss_nothing(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(6)
    for index in range(6):
        simple.produce(cluster, topic, index, records(3000), batch_bytes=2000)
    store = MemoryOffsets({(topic, index): 0 for index in range(6)})
    streams = [MessageStream(), MessageStream()]
    readers = [Reader(stream, set()) for stream in streams]
    with hands_of(cluster, streams, store, fetch_message_max_bytes="4000") as hands:
        for reader in readers:
            reader.start()
        hands.start({(topic, index): index % 2 for index in range(6)})
        turn = 0
        while any(offset < 3000 for offset in store.offsets.values()):
            at = topic, turn % 6
            seen = 50 + sum(len(reader.found) for reader in readers)
            until(more_than(readers, seen, lambda: min(hands.positions().values(), default=0) == 3000))
            hands.stop([at])
            committed = store.offsets[at]
            hands.start({at: (turn + 1) % 2})  # to the other stream
            assert committed == store.offsets[at]
            turn += 1
            hands.commit()
    for reader in readers:
        reader.join(LONG)
    for index in range(6):
        seen_offsets = {message.offset for reader in readers for message in reader.found if message.partition == index}
        assert seen_offsets == set(range(3000))


def test_no_message_comes_out_after_a_stop_has_returned(cluster: Cluster, new_topic: NewTopicName) -> None:
    topic = new_topic(8)
    for index in range(8):
        simple.produce(cluster, topic, index, records(3000), batch_bytes=2000)
    stopped: set[TopicPartition] = set()
    stream = MessageStream()
    reader = Reader(stream, stopped)
    store = MemoryOffsets()
    with hands_of(cluster, [stream], store, fetch_message_max_bytes="4000") as hands:
        hands.start({(topic, index): 0 for index in range(8)})
        reader.start()
        for index in range(7):
            until(more_than([reader], 200 * index))
            hands.stop([(topic, index)])
            stopped.add((topic, index))
        until(lambda: sum(message.partition == 7 for message in reader.found) == 3000)
    reader.join(LONG)
    assert reader.wrong == []
    for (_, index), offset in store.offsets.items():
        handed_out = [message.offset for message in reader.found if message.partition == index]
        assert handed_out == list(range(len(handed_out)))
        assert offset <= len(handed_out) <= offset + 2 or index == 7


def test_p22_a_message_damaged_on_its_way_is_raised_once_and_then_comes_whole() -> None:
    whole = encode_batch([(None, b"%d" % i, (), 1) for i in range(10)])
    damaged = bytearray(whole)
    damaged[-2] ^= 4
    answered = threading.Event()

    def leader(request: Request) -> object:
        (topic,) = request.body.topics
        (one,) = topic.partitions
        if one.fetch_offset >= 10:
            answered.wait(request.body.max_wait.total_seconds())
            return fetched({("t", 0): (Error.none, 10, b"")})
        first = broker.count(Api.FETCH) == 1
        return fetched({("t", 0): (Error.none, 10, bytes(damaged) if first else whole)})

    with ScriptedBroker({Api.FETCH: leader}) as broker:
        broker.handlers[Api.METADATA] = lambda _: metadata({0: broker.port}, {"t": [0]})
        store = MemoryOffsets({("t", 0): 0})
        stream = MessageStream(LONG)
        with (
            Cluster(broker.address, backoff=Backoff(0.001, 0.01)) as cluster,
            hands_of(cluster, [stream], store) as hands,
        ):
            hands.start({("t", 0): 0})
            with pytest.raises(KafkaError, match="partition 0 of 't': the records from offset 0 on are damaged"):
                next(stream)
            assert hands.positions() == {("t", 0): 0}
            assert numbers(read(stream, 10)) == {("t", 0): list(range(10))}
        answered.set()


def test_what_was_stopped_is_not_asked_for_any_more() -> None:
    asked: list[set[int]] = []
    ends = threading.Event()

    def leader(request: Request) -> object:
        (topic,) = request.body.topics
        asked.append({int(one.partition) for one in topic.partitions})
        ends.wait(request.body.max_wait.total_seconds())
        return fetched({("t", index): (Error.none, 0, b"") for index in asked[-1]})

    with ScriptedBroker({Api.FETCH: leader}) as broker:
        broker.handlers[Api.METADATA] = lambda _: metadata({0: broker.port}, {"t": [0, 0]})
        store = MemoryOffsets({("t", 0): 0, ("t", 1): 0})
        settings = {"fetch_wait_max_ms": "10"}
        with Cluster(broker.address) as cluster, hands_of(cluster, [MessageStream()], store, **settings) as hands:
            hands.start({("t", 0): 0, ("t", 1): 0})
            until(lambda: {0, 1} in asked)
            hands.stop([("t", 0)])
            before = len(asked)
            until(lambda: len(asked) > before + 3)
            assert all(one == {1} for one in asked[before + 1 :])
        ends.set()


def test_p21_a_killed_leader_costs_no_message_and_no_order(tmp_path: Path) -> None:
    settings = {"zookeeper.session.timeout.ms": "2000", "replica.lag.time.max.ms": "3000", "min.insync.replicas": "1"}
    with LocalCluster(tmp_path, 3, settings=settings) as local, Cluster(local.bootstrap) as cluster:
        admin.create_topics(cluster, [admin.NewTopic("t", 6, 3)])
        written = dict.fromkeys(range(6), 0)
        done = threading.Event()

        def write() -> None:
            count = 0
            with Writer(cluster, acks=-1, idempotent=True, batch_bytes=2000, timeout=LONG) as writer:
                while not done.is_set() or count < 3000:
                    writer.write("t", count % 6, (None, b"%d" % (count // 6), (), int(time.time() * 1000)))
                    written[count % 6] = count // 6 + 1
                    count += 1
                    if count % 60 == 0:
                        done.wait(0.002)

        writing = threading.Thread(target=write, daemon=True)
        stream = MessageStream(LONG)
        with hands_of(cluster, [stream]) as hands:
            hands.start({("t", index): 0 for index in range(6)})
            writing.start()
            found = numbers(read(stream, 600))
            victim = cluster.leader("t", 0)
            local.brokers[victim].kill()
            cluster.forget()
            until(lambda: _leader_now(cluster) not in (victim, -1))
            for at, values in numbers(read(stream, 1200)).items():
                found[at] += values
            done.set()
            writing.join(LONG)
            left = sum(written.values()) - sum(map(len, found.values()))
            for at, values in numbers(read(stream, left)).items():
                found[at] += values
        assert found == {("t", index): list(range(count)) for index, count in written.items()}


def _leader_now(cluster: Cluster) -> int:
    try:
        return cluster.metadata(["t"]).topics["t"].partitions[0].leader
    except KafkaError:
        return -1
