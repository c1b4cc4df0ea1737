"""What a topic's settings make of a producer's batch: the broker's clock, another codec, bounds on size and time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.batch import BatchHeader, iter_batches, seal
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.cluster import LocalCluster
from tests.broker.calls import produce_all, set_configs
from tests.broker.conftest import MakeTopic
from tests.broker.raw import Raw, batch, fetch, produce

LONG_AGO = 1_600_000_000_000
HOUR = 3_600_000


def now_ms() -> int:
    return int(time.time() * 1000)


def on_disk(cluster: LocalCluster, topic: str) -> list[BatchHeader]:
    folder: Path = cluster.brokers[0].data_dir / f"{topic}-0"
    return [header for path in sorted(folder.glob("*.log")) for _, header in iter_batches(path.read_bytes())]


def batch_at(*timestamps: int, **more: Any) -> bytes:
    return encode_batch([(None, b"at %d" % t, (), t) for t in timestamps], **more)


class TestLogAppendTime:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
    def test_the_brokers_time_is_on_disk_in_the_answer_and_in_what_is_read(
        self, raw: Raw, topic_with: MakeTopic, kafka_cluster: LocalCluster, codec: Codec
    ) -> None:
        topic = topic_with(configs={"message.timestamp.type": "LogAppendTime"})
        before = now_ms()
        told = []
        for _ in range(2):
            (row,) = produce_all(raw, 9, {topic: {0: batch_at(LONG_AGO, LONG_AGO + 5, codec=codec)}}).values()
            assert row.error_code is Error.none
            told.append(int(row.log_append_time.timestamp() * 1000 + 0.5))
        after = now_ms()
        assert all(before <= t <= after for t in told)
        headers = on_disk(kafka_cluster, topic)
        assert [h.max_timestamp for h in headers] == told
        assert all(h.is_log_append_time and h.codec == codec for h in headers)
        records = list(decode_records(fetch(raw, topic, 0)[2]))
        assert [r.timestamp for r in records] == [told[0], told[0], told[1], told[1]]

    def test_a_duplicate_is_told_the_time_of_the_first(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(configs={"message.timestamp.type": "LogAppendTime"})
        idempotent = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0}
        (first,) = produce_all(raw, 9, {topic: {0: batch(b"a", **idempotent)}}).values()
        while now_ms() <= int(first.log_append_time.timestamp() * 1000 + 1):
            pass  # until the clock shows another time
        (again,) = produce_all(raw, 9, {topic: {0: batch(b"a", **idempotent)}}).values()
        assert (again.error_code, again.base_offset) == (Error.none, 0)
        assert again.log_append_time == first.log_append_time

    def test_turned_on_and_off_it_holds_from_the_next_batch_on(self, raw: Raw, kafka_topic: str) -> None:
        for kind in ("CreateTime", "LogAppendTime", "CreateTime"):
            set_configs(raw, kafka_topic, message_timestamp_type=kind)
            assert produce(raw, kafka_topic, batch_at(LONG_AGO))[0] == 0
            assert produce(raw, kafka_topic, batch_at(LONG_AGO))[0] == 0
        records = [r for at in range(6) for r in decode_records(fetch(raw, kafka_topic, at)[2]) if r.offset == at]
        times = [r.timestamp == LONG_AGO for r in records]
        assert times == [True, True, False, False, True, True]

    def test_a_producer_may_not_claim_the_brokers_time(self, raw: Raw, kafka_topic: str) -> None:
        claimed = batch_at(LONG_AGO, log_append_time=LONG_AGO)
        for _ in range(2):
            assert produce(raw, kafka_topic, claimed)[0] == Error.invalid_record.value
            assert produce(raw, kafka_topic, batch(b"good"))[0] == 0


class TestCompactedTopics:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_a_record_without_a_key_is_refused_and_nothing_of_its_batch_is_written(
        self, raw: Raw, topic_with: MakeTopic, codec: Codec
    ) -> None:
        topic = topic_with(configs={"cleanup.policy": "compact"})
        good = encode_batch([(b"k", b"v", (), now_ms()), (b"", None, (), now_ms())], codec)
        bad = encode_batch([(b"k", b"v", (), now_ms()), (None, b"no key", (), now_ms())], codec)
        for offset in (0, 2):
            assert produce(raw, topic, good) == (0, offset)
            assert produce(raw, topic, bad)[0] == Error.invalid_record.value
        (row,) = produce_all(raw, 9, {topic: {0: bad}}).values()
        assert "key" in row.error_message

    def test_a_topic_that_becomes_compacted_asks_for_keys_at_once(self, raw: Raw, kafka_topic: str) -> None:
        assert produce(raw, kafka_topic, batch(b"no key"))[0] == 0
        set_configs(raw, kafka_topic, cleanup_policy="compact")
        assert produce(raw, kafka_topic, batch(b"no key"))[0] == Error.invalid_record.value
        set_configs(raw, kafka_topic, cleanup_policy="delete")
        assert produce(raw, kafka_topic, batch(b"no key"))[0] == 0

    def test_records_that_do_not_count_up_are_refused(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(configs={"cleanup.policy": "compact"})
        records = [(b"k", b"v", (), now_ms())] * 3
        wrong = encode_batch(records, deltas=[1, 0, 2])
        assert produce(raw, topic, wrong)[0] == Error.invalid_record.value


class TestCompressionType:
    @pytest.mark.parametrize("sent", list(Codec))
    @pytest.mark.parametrize(
        ("wanted", "kept"),
        [("uncompressed", Codec.NONE), ("gzip", Codec.GZIP), ("snappy", Codec.SNAPPY), ("lz4", 3), ("zstd", 4)],
    )
    def test_a_batch_lies_on_disk_in_the_topics_codec(
        self, raw: Raw, topic_with: MakeTopic, kafka_cluster: LocalCluster, sent: Codec, wanted: str, kept: int
    ) -> None:
        topic = topic_with(configs={"compression.type": wanted})
        values = [b"value %d " % n * 20 for n in range(5)]
        for _ in range(2):
            assert produce(raw, topic, batch(*values, codec=sent))[0] == 0
        headers = on_disk(kafka_cluster, topic)
        assert [(h.codec, h.record_count, h.base_offset) for h in headers] == [(kept, 5, 0), (kept, 5, 5)]
        records = list(decode_records(fetch(raw, topic, 0)[2]))
        assert [(r.offset, r.value) for r in records] == list(enumerate(values * 2))

    @pytest.mark.parametrize("codec", list(Codec))
    def test_producer_keeps_what_came_byte_for_byte(self, raw: Raw, kafka_topic: str, codec: Codec) -> None:
        made = batch(b"a" * 500, b"b" * 500, codec=codec)
        assert produce(raw, kafka_topic, made)[0] == 0
        found = fetch(raw, kafka_topic, 0)[2]
        # All but the leader epoch, which is the broker's to set and which no checksum covers.
        assert (found[:12], found[16:]) == (made[:12], made[16:])

    @pytest.mark.parametrize("known", [False, True])
    def test_zstd_needs_version_7_of_produce(self, raw: Raw, kafka_topic: str, known: bool) -> None:
        """A client that old could not read what it wrote."""
        if known:
            assert produce(raw, kafka_topic, batch(b"plain"), version=6)[0] == 0
        zstd = batch(b"x", codec=Codec.ZSTD)
        assert produce(raw, kafka_topic, zstd, version=6)[0] == Error.unsupported_compression_type.value
        assert produce(raw, kafka_topic, zstd, version=7)[0] == 0

    def test_an_unknown_codec_is_refused(self, raw: Raw, kafka_topic: str) -> None:
        for number in (5, 6, 7):
            bad = bytearray(batch(b"x"))
            seal(bad, attributes=number)
            assert produce(raw, kafka_topic, bytes(bad))[0] == Error.unsupported_compression_type.value
            assert produce(raw, kafka_topic, batch(b"good"))[0] == 0

    def test_a_batch_that_grows_over_the_limit_when_recompressed_is_refused(
        self, raw: Raw, topic_with: MakeTopic
    ) -> None:
        """What lies on disk must be readable by those who trust max.message.bytes."""
        topic = topic_with(configs={"compression.type": "uncompressed", "max.message.bytes": "5000"})
        assert produce(raw, topic, batch(b"v" * 100_000, codec=Codec.GZIP))[0] == Error.message_too_large.value
        assert produce(raw, topic, batch(b"v" * 1000, codec=Codec.GZIP))[0] == 0


class TestTimestampBounds:
    @pytest.mark.parametrize("known", [False, True])
    def test_a_record_too_far_ahead_is_refused(self, raw: Raw, kafka_topic: str, known: bool) -> None:
        if known:
            assert produce(raw, kafka_topic, batch_at(LONG_AGO))[0] == 0
        assert produce(raw, kafka_topic, batch_at(now_ms() + HOUR // 2))[0] == 0
        assert produce(raw, kafka_topic, batch_at(now_ms() + 2 * HOUR))[0] == Error.invalid_timestamp.value
        assert produce(raw, kafka_topic, batch_at(LONG_AGO, now_ms() + 2 * HOUR))[0] == Error.invalid_timestamp.value
        set_configs(raw, kafka_topic, message_timestamp_after_max_ms=str(3 * HOUR))
        assert produce(raw, kafka_topic, batch_at(now_ms() + 2 * HOUR))[0] == 0

    def test_a_record_too_old_is_refused(self, raw: Raw, kafka_topic: str) -> None:
        assert produce(raw, kafka_topic, batch_at(LONG_AGO))[0] == 0
        set_configs(raw, kafka_topic, message_timestamp_before_max_ms=str(HOUR))
        for _ in range(2):
            assert produce(raw, kafka_topic, batch_at(now_ms() - 2 * HOUR))[0] == Error.invalid_timestamp.value
            assert produce(raw, kafka_topic, batch_at(now_ms() - HOUR // 2))[0] == 0

    def test_the_brokers_own_time_has_no_bounds(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(
            configs={"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1000"}
        )
        for timestamp in (0, LONG_AGO, now_ms() + 24 * HOUR):
            assert produce(raw, topic, batch_at(timestamp))[0] == 0
