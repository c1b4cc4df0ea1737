"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a log begins and ends, and where it stood at a time."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.calls import delete_records, epoch_end, fetch_all, list_offsets, metadata, rows_of
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.raw import NOW_MS, Raw, batch, fetch, produce

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


def fill(raw: Raw, topic: str, codec: Codec = Codec.NONE) -> None:
    """Ten batches of three records, 10 ms apart."""
    for number in range(10):
        records = [(None, b"v" * 50, (), NOW_MS + 30 * number + 10 * n) for n in range(3)]
        assert produce(raw, topic, encode_batch(records, codec=codec))[0] == 0


def leader_epoch(raw: Raw, topic: str) -> int:
    return int(metadata(raw, topic).topics[0].partitions[0].leader_epoch)


class TestListOffsets:
    @pytest.mark.parametrize("version", range(1, 12))
    def test_every_version_finds_the_ends_and_a_time(self, raw: Raw, kafka_topic: str, version: int) -> None:
        fill(raw, kafka_topic)
        assert delete_records(raw, kafka_topic, 4).error_code is Error.none
        assert list_offsets(raw, kafka_topic, EARLIEST, version=version).offset == 4
        assert list_offsets(raw, kafka_topic, LATEST, version=version).offset == 30
        found = list_offsets(raw, kafka_topic, NOW_MS + 95, version=version)
        assert (found.offset, found.timestamp) == (10, NOW_MS + 100)
        assert found.leader_epoch == (leader_epoch(raw, kafka_topic) if version >= 4 else -1)
        if version >= 7:
            found = list_offsets(raw, kafka_topic, MAX_TIMESTAMP, version=version)
            assert (found.offset, found.timestamp) == (29, NOW_MS + 290)
        if version >= 8:
            assert list_offsets(raw, kafka_topic, EARLIEST_LOCAL, version=version).offset == 4
        if version >= 9:
            assert list_offsets(raw, kafka_topic, LATEST_TIERED, version=version).offset == -1
        if version >= 11:
            assert list_offsets(raw, kafka_topic, PENDING_UPLOAD, version=version).offset == -1

    @pytest.mark.parametrize("codec", list(Codec))
    @pytest.mark.parametrize("segment_bytes", ["500", "100000"])
    def test_each_record_is_found_by_its_time_in_any_codec(
        self, raw: Raw, topic_with: MakeTopic, codec: Codec, segment_bytes: str
    ) -> None:
        topic = topic_with(configs={"segment.bytes": segment_bytes, "index.interval.bytes": "100"})
        fill(raw, topic, codec)
        for offset in range(30):
            for target in (NOW_MS + 10 * offset, NOW_MS + 10 * offset - 9):
                found = list_offsets(raw, topic, target)
                assert (found.error_code, found.offset, found.timestamp) == (Error.none, offset, NOW_MS + 10 * offset)
        after = list_offsets(raw, topic, NOW_MS + 291)
        assert (after.error_code, after.offset, after.timestamp) == (Error.none, -1, -1)

    def test_times_that_go_back_are_searched_by_their_first_occurrence(self, raw: Raw, kafka_topic: str) -> None:
        for time in (50, 10, 90, 20, 90):
            assert produce(raw, kafka_topic, encode_batch([(None, b"v", (), NOW_MS + time)]))[0] == 0
        for target, offset in ((0, 0), (50, 0), (51, 2), (90, 2), (91, -1)):
            assert list_offsets(raw, kafka_topic, NOW_MS + target).offset == offset
        assert list_offsets(raw, kafka_topic, MAX_TIMESTAMP).offset == 2

    def test_an_empty_partition_has_ends_and_no_times(self, raw: Raw, kafka_topic: str) -> None:
        assert list_offsets(raw, kafka_topic, EARLIEST).offset == 0
        assert list_offsets(raw, kafka_topic, LATEST).offset == 0
        assert list_offsets(raw, kafka_topic, 0).offset == -1
        assert list_offsets(raw, kafka_topic, MAX_TIMESTAMP).offset == -1

    def test_errors_are_told(self, raw: Raw, kafka_topic: str) -> None:
        epoch = leader_epoch(raw, kafka_topic)
        assert list_offsets(raw, "no-such-topic", LATEST).error_code is Error.unknown_topic_or_partition
        assert list_offsets(raw, kafka_topic, LATEST, 1).error_code is Error.unknown_topic_or_partition
        assert list_offsets(raw, kafka_topic, LATEST, epoch=epoch + 1).error_code is Error.unknown_leader_epoch
        assert list_offsets(raw, kafka_topic, LATEST, epoch=epoch).error_code is Error.none
        assert list_offsets(raw, kafka_topic, -100).error_code is Error.unsupported_version


class TestLeaderEpochs:
    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_the_current_epoch_ends_where_the_log_does(self, raw: Raw, kafka_topic: str, version: int) -> None:
        fill(raw, kafka_topic)
        epoch = leader_epoch(raw, kafka_topic)
        found = epoch_end(raw, kafka_topic, epoch, version=version)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (Error.none, epoch, 30)

    def test_errors_are_told(self, raw: Raw, kafka_topic: str) -> None:
        epoch = leader_epoch(raw, kafka_topic)
        assert epoch_end(raw, "no-such-topic", 0).error_code is Error.unknown_topic_or_partition
        assert epoch_end(raw, kafka_topic, 0, current=epoch + 1).error_code is Error.unknown_leader_epoch
        unknown = epoch_end(raw, kafka_topic, epoch + 5)
        assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (Error.none, -1, -1)

    def test_each_restart_begins_an_epoch_and_the_old_ones_ends_are_known(self, restartable: LocalCluster) -> None:
        broker = restartable.brokers[0]
        topic = make_topic(broker.address)
        ends = {}
        for round_ in range(3):
            with Raw(broker.address) as raw:
                epoch = leader_epoch(raw, topic)
                assert epoch not in ends
                assert produce(raw, topic, batch(b"x", b"y"))[0] == 0
                ends[epoch] = 2 * round_ + 2
            if round_ == 0:
                broker.restart()
            elif round_ == 1:
                broker.kill()
                broker.start()
                broker.wait_ready()
        with Raw(broker.address) as raw:
            for known, end in ends.items():
                found = epoch_end(raw, topic, known)
                assert (found.error_code, found.leader_epoch, found.end_offset) == (Error.none, known, end)
            first = min(ends)
            assert epoch_end(raw, topic, first, current=first).error_code is Error.fenced_leader_epoch
            assert list_offsets(raw, topic, LATEST, epoch=first).error_code is Error.fenced_leader_epoch
            (row,) = rows_of(fetch_all(raw, 11, {topic: {0: 0}}, leader_epoch=first, wait_ms=300_000)).values()
            assert row.error_code is Error.fenced_leader_epoch


class TestDeleteRecords:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_what_is_below_is_gone_and_what_is_above_stays(self, raw: Raw, kafka_topic: str, version: int) -> None:
        fill(raw, kafka_topic)
        deleted = delete_records(raw, kafka_topic, 7, version=version)
        assert (deleted.error_code, deleted.low_watermark) == (Error.none, 7)
        assert fetch(raw, kafka_topic, 6)[0] == Error.offset_out_of_range.value
        assert fetch(raw, kafka_topic, 7)[0] == 0
        assert list_offsets(raw, kafka_topic, EARLIEST).offset == 7
        assert list_offsets(raw, kafka_topic, NOW_MS).offset == 7
        assert delete_records(raw, kafka_topic, 3).low_watermark == 7  # nothing to do
        assert delete_records(raw, kafka_topic, -1).low_watermark == 30
        assert produce(raw, kafka_topic, batch(b"x")) == (0, 30)

    def test_errors_are_told(self, raw: Raw, kafka_topic: str) -> None:
        fill(raw, kafka_topic)
        for offset in (31, -2, 1 << 60):
            deleted = delete_records(raw, kafka_topic, offset)
            assert (deleted.error_code, deleted.low_watermark) == (Error.offset_out_of_range, -1)
        assert delete_records(raw, kafka_topic, 0, partition=1).error_code is Error.unknown_topic_or_partition
        assert delete_records(raw, "no-such-topic", 0).error_code is Error.unknown_topic_or_partition
        assert list_offsets(raw, kafka_topic, EARLIEST).offset == 0

    @pytest.mark.parametrize("how", ["a clean restart", "kill -9"])
    def test_what_was_deleted_stays_deleted_over(self, restartable: LocalCluster, how: str) -> None:
        broker = restartable.brokers[0]
        topic = make_topic(broker.address, configs={"segment.bytes": "600"})
        folder = broker.data_dir / f"{topic}-0"
        with Raw(broker.address) as raw:
            fill(raw, topic)
            assert delete_records(raw, topic, 20).low_watermark == 20
            # The files below go at the next retention.
            until(lambda: min(int(p.stem) for p in folder.glob("*.log")) > 0)
        if how == "kill -9":
            broker.kill()
            broker.start()
            broker.wait_ready()
        else:
            broker.restart()
        with Raw(broker.address) as raw:
            assert list_offsets(raw, topic, EARLIEST).offset == 20
            assert list_offsets(raw, topic, LATEST).offset == 30
            assert fetch(raw, topic, 19)[0] == Error.offset_out_of_range.value
            assert fetch(raw, topic, 20)[0] == 0
