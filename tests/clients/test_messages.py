"""What a message may be: any size, with or without key, value, headers, and with a time of its own."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition

from tests.clients.conftest import PARTIES, MakeTopic, installed
from tests.clients.parties import DEADLINE_S, Got, Party, Sent, numbered, read
from tests.clients.with_librdkafka import consumer_of, next_message

HOUR_MS = 3_600_000


def _read_by_all(bootstrap: str, topic: str, partition: int = 0) -> list[Got]:
    """What the first client reads, once every client has read the same."""
    parties = installed()
    found = [read(party, bootstrap, topic, partition=partition) for party in parties]
    for party, messages in zip(parties, found, strict=True):
        assert messages == found[0], party.name
    return found[0]


def test_a_null_key_a_null_value_and_an_empty_value_are_told_apart(
    party: Party, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    sent = [Sent(b"value"), Sent(b"value", b"key"), Sent(None, b"key"), Sent(b"", b"key")]
    if party.name != "kcat":  # which sends no message for an empty line
        sent += [Sent(b""), Sent(b"value", b"")]
    if party.name == "librdkafka":  # the others want one of the two
        sent.append(Sent(None))
    party.produce(bootstrap, topic, sent)
    assert [(m.key, m.value) for m in _read_by_all(bootstrap, topic)] == [(m.key, m.value) for m in sent]


def test_headers_arrive_in_order_with_repeated_names(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = (("trace", b"1"), ("empty", b""), ("trace", b"2"), ("größe", "ä".encode()))
    sent = [Sent(b"with", headers=headers), Sent(b"without"), Sent(b"one", b"key", headers[:1])]
    party.produce(bootstrap, topic, sent)
    assert [m.headers for m in _read_by_all(bootstrap, topic)] == [m.headers for m in sent]


def test_a_header_may_be_null(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    if party.name in ("kcat", "kafka-python"):
        pytest.skip(f"{party.name} cannot send a header without a value")
    topic = make_topic()
    party.produce(bootstrap, topic, [Sent(b"value", headers=(("nothing", None),))])
    assert _read_by_all(bootstrap, topic)[0].headers == (("nothing", None),)


def test_messages_of_one_byte_to_ten_megabytes_pass(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"max.message.bytes": str(16 << 20)})
    rng = random.Random(party.name)
    sent = [Sent(rng.randbytes(size)) for size in (10_000_000, 5_000, 1_000_000, 65_537)]
    sent += [Sent(b"x"), Sent(b"y" * 10), Sent(b"z" * 1000)]
    party.produce(bootstrap, topic, sent)
    found = _read_by_all(bootstrap, topic)
    assert [len(m.value or b"") for m in found] == [len(m.value or b"") for m in sent]
    assert [m.value for m in found] == [m.value for m in sent]


def test_ten_megabytes_pass_compressed(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"max.message.bytes": str(16 << 20)})
    sent = [Sent(b"ten megabytes of it. " * 500_000)]
    party.produce(bootstrap, topic, sent, codec="zstd")
    assert [m.value for m in _read_by_all(bootstrap, topic)] == [m.value for m in sent]


def test_a_timestamp_of_the_producer_is_kept(party: Party, bootstrap: str, make_topic: MakeTopic) -> None:
    if party.name == "kcat":
        pytest.skip("kcat cannot set a timestamp")
    topic = make_topic()
    first = int(time.time() * 1000) - 100 * HOUR_MS
    # Not in order: a producer may know more than one clock.
    times = [first, first + 5000, first + 1000, first + HOUR_MS, first + 999]
    party.produce(bootstrap, topic, [Sent(b"%d" % t, timestamp=t) for t in times])
    assert [m.timestamp for m in _read_by_all(bootstrap, topic)] == times


def test_a_topic_of_log_append_time_gives_messages_the_time_of_the_broker(
    party: Party, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    old = None if party.name == "kcat" else before - HOUR_MS
    party.produce(bootstrap, topic, [m._replace(timestamp=old) for m in numbered(5)])
    after = int(time.time() * 1000)
    assert all(before - 1 <= m.timestamp <= after for m in _read_by_all(bootstrap, topic))


def test_a_consumer_is_told_whose_clock_a_timestamp_is(bootstrap: str, make_topic: MakeTopic) -> None:
    for kind, expected in (("CreateTime", TIMESTAMP_CREATE_TIME), ("LogAppendTime", TIMESTAMP_LOG_APPEND_TIME)):
        topic = make_topic(configs={"message.timestamp.type": kind})
        PARTIES[0].produce(bootstrap, topic, numbered(1))
        consumer = consumer_of(bootstrap)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert next_message(consumer, time.monotonic() + DEADLINE_S).timestamp()[0] == expected
        consumer.close()


def test_messages_of_one_key_stay_together_and_in_order_over_many_partitions(
    party: Party, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=4)
    sent = [Sent(b"%d" % i, b"key %d" % (i % 40), partition=None) for i in range(400)]
    party.produce(bootstrap, topic, sent)
    found = [m for partition in range(4) for m in read(party, bootstrap, topic, partition=partition)]
    assert sorted(int(m.value or b"") for m in found) == list(range(400))
    homes: dict[bytes | None, int] = {}
    last: dict[bytes | None, int] = {}
    for message in found:
        assert homes.setdefault(message.key, message.partition) == message.partition
        assert last.get(message.key, -1) < int(message.value or b"")
        last[message.key] = int(message.value or b"")
    assert len(set(homes.values())) > 1
