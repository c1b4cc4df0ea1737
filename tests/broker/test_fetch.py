"""Fetch: how long it waits, how much it brings, from where, and what it is told when there is nothing to bring."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.batch import iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response
from tests.broker.calls import delete_records, delete_topics, fetch_all, metadata, rows_of, send_fetch, topic_id
from tests.broker.conftest import MakeTopic
from tests.broker.raw import Raw, batch, fetch, fetch_frame, fetched, produce

LONG = 300_000  # a wait that no test sees the end of


def received(raw: Raw, version: int = 11) -> Any:
    return read_response(Api.FETCH, version, raw.frame())[1]


def offsets(records: bytes | None) -> list[int]:
    return [record.offset for record in decode_records(records or b"")]


class TestWaiting:
    def test_a_waiting_fetch_is_answered_when_data_arrives(self, address: str, raw: Raw, kafka_topic: str) -> None:
        with Raw(address) as waiting:
            waiting.send(fetch_frame(kafka_topic, 0, max_wait_ms=LONG))
            assert produce(raw, kafka_topic, batch(b"wakes"))[0] == 0
            error, high_watermark, records = fetched(waiting, kafka_topic)
            assert (error, high_watermark, offsets(records)) == (0, 1, [0])

    def test_a_waiting_fetch_is_answered_empty_at_the_waits_end(self, raw: Raw, kafka_topic: str) -> None:
        assert fetch(raw, kafka_topic, 0, max_wait_ms=30) == (0, 0, b"")
        assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        assert fetch(raw, kafka_topic, 1, max_wait_ms=30) == (0, 1, b"")

    def test_min_bytes_are_waited_for(self, address: str, raw: Raw, kafka_topic: str) -> None:
        one = batch(b"v" * 100)
        with Raw(address) as waiting:
            waiting.send(fetch_frame(kafka_topic, 0, max_wait_ms=LONG, min_bytes=3 * len(one)))
            for _ in range(3):
                assert produce(raw, kafka_topic, one)[0] == 0
            assert offsets(fetched(waiting, kafka_topic)[2]) == [0, 1, 2]

    def test_what_there_is_comes_at_the_waits_end_though_it_is_less_than_min_bytes(
        self, raw: Raw, kafka_topic: str
    ) -> None:
        assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        assert offsets(fetch(raw, kafka_topic, 0, max_wait_ms=30, min_bytes=1 << 20)[2]) == [0]

    def test_min_bytes_0_waits_for_nothing(self, raw: Raw, kafka_topic: str) -> None:
        assert fetch(raw, kafka_topic, 0, max_wait_ms=LONG, min_bytes=0) == (0, 0, b"")

    def test_more_min_bytes_than_the_request_may_bring_do_not_make_it_wait(self, raw: Raw, kafka_topic: str) -> None:
        for _ in range(3):
            assert produce(raw, kafka_topic, batch(b"v" * 1000))[0] == 0
        found = fetch(raw, kafka_topic, 0, max_wait_ms=LONG, min_bytes=1 << 30, max_bytes=2500)
        assert offsets(found[2]) == [0, 1]

    def test_a_segments_end_does_not_make_it_wait(self, raw: Raw, topic_with: MakeTopic) -> None:
        """One answer brings the batches of one file; what stands in the next is no reason to wait."""
        topic = topic_with(configs={"segment.bytes": "1000"})
        for _ in range(6):
            assert produce(raw, topic, batch(b"v" * 400))[0] == 0
        found = fetch(raw, topic, 0, max_wait_ms=LONG, min_bytes=1800)
        assert offsets(found[2]) == [0, 1]

    def test_a_limit_that_keeps_a_partition_out_does_not_make_it_wait(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(2)
        for partition in (0, 1):
            assert produce(raw, topic, batch(b"v" * 1000), partition=partition)[0] == 0
        rows = rows_of(fetch_all(raw, 11, {topic: {0: 0, 1: 0}}, wait_ms=LONG, min_bytes=1500, max_bytes=1500))
        assert [len(offsets(rows[topic, p].records)) for p in (0, 1)] == [1, 0]

    def test_one_of_many_partitions_wakes_it(self, address: str, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(20)
        with Raw(address) as waiting:
            for partition in (0, 7, 19):
                at = {p: 1 if p < partition and p in (0, 7) else 0 for p in range(20)}
                send_fetch(waiting, 11, {topic: at}, wait_ms=LONG)
                assert produce(raw, topic, batch(b"x"), partition=partition)[0] == 0
                rows = rows_of(received(waiting))
                assert {key[1]: offsets(row.records) for key, row in rows.items() if row.records} == {partition: [0]}
                assert len(rows) == 20

    def test_many_who_wait_are_all_woken(self, address: str, raw: Raw, kafka_topic: str) -> None:
        waiting = [Raw(address) for _ in range(30)]
        for one in waiting:
            one.send(fetch_frame(kafka_topic, 0, max_wait_ms=LONG))
        assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        for one in waiting:
            assert offsets(fetched(one, kafka_topic)[2]) == [0]
            one.sock.close()

    @pytest.mark.parametrize("version", [11, 15])
    def test_a_deleted_topic_wakes_a_waiting_fetch(
        self, address: str, raw: Raw, topic_with: MakeTopic, version: int
    ) -> None:
        topic = topic_with()
        key = topic_id(raw, topic) if version >= 13 else topic
        with Raw(address) as waiting:
            send_fetch(waiting, version, {key: {0: 0}}, wait_ms=LONG)
            assert delete_topics(raw, topic)[0].error_code is Error.none
            (row,) = rows_of(received(waiting, version), version >= 13).values()
            gone = Error.unknown_topic_id if version >= 13 else Error.unknown_topic_or_partition
            assert row.error_code in (gone, Error.not_leader_or_follower)
            (row,) = rows_of(fetch_all(waiting, version, {key: {0: 0}}), version >= 13).values()
            assert row.error_code is gone

    def test_an_error_of_one_partition_is_told_at_once(self, raw: Raw, kafka_topic: str) -> None:
        rows = rows_of(fetch_all(raw, 11, {kafka_topic: {0: 0, 1: 0}}, wait_ms=LONG))
        assert rows[kafka_topic, 1].error_code is Error.unknown_topic_or_partition
        assert rows[kafka_topic, 0].error_code is Error.none

    def test_no_partition_at_all_is_answered_at_once(self, raw: Raw) -> None:
        assert fetch_all(raw, 11, {}, wait_ms=LONG).responses == ()


class TestLimits:
    def test_as_many_whole_batches_come_as_fit_the_partitions_limit(self, raw: Raw, kafka_topic: str) -> None:
        one = batch(b"v" * 1000)
        for _ in range(10):
            assert produce(raw, kafka_topic, one)[0] == 0
        for limit, count in ((len(one), 1), (3 * len(one) - 1, 2), (3 * len(one), 3), (1 << 20, 10)):
            found = fetch(raw, kafka_topic, 0, partition_max_bytes=limit)[2]
            assert len(found) == count * len(one)

    @pytest.mark.parametrize("limits", [{"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}])
    def test_the_first_batch_comes_whole_though_it_is_larger(
        self, raw: Raw, kafka_topic: str, limits: dict[str, int]
    ) -> None:
        for _ in range(2):
            assert produce(raw, kafka_topic, batch(b"v" * 100_000))[0] == 0
        for offset in (0, 1):
            assert offsets(fetch(raw, kafka_topic, offset, **limits)[2]) == [offset]

    def test_only_the_first_partition_with_data_may_go_over_the_limits(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(4)
        for partition in (1, 2, 3):
            assert produce(raw, topic, batch(b"v" * 1000), partition=partition)[0] == 0
        for limits in ({"max_bytes": 10}, {"partition_max_bytes": 10}):
            rows = rows_of(fetch_all(raw, 11, {topic: dict.fromkeys(range(4), 0)}, **limits))
            assert [p for p in range(4) if rows[topic, p].records] == [1]

    def test_a_response_holds_no_more_than_max_bytes_in_all(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic, one = topic_with(5), batch(b"v" * 1000)
        for partition in range(5):
            for _ in range(3):
                assert produce(raw, topic, one, partition=partition)[0] == 0
        rows = rows_of(fetch_all(raw, 11, {topic: dict.fromkeys(range(5), 0)}, max_bytes=7 * len(one)))
        assert [len(offsets(rows[topic, p].records)) for p in range(5)] == [3, 3, 1, 0, 0]
        assert all(row.high_watermark == 3 for row in rows.values())

    def test_many_topics_come_in_the_order_asked(self, raw: Raw, topic_with: MakeTopic) -> None:
        names = [topic_with(2) for _ in range(3)]
        for name in names:
            for partition in (0, 1):
                assert produce(raw, name, batch(f"{name}/{partition}".encode()), partition=partition)[0] == 0
        answer = fetch_all(raw, 11, {name: {1: 0, 0: 0} for name in reversed(names)})
        assert [str(t.topic) for t in answer.responses] == names[::-1]
        for (name, partition), row in rows_of(answer).items():
            (record,) = decode_records(row.records)
            assert record.value == f"{name}/{partition}".encode()


class TestVersions:
    @pytest.mark.parametrize("version", range(4, 19))
    def test_every_version_is_served(self, raw: Raw, topic_with: MakeTopic, version: int) -> None:
        topic = topic_with(3)
        key = topic_id(raw, topic) if version >= 13 else topic
        for partition in (0, 2):
            assert produce(raw, topic, batch(b"a", b"b"), partition=partition)[0] == 0
        answer = fetch_all(raw, version, {key: {0: 0, 1: 0, 2: 1, 3: 0}})
        rows = rows_of(answer, version >= 13)
        assert [offsets(rows[key, p].records) for p in range(3)] == [[0, 1], [], [0, 1]]
        assert [rows[key, p].high_watermark for p in range(3)] == [2, 0, 2]
        assert rows[key, 3].error_code is Error.unknown_topic_or_partition
        assert all(row.log_start_offset == (0 if version >= 5 else -1) for (_, p), row in rows.items() if p < 3)

    def test_an_unknown_id_is_told(self, raw: Raw) -> None:
        (row,) = rows_of(fetch_all(raw, 13, {uuid4(): {0: 0}}), True).values()
        assert row.error_code is Error.unknown_topic_id


class TestPositions:
    def test_offsets_outside_the_log_are_out_of_range(self, raw: Raw, kafka_topic: str) -> None:
        for _ in range(5):
            assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        assert delete_records(raw, kafka_topic, 2).low_watermark == 2
        for offset in (-1, 0, 1, 6, 1 << 40):
            assert fetch(raw, kafka_topic, offset, max_wait_ms=LONG)[0] == Error.offset_out_of_range.value
        for offset in (2, 3, 4, 5):
            assert fetch(raw, kafka_topic, offset)[0] == 0

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_from_the_middle_of_a_batch_the_whole_batch_comes(self, raw: Raw, kafka_topic: str, codec: Codec) -> None:
        for _ in range(2):
            assert produce(raw, kafka_topic, batch(*(b"%d" % n for n in range(10)), codec=codec))[0] == 0
        for offset in (0, 1, 9):
            assert offsets(fetch(raw, kafka_topic, offset, partition_max_bytes=1)[2]) == list(range(10))
        assert offsets(fetch(raw, kafka_topic, 10)[2]) == list(range(10, 20))

    def test_a_reader_crosses_the_borders_of_segments(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(configs={"segment.bytes": "2000", "index.interval.bytes": "100"})
        for number in range(100):
            assert produce(raw, topic, batch(b"%d " % number * 20, b"second"))[1] == 2 * number
        for limit in (1, 700, 1 << 20):
            at, seen = 0, []
            while at < 200:
                error, high_watermark, records = fetch(raw, topic, at, partition_max_bytes=limit)
                assert (error, high_watermark) == (0, 200)
                seen += offsets(records)
                at = max(header.next_offset for _, header in iter_batches(records))
            assert seen == list(range(200))
        for offset in range(200):
            assert offset in offsets(fetch(raw, topic, offset, partition_max_bytes=1)[2])

    def test_a_client_of_another_leader_epoch_is_told(self, raw: Raw, kafka_topic: str) -> None:
        assert produce(raw, kafka_topic, batch(b"x"))[0] == 0
        epoch = int(metadata(raw, kafka_topic).topics[0].partitions[0].leader_epoch)
        for claimed, expected in ((epoch, Error.none), (-1, Error.none), (epoch + 1, Error.unknown_leader_epoch)):
            (row,) = rows_of(fetch_all(raw, 11, {kafka_topic: {0: 0}}, leader_epoch=claimed, wait_ms=LONG)).values()
            assert row.error_code is expected
