"""Classic topics as a client meets them: nothing is seen before it is flushed (P5), and offsets are bytes (P6)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.batch import iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.calls import change_configs, config, delete_records, list_offsets, set_configs
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import NOW_MS, Raw, batch, fetch, fetch_frame, fetched, produce

LONG = 300_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
NEVER = {"classic": "true", "flush.messages": "1000000", "flush.ms": "86400000"}


def test_nothing_is_seen_before_the_nth_message_is_flushed(address: str, raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(configs={**NEVER, "flush.messages": "5"})
    with Raw(address) as waiting:
        waiting.send(fetch_frame(topic, 0, max_wait_ms=LONG))
        for _ in range(4):
            assert produce(raw, topic, batch(b"x"))[0] == 0
            assert fetch(raw, topic, 0) == (0, 0, b"")
            assert list_offsets(raw, topic, LATEST).offset == 0
            assert list_offsets(raw, topic, MAX_TIMESTAMP).offset == -1
            assert list_offsets(raw, topic, 0).offset == -1
        assert produce(raw, topic, batch(b"x"))[0] == 0
        error, high_watermark, records = fetched(waiting, topic)  # woken by the flush, not by the writes
        assert (error, high_watermark, len(list(decode_records(records)))) == (0, len(records), 5)
    assert list_offsets(raw, topic, LATEST).offset == high_watermark


def test_many_messages_in_one_batch_count_each(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(configs={**NEVER, "flush.messages": "5"})
    assert produce(raw, topic, batch(b"a", b"b", b"c", b"d"))[0] == 0
    assert fetch(raw, topic, 0)[1] == 0
    assert produce(raw, topic, batch(b"e"))[0] == 0
    assert len(list(decode_records(fetch(raw, topic, 0, max_wait_ms=LONG)[2]))) == 5


def test_a_flush_comes_after_flush_ms_too(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(configs={**NEVER, "flush.ms": "30"})
    assert produce(raw, topic, batch(b"x"))[0] == 0
    assert len(list(decode_records(fetch(raw, topic, 0, max_wait_ms=LONG)[2]))) == 1


def test_a_lowered_flush_limit_holds_for_what_comes_next(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(configs=NEVER)
    assert produce(raw, topic, batch(b"x"))[0] == 0
    set_configs(raw, topic, flush_messages="1")
    assert produce(raw, topic, batch(b"y"))[0] == 0
    assert len(list(decode_records(fetch(raw, topic, 0, max_wait_ms=LONG)[2]))) == 2


def test_a_reader_above_what_is_flushed_waits_and_above_the_end_is_out_of_range(
    raw: Raw, topic_with: MakeTopic
) -> None:
    topic, one = topic_with(configs=NEVER), batch(b"x")
    assert produce(raw, topic, one) == (0, 0)
    assert fetch(raw, topic, len(one))[0] == 0
    assert fetch(raw, topic, len(one) + 1)[0] == Error.offset_out_of_range.value


@pytest.mark.parametrize("codec", list(Codec))
def test_the_next_offset_is_this_one_plus_the_messages_length(
    raw: Raw, topic_with: MakeTopic, kafka_cluster: LocalCluster, codec: Codec
) -> None:
    topic = topic_with(configs={"classic": "true", "flush.messages": "1", "segment.bytes": "2000"})
    position, starts = 0, []
    for number in range(20):
        made = batch(b"a" * number * 10, b"b", codec=codec)
        assert produce(raw, topic, made) == (0, position)
        starts.append(position)
        position += len(made)
    folder = kafka_cluster.brokers[0].data_dir / f"{topic}-0"
    assert not list(folder.glob("*.index"))
    assert sum(path.stat().st_size for path in folder.glob("*.log")) == position
    seen, at = [], 0
    while at < position:
        records = fetch(raw, topic, at, max_wait_ms=LONG)[2]
        for _, header in iter_batches(records):
            assert header.last_offset == header.base_offset + header.size - 1
            seen.append(header.base_offset)
            at = header.next_offset
    assert seen == starts
    # An offset inside a batch brings that batch.
    for number in (3, 11, 19):
        for inside in (starts[number], starts[number] + 1, starts[number] + 60):
            _, header = next(iter_batches(fetch(raw, topic, inside)[2]))
            assert header.base_offset == starts[number]


def test_offsets_are_found_by_time(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(configs={"classic": "true", "flush.messages": "1", "segment.bytes": "300"})
    starts = []
    for number in range(10):
        made = encode_batch([(None, b"v" * 50, (), NOW_MS + 10 * number)])
        starts.append(produce(raw, topic, made)[1])
    end = starts[-1] + len(made)
    until(lambda: bool(list_offsets(raw, topic, LATEST).offset == end))
    assert list_offsets(raw, topic, EARLIEST).offset == 0
    for number in range(10):
        found = list_offsets(raw, topic, NOW_MS + 10 * number - 5)
        assert (found.offset, found.timestamp) == (starts[number], NOW_MS + 10 * number)
    assert list_offsets(raw, topic, NOW_MS + 91).offset == -1
    assert list_offsets(raw, topic, MAX_TIMESTAMP).offset == starts[-1]


def test_records_are_deleted_up_to_a_byte_and_not_beyond_what_is_flushed(raw: Raw, topic_with: MakeTopic) -> None:
    topic, one = topic_with(configs={**NEVER, "flush.messages": "2"}), batch(b"x")
    for _ in range(3):
        assert produce(raw, topic, one)[0] == 0
    until(lambda: fetch(raw, topic, 0)[1] == 2 * len(one))
    assert delete_records(raw, topic, len(one)).low_watermark == len(one)
    assert fetch(raw, topic, 0)[0] == Error.offset_out_of_range.value
    assert delete_records(raw, topic, 3 * len(one)).error_code is Error.offset_out_of_range
    assert delete_records(raw, topic, -1).low_watermark == 2 * len(one)


def test_classic_is_chosen_at_creation_and_for_good(raw: Raw, topic_with: MakeTopic) -> None:
    classic, ordinary = topic_with(configs={"classic": "true"}), topic_with()
    for topic, value in ((classic, "false"), (ordinary, "true")):
        refused = change_configs(raw, topic, ("classic", 0, value))
        assert refused.error_code is Error.invalid_config
        assert "created" in refused.error_message
    assert change_configs(raw, classic, ("classic", 1, None)).error_code is Error.invalid_config
    assert change_configs(raw, classic, ("classic", 0, "true")).error_code is Error.none
    assert config(raw, classic, "classic").value == "true"
    # The defaults of a classic topic flush often, since it shows nothing before.
    assert config(raw, classic, "flush.messages").value == "500"
    assert config(raw, ordinary, "flush.messages").value == str(2**63 - 1)


def test_what_was_not_flushed_is_seen_after_a_clean_stop_and_what_was_is_after_a_kill(
    restartable: LocalCluster,
) -> None:
    broker = restartable.brokers[0]
    topic, one = make_topic(broker.address, configs={**NEVER, "flush.messages": "2"}), batch(b"x")
    with Raw(broker.address) as raw:
        for _ in range(3):
            assert produce(raw, topic, one)[0] == 0
        until(lambda: fetch(raw, topic, 0)[1] == 2 * len(one))
    broker.restart()
    with Raw(broker.address) as raw:
        assert fetch(raw, topic, 0)[1] == 3 * len(one)  # a clean stop flushes
    broker.kill()
    broker.start()
    broker.wait_ready()
    with Raw(broker.address) as raw:
        assert fetch(raw, topic, 0)[1] == 3 * len(one)
        assert produce(raw, topic, one) == (0, 3 * len(one))
