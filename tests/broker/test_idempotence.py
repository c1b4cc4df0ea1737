"""Idempotent producers: what was written is not written twice, whatever is sent again and whoever dies in between."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.decode import decode_records
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.cluster import LocalCluster
from tests.broker.calls import init_producer_id, set_configs
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import Raw, fetch, produce, produce_frame, produced


class Producer:
    """Numbers its batches as an idempotent producer does."""

    def __init__(self, raw: Raw, topic: str, epoch: int = 0) -> None:
        self.raw = raw
        self.topic = topic
        self.epoch = epoch
        self.id = int(init_producer_id(raw).producer_id)

    def batch(self, sequence: int, count: int = 1, **more: Any) -> bytes:
        # Records of now: a producer whose last record is a day old is forgotten.
        records = [(None, b"%d" % (sequence + n), (), int(time.time() * 1000)) for n in range(count)]
        return encode_batch(
            records, **{"producer_id": self.id, "producer_epoch": self.epoch, "base_sequence": sequence, **more}
        )

    def send(self, sequence: int, count: int = 1, **more: Any) -> tuple[Error, int]:
        error, offset = produce(self.raw, self.topic, self.batch(sequence, count, **more))
        return Error(error), offset


def values(raw: Raw, topic: str) -> list[bytes | None]:
    return [r.value for r in decode_records(fetch(raw, topic, 0)[2])]


@pytest.fixture(params=["ordinary", "classic"])
def producer(request: pytest.FixtureRequest, raw: Raw, topic_with: MakeTopic) -> Producer:
    configs = {"classic": "true", "flush.messages": "1"} if request.param == "classic" else {}
    return Producer(raw, topic_with(configs=configs))


def test_a_duplicate_is_answered_with_its_first_offset(producer: Producer) -> None:
    first = producer.send(0, 3)
    second = producer.send(3, 2)
    assert first == (Error.none, 0)
    assert producer.send(0, 3) == first
    assert producer.send(3, 2) == second
    assert producer.send(5)[0] is Error.none
    assert producer.send(3, 2) == second


def test_each_of_the_last_five_batches_is_known_and_an_older_one_is_out_of_order(producer: Producer) -> None:
    answers = [producer.send(n) for n in range(7)]
    assert all(error is Error.none for error, _ in answers)
    for number in (2, 3, 4, 5, 6):
        assert producer.send(number) == answers[number]
    for number in (0, 1):
        assert producer.send(number)[0] is Error.out_of_order_sequence_number


def test_a_gap_is_refused_and_the_batch_that_is_due_still_taken(producer: Producer) -> None:
    assert producer.send(0, 2)[0] is Error.none
    assert producer.send(3)[0] is Error.out_of_order_sequence_number
    assert producer.send(1)[0] is Error.out_of_order_sequence_number
    assert producer.send(2)[0] is Error.none


def test_pipelined_duplicates_are_found_before_the_first_is_even_answered(producer: Producer) -> None:
    raw, topic = producer.raw, producer.topic
    frames = [produce_frame(topic, producer.batch(n)) for n in range(5)]
    raw.send(b"".join(frames + frames + frames))
    answers = [produced(raw, topic) for _ in range(15)]
    assert answers[:5] == answers[5:10] == answers[10:]
    assert [error for error, _ in answers] == [0] * 15


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(producer: Producer) -> None:
    assert producer.send(0, 3)[0] is Error.none
    assert producer.send(3, producer_epoch=1)[0] is Error.out_of_order_sequence_number
    assert producer.send(0, producer_epoch=1)[0] is Error.none
    assert producer.send(3, producer_epoch=0)[0] is Error.invalid_producer_epoch
    assert producer.send(1, producer_epoch=1)[0] is Error.none


def test_a_producer_that_nobody_knows_may_begin_anywhere(producer: Producer) -> None:
    """Its earlier batches may have gone with their segments; Kafka takes it too."""
    assert producer.send(1000, 2)[0] is Error.none
    assert producer.send(1001)[0] is Error.out_of_order_sequence_number
    assert producer.send(1002)[0] is Error.none


def test_sequences_wrap_around(producer: Producer) -> None:
    last = 2**31 - 1
    assert producer.send(last - 1)[0] is Error.none
    assert producer.send(last, 3)[0] is Error.none
    again = producer.send(2)
    assert again[0] is Error.none
    assert producer.send(2) == again


@pytest.mark.parametrize("wrong", [{"producer_epoch": -1}, {"base_sequence": -1}])
@pytest.mark.parametrize("known", ["nothing", "the request", "the producer"])
def test_an_id_without_an_epoch_or_a_sequence_is_refused(producer: Producer, wrong: dict[str, int], known: str) -> None:
    if known != "nothing":
        assert producer.send(0)[0] is Error.none
    if known == "the request":
        producer = Producer(producer.raw, producer.topic)
    assert producer.send(1, **wrong)[0] is Error.invalid_record


def test_producers_and_partitions_do_not_mix(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(2)
    one, two = Producer(raw, topic), Producer(raw, topic)
    for partition in (0, 1):
        for producer in (one, two):
            assert produce(raw, topic, producer.batch(0), partition=partition)[0] == 0
    for partition in (0, 1):
        for producer, offset in ((one, 0), (two, 1)):
            assert produce(raw, topic, producer.batch(0), partition=partition) == (0, offset)


def test_a_refused_batch_leaves_no_trace_in_the_sequence(raw: Raw, kafka_topic: str) -> None:
    producer = Producer(raw, kafka_topic)
    set_configs(raw, kafka_topic, max_message_bytes="80")
    assert producer.send(0, 50)[0] is Error.message_too_large
    assert producer.send(0)[0] is Error.none


@pytest.mark.parametrize("how", ["a clean restart", "kill -9"])
@pytest.mark.parametrize("classic", [False, True])
def test_what_was_written_is_known_after(restartable: LocalCluster, how: str, classic: bool) -> None:
    broker = restartable.brokers[0]
    configs = {"classic": "true", "flush.messages": "1"} if classic else {"segment.bytes": "500"}
    topic = make_topic(broker.address, configs=configs)
    with Raw(broker.address) as raw:
        producer = Producer(raw, topic)
        answers = [producer.send(n) for n in range(8)]
        assert producer.send(0, producer_epoch=1)[0] is Error.none
        other = Producer(raw, topic)
        others = [other.send(n) for n in range(3)]
    if how == "kill -9":
        broker.kill()
    else:
        broker.stop()
    broker.start()
    broker.wait_ready()
    with Raw(broker.address) as raw:
        producer.raw = other.raw = raw
        assert producer.send(8)[0] is Error.invalid_producer_epoch
        assert producer.send(2, producer_epoch=1)[0] is Error.out_of_order_sequence_number
        assert producer.send(1, producer_epoch=1)[0] is Error.none
        for number in range(3):
            assert other.send(number) == others[number]
        assert other.send(4)[0] is Error.out_of_order_sequence_number
        assert other.send(3)[0] is Error.none
    assert len({offset for _, offset in answers}) == 8
