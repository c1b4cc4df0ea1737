"""Messages and sets to a real broker: order, codecs, keys, batches, acks, futures; read back by other clients too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaConsumer, TopicPartition

from kafka_classic import Producer
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.fetch_packed import VERSION, FetchLimits, pack_fetch, read_fetched
from kafka_classic.producer import ProducerClosed, RecordFuture, RecordTooLarge, partition_for_key
from kafka_classic.producer.futures import RecordMetadata
from kafka_classic.records.batch import BatchHeader, iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import KafkaError
from tests.producer.reading import new_topic, read, values

FIVE = [b"%d" % i for i in range(5)]


@pytest.fixture
def producer(kafka_bootstrap: str) -> Iterator[Producer]:
    with Producer(kafka_bootstrap) as producer:
        yield producer


def batches(bootstrap: str, topic: str) -> list[BatchHeader]:
    with Cluster(bootstrap) as cluster:
        request = pack_fetch({(topic, 0): 0}, FetchLimits(max_wait_ms=0))
        leader = cluster.connection(cluster.leader(topic, 0))
        _, answers = leader.send_packed(Api.FETCH, VERSION, request, read_fetched).result()
        return [header for _, header in iter_batches(answers[topic, 0].records)]


def test_a_message_is_acknowledged_with_its_place(producer: Producer, kafka_topic: str) -> None:
    assert producer.send(kafka_topic, b"one", timestamp=123).result(30) == RecordMetadata(kafka_topic, 0, 0, 123)
    assert producer.send(kafka_topic, b"two").result(30).offset == 1


def test_key_value_headers_and_timestamp_arrive(producer: Producer, kafka_topic: str, kafka_bootstrap: str) -> None:
    producer.send(kafka_topic, b"v", key=b"k", headers={"a": b"1", "b": None}, timestamp=1234567890123)
    producer.send(kafka_topic, None, key=bytearray(b"gone"), headers=[("a", b"1"), ("a", b"2")], timestamp=1)
    producer.flush()
    first, second = read(kafka_bootstrap, kafka_topic)[0]
    assert first[1:] == (1234567890123, b"k", b"v", (("a", b"1"), ("b", None)))
    assert second[1:] == (1, b"gone", None, (("a", b"1"), ("a", b"2")))


def test_p1_a_set_of_messages_is_published_by_one_call_as_one_batch(
    producer: Producer, kafka_topic: str, kafka_bootstrap: str
) -> None:
    placed = producer.send_batch(kafka_topic, FIVE).result(30)
    assert [place.offset for place in placed] == [0, 1, 2, 3, 4]
    assert values(kafka_bootstrap, kafka_topic) == FIVE
    assert [header.record_count for header in batches(kafka_bootstrap, kafka_topic)] == [5]
    empty = producer.send_batch(kafka_topic, [])
    told: list[object] = []
    empty.add_done_callback(told.append)
    assert (empty.result(0), told) == ([], [empty])


def test_a_set_larger_than_a_request_is_cut_and_keeps_its_order(kafka_topic: str, kafka_bootstrap: str) -> None:
    many = [b"%05d" % i + bytes(200) for i in range(1000)]
    with Producer(kafka_bootstrap, max_request_size=50_000) as producer:
        placed = producer.send_batch(kafka_topic, many).result(30)
    assert [place.offset for place in placed] == list(range(1000))
    assert values(kafka_bootstrap, kafka_topic) == many


def test_a_batch_size_beyond_what_a_request_may_hold_loses_nothing(kafka_topic: str, kafka_bootstrap: str) -> None:
    with Producer(kafka_bootstrap, batch_size=8 << 20, linger_ms=60_000) as producer:
        futures = [producer.send(kafka_topic, bytes(10_000)) for _ in range(250)]
        producer.flush(60)
        assert [future.result(0).offset for future in futures] == list(range(250))


@pytest.mark.parametrize("settings", [{}, {"acks": 1}, {"enable_idempotence": False}, {"linger_ms": 5}])
def test_messages_of_a_partition_keep_their_order(
    settings: dict[str, Any], kafka_topic: str, kafka_bootstrap: str
) -> None:
    sent = [b"%d" % i for i in range(5000)]
    with Producer(kafka_bootstrap, batch_size=1000, **settings) as producer:
        futures = [producer.send(kafka_topic, value) for value in sent]
        producer.flush()
        assert [future.result(0).offset for future in futures] == list(range(5000))
    assert values(kafka_bootstrap, kafka_topic) == sent


def test_messages_and_sets_keep_the_order_of_their_calls(
    producer: Producer, kafka_topic: str, kafka_bootstrap: str
) -> None:
    for i in range(0, 300, 3):
        producer.send(kafka_topic, b"%d" % i)
        producer.send_batch(kafka_topic, [b"%d" % (i + 1), b"%d" % (i + 2)])
    producer.flush()
    assert values(kafka_bootstrap, kafka_topic) == [b"%d" % i for i in range(300)]


def test_threads_may_share_a_producer(producer: Producer, kafka_topic: str, kafka_bootstrap: str) -> None:
    def send(name: int) -> None:
        for i in range(500):
            producer.send(kafka_topic, b"%d %d" % (name, i))
        producer.send(kafka_topic, b"%d 500" % name).result(30)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = values(kafka_bootstrap, kafka_topic)
    for name in range(4):
        own = [value for value in found if value and value.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, i) for i in range(501)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_packs_whole_batches_and_others_read_them(
    codec: str, kafka_topic: str, kafka_bootstrap: str
) -> None:
    sent = [b"a message like any other %d" % i for i in range(100)]
    with Producer(kafka_bootstrap, {"compression.type": codec}) as producer:
        producer.send_batch(kafka_topic, sent)
    (header,) = batches(kafka_bootstrap, kafka_topic)
    assert (header.codec, header.record_count) == (Codec[codec.upper()], 100)

    config = {"bootstrap.servers": kafka_bootstrap, "group.id": "unused", "enable.auto.commit": False}
    librdkafka = LibrdkafkaConsumer(config)
    librdkafka.assign([LibrdkafkaPartition(kafka_topic, 0, 0)])
    try:
        assert [message.value() for message in librdkafka.consume(100, 30)] == sent
    finally:
        librdkafka.close()
    kafka_python = KafkaConsumer(bootstrap_servers=kafka_bootstrap, group_id=None, auto_offset_reset="earliest")
    kafka_python.assign([TopicPartition(kafka_topic, 0)])
    try:
        assert [next(kafka_python).value for _ in range(100)] == sent
    finally:
        kafka_python.close()


def test_a_key_goes_to_the_partition_of_the_java_client(producer: Producer, kafka_bootstrap: str) -> None:
    topic = new_topic(kafka_bootstrap, 7)
    futures = {b"key-%d" % i: producer.send(topic, b"v", key=b"key-%d" % i) for i in range(50)}
    assert all(future.result(30).partition == partition_for_key(key, 7) for key, future in futures.items())


@pytest.mark.parametrize("partitioner", ["sticky", "random", "round_robin"])
def test_messages_without_a_key_reach_all_partitions(partitioner: str, kafka_bootstrap: str) -> None:
    topic = new_topic(kafka_bootstrap, 3)
    with Producer(kafka_bootstrap, partitioner=partitioner, batch_size=100) as producer:
        futures = [producer.send(topic, b"x" * 30) for _ in range(300)]
        assert {future.result(30).partition for future in futures} == {0, 1, 2}


def test_a_partition_may_be_named_and_must_be_there(producer: Producer, kafka_bootstrap: str) -> None:
    topic = new_topic(kafka_bootstrap, 3)
    assert producer.send(topic, b"v", partition=2).result(30).partition == 2
    with pytest.raises(UnknownTopic, match="no partition 3: it has 3"):
        producer.send(topic, b"v", partition=3)


def test_a_batch_is_sent_when_it_is_full_however_long_it_may_linger(kafka_topic: str, kafka_bootstrap: str) -> None:
    with Producer(kafka_bootstrap, linger_ms=60_000, batch_size=1000) as producer:
        first = [producer.send(kafka_topic, bytes(100)) for _ in range(10)]
        first[0].result(30)
        assert not first[-1].done()
    assert [header.record_count for header in batches(kafka_bootstrap, kafka_topic)] == [8, 2]


def test_messages_that_come_while_a_batch_lingers_go_with_it(kafka_topic: str, kafka_bootstrap: str) -> None:
    with Producer(kafka_bootstrap, linger_ms=60_000) as producer:
        futures = [producer.send(kafka_topic, value) for value in FIVE]
        assert not any(future.done() for future in futures)
        producer.flush()
        assert all(future.done() for future in futures)
    assert [header.record_count for header in batches(kafka_bootstrap, kafka_topic)] == [5]


def test_a_lingering_batch_goes_by_itself(kafka_topic: str, kafka_bootstrap: str) -> None:
    decided = threading.Event()
    with Producer(kafka_bootstrap, linger_ms=20) as producer:
        producer.send(kafka_topic, b"v").add_done_callback(lambda _: decided.set())
        assert decided.wait(30)


def test_a_failure_inside_is_logged_and_what_is_gathered_goes_all_the_same(
    kafka_topic: str, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decided = threading.Event()
    with Producer(kafka_bootstrap, linger_ms=20) as producer:
        keep_time, failures = producer._sender._keep_time, [RuntimeError("on purpose")]

        def fail_once() -> float:
            if failures:
                raise failures.pop()
            return keep_time()

        monkeypatch.setattr(producer._sender, "_keep_time", fail_once)
        producer.send(kafka_topic, b"v").add_done_callback(lambda _: decided.set())
        assert decided.wait(30)
    assert "on purpose" in caplog.text


def test_closing_sends_what_is_gathered_and_ends_the_producer(kafka_topic: str, kafka_bootstrap: str) -> None:
    before = threading.active_count()
    producer = Producer(kafka_bootstrap, linger_ms=60_000)
    future = producer.send(kafka_topic, b"v")
    producer.close()
    producer.close()
    assert future.result(0).offset == 0
    assert threading.active_count() == before
    with pytest.raises(ProducerClosed):
        producer.send(kafka_topic, b"late")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_sync_sends_each_call_as_a_request_of_its_own(acks: str, kafka_topic: str, kafka_bootstrap: str) -> None:
    with Producer(kafka_bootstrap, sync=True, acks=acks, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        futures = [producer.send(kafka_topic, b"%d" % i) for i in range(100)]
    expected = [-1] * 100 if acks == "0" else list(range(100))
    assert [future.result(0).offset for future in futures] == expected
    assert [header.record_count for header in batches(kafka_bootstrap, kafka_topic)] == [1] * 100
    assert values(kafka_bootstrap, kafka_topic) == [b"%d" % i for i in range(100)]


def test_without_acks_all_that_was_sent_arrives_before_the_end(kafka_topic: str, kafka_bootstrap: str) -> None:
    with Producer(kafka_bootstrap, acks=0) as producer:
        for i in range(100):
            producer.send_batch(kafka_topic, [b"%d" % i + bytes(10_000)] * 10)
    # Nobody answers: what follows on another connection may be served first.
    with Cluster(kafka_bootstrap) as cluster:
        cluster.brokers()
        cluster.retrying(lambda: _require(kafka_bootstrap, kafka_topic, 1000))


def _require(bootstrap: str, topic: str, count: int) -> None:
    found = len(read(bootstrap, topic)[0])
    if found != count:
        raise KafkaError(7, f"{found} of {count}")


def test_a_future_tells_its_callbacks_and_shares_a_failure(producer: Producer, kafka_bootstrap: str) -> None:
    topic = new_topic(kafka_bootstrap, configs={"max.message.bytes": "1000"})
    told: list[RecordFuture] = []
    bad = producer.send(topic, bytes(2000))
    bad.add_done_callback(told.append)
    error = bad.exception(30)
    assert isinstance(error, KafkaError)
    assert error.name == "MESSAGE_TOO_LARGE"
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        bad.result(0)
    producer.flush()
    assert told == [bad]
    assert (bad.done(), bad.running(), bad.cancel()) == (True, False, False)
    bad.add_done_callback(told.append)
    assert told == [bad, bad]
    # The failed batch's numbers are missing at the broker: what follows must get through all the same.
    assert [producer.send(topic, b"%d" % i).result(30).offset for i in range(3)] == [0, 1, 2]


def test_what_can_never_be_sent_is_refused_at_once(producer: Producer, kafka_topic: str) -> None:
    with pytest.raises(RecordTooLarge, match=r"larger than max\.request\.size"):
        producer.send(kafka_topic, bytes(2 << 20))
    with pytest.raises(TypeError, match="a value is bytes, not str: encode it"):
        producer.send(kafka_topic, "text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a header's value is bytes, not int"):
        producer.send(kafka_topic, b"v", headers={"a": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a header's name is str, not bytes"):
        producer.send(kafka_topic, b"v", headers=[(b"a", b"1")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="a timestamp counts milliseconds"):
        producer.send(kafka_topic, b"v", timestamp=2**63)
    with pytest.raises(KafkaError, match="INVALID_TOPIC"):
        producer.send("no/topic", b"v")


def test_an_address_nobody_answers_on_is_told_at_once() -> None:
    with Producer("127.0.0.1:1") as producer, pytest.raises(KafkaError, match="cannot reach broker"):
        producer.send("t", b"v")


def test_a_topic_is_created_by_the_first_message(producer: Producer, kafka_cluster: LocalCluster) -> None:
    name = f"{new_topic(kafka_cluster.bootstrap)}-auto"
    assert producer.send(name, b"v").result(30).offset == 0
