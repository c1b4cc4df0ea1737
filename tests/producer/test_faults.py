"""Brokers that die, pause and come back: nothing lost, nothing twice, nothing out of order, nothing without bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from kafka_classic import Producer
from kafka_classic.client.admin import create_partitions
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import RequestTimedOut
from kafka_classic.producer import BufferExhausted, DeliveryTimedOut, ProducerClosed, SetFuture
from kafka_classic.settings import MAX_INT
from kafka_classic.testing.cluster import LocalCluster
from tests.producer.reading import new_topic, read, values

QUICK = {"request_timeout_ms": 300, "delivery_timeout_ms": 600}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("three"), 3) as cluster:
        yield cluster


def sent_in_order(producer: Producer, topic: str, first: int, count: int) -> list[SetFuture]:
    starts = range(first, first + count, 10)
    return [producer.send_batch(topic, [b"%d" % j for j in range(i, i + 10)]) for i in starts]


def send_patiently(producer: Producer, topic: str, value: bytes) -> int:
    """A busy machine may need longer than a short max.block.ms; what is told too late is known the next time."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return producer.send(topic, value).result(30).offset
        except RequestTimedOut:
            assert time.monotonic() < deadline


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_killed_and_restarted_broker_gets_every_message_once_and_in_order(
    in_flight: int, kafka_cluster: LocalCluster
) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, max_in_flight_requests_per_connection=in_flight) as producer:
        futures = sent_in_order(producer, topic, 0, 5000)
        kafka_cluster.brokers[0].kill()
        futures += sent_in_order(producer, topic, 5000, 5000)
        kafka_cluster.brokers[0].start()
        kafka_cluster.brokers[0].wait_ready(60)
        futures += sent_in_order(producer, topic, 10_000, 5000)
        producer.flush(60)
        assert [place.offset for future in futures for place in future.result(0)] == list(range(15_000))
    assert values(kafka_cluster.bootstrap, topic) == [b"%d" % i for i in range(15_000)]


def test_a_pause_longer_than_the_request_timeout_makes_no_duplicate(kafka_cluster: LocalCluster) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, request_timeout_ms=200) as producer:
        producer.send(topic, b"0").result(30)
        kafka_cluster.brokers[0].pause()
        try:
            # Written to the socket now, answered by nobody, sent again on another connection later.
            futures = [producer.send(topic, b"%d" % i) for i in range(1, 101)]
            waited = time.monotonic() + 30
            while not futures[0]._batch.attempts:
                assert time.monotonic() < waited
                with pytest.raises(TimeoutError):
                    futures[0].result(0.05)
        finally:
            kafka_cluster.brokers[0].resume()
        assert [future.result(30).offset for future in futures] == list(range(1, 101))
    assert values(kafka_cluster.bootstrap, topic) == [b"%d" % i for i in range(101)]


def test_what_no_broker_takes_is_given_up_and_what_follows_is_delivered(kafka_cluster: LocalCluster) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, QUICK) as producer:
        assert producer.send(topic, b"first").result(30).offset == 0
        kafka_cluster.brokers[0].pause()
        try:
            lost = [producer.send(topic, b"lost %d" % i) for i in range(3)]
            for future in lost:
                assert isinstance(future.exception(30), DeliveryTimedOut)
        finally:
            kafka_cluster.brokers[0].resume()
        with Cluster(kafka_cluster.bootstrap) as cluster:
            cluster.brokers()  # it serves again
    with Producer(kafka_cluster.bootstrap) as producer:
        producer.send(topic, b"last").result(30)
    found = values(kafka_cluster.bootstrap, topic)
    assert (found[0], found[-1]) == (b"first", b"last")
    assert len(found) == len(set(found))


def test_memory_is_bounded_and_a_full_buffer_is_told_after_max_block_ms(kafka_cluster: LocalCluster) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, buffer_memory=100_000, max_block_ms=50, linger_ms=1) as producer:
        send_patiently(producer, topic, b"first")
        kafka_cluster.brokers[0].pause()
        try:
            while producer._sender.memory.used + 1021 <= 100_000:
                producer.send(topic, bytes(1000))
            with pytest.raises(BufferExhausted, match=r"became free within max\.block\.ms"):
                producer.send(topic, bytes(1000))
            assert 90_000 < producer._sender.memory.used <= 100_000
        finally:
            kafka_cluster.brokers[0].resume()
        producer.flush(60)
        assert producer._sender.memory.used == 0
        producer.send(topic, b"again").result(30)


def test_a_topic_that_nobody_tells_of_is_waited_for_no_longer_than_max_block_ms(kafka_cluster: LocalCluster) -> None:
    known, other = new_topic(kafka_cluster.bootstrap), new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, max_block_ms=100) as producer:
        send_patiently(producer, known, b"first")
        kafka_cluster.brokers[0].pause()
        try:
            answered = threading.Event()
            failures: list[Exception] = []

            def send() -> None:
                try:
                    producer.send(other, b"second")
                except RequestTimedOut as error:
                    failures.append(error)
                answered.set()

            threading.Thread(target=send, daemon=True).start()
            # The broker is silent until it is let go on: whatever ends the wait, it is not its answer.
            assert answered.wait(4.0), "a send() that may wait for 0.1 s waits for the broker's answer"
            assert "max.block.ms" in str(failures[0])
        finally:
            kafka_cluster.brokers[0].resume()
        assert send_patiently(producer, other, b"third") == 0


def test_a_send_waits_for_memory_and_goes_on(kafka_bootstrap: str, kafka_topic: str) -> None:
    sent = [b"%d" % i + bytes(1000) for i in range(3000)]
    with Producer(kafka_bootstrap, buffer_memory=20_000, linger_ms=60_000, batch_size=1 << 20) as producer:
        for value in sent:
            producer.send(kafka_topic, value)
            assert producer._sender.memory.used <= 20_000
    assert values(kafka_bootstrap, kafka_topic) == sent


def test_closing_with_a_timeout_gives_up_the_rest(kafka_cluster: LocalCluster) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    producer = Producer(kafka_cluster.bootstrap)
    producer.send(topic, b"first").result(30)
    kafka_cluster.brokers[0].pause()
    try:
        future = producer.send(topic, b"never answered")
        producer.close(0.1)
    finally:
        kafka_cluster.brokers[0].resume()
    assert isinstance(future.exception(0), ProducerClosed)


def test_retries_can_be_bounded(kafka_cluster: LocalCluster) -> None:
    topic = new_topic(kafka_cluster.bootstrap)
    with Producer(kafka_cluster.bootstrap, retries=0) as producer:
        producer.send(topic, b"first").result(30)
        kafka_cluster.brokers[0].pause()
        future = producer.send(topic, b"second")
        with pytest.raises(TimeoutError):
            future.result(0.05)  # on its way
        kafka_cluster.brokers[0].kill()
        kafka_cluster.brokers[0].start()
        kafka_cluster.brokers[0].wait_ready(60)
        error = future.exception(30)
        assert "NETWORK_EXCEPTION" in str(error)
        producer.send(topic, b"third").result(60)


def test_three_brokers_each_get_their_partitions_in_order(three: LocalCluster) -> None:
    topic = new_topic(three.bootstrap, 6)
    with Producer(three.bootstrap, batch_size=500) as producer:
        futures = [producer.send(topic, b"%d" % i, partition=i % 6) for i in range(3000)]
        producer.flush(60)
        assert [future.result(0).offset for future in futures] == [i // 6 for i in range(3000)]
    found = read(three.bootstrap, topic)
    for partition in range(6):
        assert [record.value for record in found[partition]] == [b"%d" % i for i in range(partition, 3000, 6)]


def test_a_broker_that_is_down_holds_up_only_its_own_partitions(three: LocalCluster) -> None:
    topic = new_topic(three.bootstrap, 3)
    with Cluster(three.bootstrap) as cluster:
        leaders = {partition: cluster.leader(topic, partition) for partition in range(3)}
    down = next(partition for partition, leader in leaders.items() if leader == 2)
    with Producer(three.bootstrap) as producer:
        for partition in range(3):
            producer.send(topic, b"before", partition=partition).result(30)
        three.brokers[2].kill()
        try:
            held_up = producer.send(topic, b"held up", partition=down)
            for partition in set(range(3)) - {down}:
                assert producer.send(topic, b"during", partition=partition).result(30).offset == 1
            assert not held_up.done()
        finally:
            three.brokers[2].start()
            three.brokers[2].wait_ready(60)
        assert held_up.result(60).offset == 1


def test_a_new_broker_found_through_zookeeper_is_used_without_a_restart(three: LocalCluster) -> None:
    topic = new_topic(three.bootstrap, 1)
    with Producer(zookeeper=three.zookeeper, partitioner="round_robin", metadata_max_age_ms=MAX_INT) as producer:
        assert producer.send(topic, b"v").result(30).partition == 0
        new = three.add_broker()
        with Cluster(three.bootstrap) as cluster:
            create_partitions(cluster, {topic: 8})
            led = {partition for partition in range(8) if cluster.leader(topic, partition) == new.id}
        assert led
        deadline = time.monotonic() + 30
        while producer.send(topic, b"v").result(30).partition not in led:
            assert time.monotonic() < deadline
        assert new.address in ",".join(f"{host}:{port}" for host, port in producer._cluster._bootstrap)
