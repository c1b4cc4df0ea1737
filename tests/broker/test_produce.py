"""Produce: what is acknowledged and when, in which order, and what each partition of a request is told."""

from __future__ import annotations

import struct
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response, write_request
from tests.broker.calls import (
    METADATA,
    VERSIONS,
    create_topics,
    delete_topics,
    metadata,
    new_topic,
    produce_all,
    produce_request,
    topic_id,
)
from tests.broker.conftest import MakeTopic
from tests.broker.raw import CLIENT, Raw, batch, fetch, fetch_frame, fetched, produce, produce_frame, produced


def values(raw: Raw, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every record's value, from the start to the high watermark."""
    found: list[bytes | None] = []
    at = 0
    while True:
        error, high_watermark, records = fetch(raw, topic, at, partition=partition)
        assert error == 0
        if at >= high_watermark:
            return found
        for record in decode_records(records):
            found.append(record.value)
            at = record.offset + 1


class TestAcks:
    @pytest.mark.parametrize("acks", [1, -1])
    def test_an_acknowledged_batch_is_readable_at_once(self, raw: Raw, kafka_topic: str, acks: int) -> None:
        assert produce(raw, kafka_topic, batch(b"a", b"b"), acks=acks) == (0, 0)
        assert produce(raw, kafka_topic, batch(b"c"), acks=acks) == (0, 2)
        assert values(raw, kafka_topic) == [b"a", b"b", b"c"]

    def test_acks_0_has_no_answer_and_the_next_answer_is_the_next_requests(self, raw: Raw, kafka_topic: str) -> None:
        for round_ in range(3):  # the first by the general path, the others by their known prefix
            raw.send(produce_frame(kafka_topic, batch(b"unheard"), acks=0, correlation_id=1))
            raw.send(produce_frame(kafka_topic, batch(b"heard"), acks=1, correlation_id=2 + round_))
            answer = raw.frame()
            assert struct.unpack_from(">i", answer) == (2 + round_,)
        assert values(raw, kafka_topic) == [b"unheard", b"heard"] * 3

    def test_acks_0_alone_is_written(self, address: str, kafka_topic: str) -> None:
        with Raw(address) as raw:
            raw.send(produce_frame(kafka_topic, batch(b"x"), acks=0) * 100)
            assert fetch(raw, kafka_topic, 0)[1] == 100

    @pytest.mark.parametrize("known", [False, True])
    def test_acks_0_with_an_error_closes_the_connection(self, address: str, kafka_topic: str, known: bool) -> None:
        """There is no answer to carry the error, so the client is made to look again, as Kafka does."""
        torn = bytearray(batch(b"x"))
        torn[-1] ^= 1
        with Raw(address) as raw:
            if known:
                raw.send(produce_frame(kafka_topic, batch(b"good"), acks=0))
            raw.send(produce_frame(kafka_topic, bytes(torn), acks=0))
            assert raw.is_closed()
        with Raw(address) as raw:
            assert values(raw, kafka_topic) == ([b"good"] if known else [])
            raw.send(produce_frame("no-such-topic-at-all", batch(b"x"), acks=0))
            assert raw.is_closed()

    @pytest.mark.parametrize("acks", [2, -2, 32767])
    def test_other_acks_are_refused_and_nothing_is_written(self, raw: Raw, kafka_topic: str, acks: int) -> None:
        assert produce(raw, kafka_topic, batch(b"x"), acks=acks)[0] == Error.invalid_required_acks.value
        assert values(raw, kafka_topic) == []

    def test_min_insync_replicas_asks_for_no_more_replicas_than_there_are(
        self, raw: Raw, topic_with: MakeTopic
    ) -> None:
        topic = topic_with(configs={"min.insync.replicas": "2"})
        assert produce(raw, topic, batch(b"x"), acks=-1)[0] == 0
        assert values(raw, topic) == [b"x"]


class TestOrder:
    def test_pipelined_requests_of_all_kinds_are_answered_in_order(self, raw: Raw, kafka_topic: str) -> None:
        asked: list[tuple[Api, int]] = []
        frames = b""
        topics = (METADATA.MetadataRequestTopic(topic_id=None, name=kafka_topic),)
        about = METADATA.MetadataRequest(topics=topics, include_topic_authorized_operations=False)
        who = VERSIONS.ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        for number in range(120):
            match number % 6:
                case 0 | 1 | 4:
                    asked.append((Api.PRODUCE, 7))
                    frames += produce_frame(kafka_topic, batch(b"%d" % number), correlation_id=number)
                case 2:
                    asked.append((Api.METADATA, 9))
                    frames += write_request(Api.METADATA, 9, number, CLIENT, about)
                case 3:
                    asked.append((Api.FETCH, 11))
                    frames += fetch_frame(kafka_topic, 0, correlation_id=number)
                case _:
                    asked.append((Api.API_VERSIONS, 3))
                    frames += write_request(Api.API_VERSIONS, 3, number, CLIENT, who)
        raw.send(frames)
        offsets = []
        for number, (api, version) in enumerate(asked):
            correlation_id, answer = read_response(api, version, raw.frame())
            assert correlation_id == number
            if api is Api.PRODUCE:
                offsets.append(int(answer.responses[0].partition_responses[0].base_offset))
            elif api is Api.FETCH:
                # Everything acknowledged before is seen by the fetch behind it.
                assert answer.responses[0].partitions[0].high_watermark == len(offsets)
        assert offsets == list(range(60))

    def test_a_fetch_that_waits_holds_back_what_stands_behind_it(self, address: str, kafka_topic: str) -> None:
        with Raw(address) as waiting, Raw(address) as other:
            waiting.send(fetch_frame(kafka_topic, 0, max_wait_ms=60_000) + produce_frame(kafka_topic, batch(b"behind")))
            assert produce(other, kafka_topic, batch(b"wakes"))[0] == 0
            error, _, records = fetched(waiting, kafka_topic)
            assert (error, [r.value for r in decode_records(records)]) == (0, [b"wakes"])
            assert produced(waiting, kafka_topic) == (0, 1)


class TestManyPartitions:
    @pytest.mark.parametrize("version", range(3, 14))
    def test_every_version_is_served(self, raw: Raw, kafka_topic: str, version: int) -> None:
        topic = topic_id(raw, kafka_topic) if version >= 13 else kafka_topic
        for number in range(3):
            (row,) = produce_all(raw, version, {topic: {0: batch(b"a", b"b")}}).values()
            assert (row.error_code, row.base_offset) == (Error.none, 2 * number)
            assert row.log_append_time is None
            assert row.log_start_offset == (0 if version >= 5 else -1)
        assert values(raw, kafka_topic) == [b"a", b"b"] * 3

    @pytest.mark.parametrize("version", [3, 8, 9, 12])
    def test_each_partition_of_a_request_succeeds_or_fails_by_itself(
        self, raw: Raw, topic_with: MakeTopic, version: int
    ) -> None:
        one, two = topic_with(3), topic_with(1)
        torn = bytearray(batch(b"x"))
        torn[-1] ^= 1
        rows = produce_all(
            raw,
            version,
            {
                one: {0: batch(b"a"), 1: bytes(torn), 2: batch(b"b", b"c"), 3: batch(b"no such partition")},
                "no-such-topic-" + one: {0: batch(b"x")},
                two: {0: batch(b"d")},
            },
        )
        assert {key: row.error_code for key, row in rows.items()} == {
            (one, 0): Error.none,
            (one, 1): Error.corrupt_message,
            (one, 2): Error.none,
            (one, 3): Error.unknown_topic_or_partition,
            ("no-such-topic-" + one, 0): Error.unknown_topic_or_partition,
            (two, 0): Error.none,
        }
        assert rows[one, 1].base_offset == -1
        if version >= 8:
            assert rows[one, 1].error_message
        assert [values(raw, one, p) for p in range(3)] == [[b"a"], [], [b"b", b"c"]]
        assert values(raw, two) == [b"d"]

    def test_version_13_names_topics_by_id_and_tells_an_unknown_one(self, raw: Raw, kafka_topic: str) -> None:
        known, unknown = topic_id(raw, kafka_topic), uuid4()
        rows = produce_all(raw, 13, {known: {0: batch(b"a"), 7: batch(b"b")}, unknown: {0: batch(b"c")}})
        assert {key: row.error_code for key, row in rows.items()} == {
            (known, 0): Error.none,
            (known, 7): Error.unknown_topic_or_partition,
            (unknown, 0): Error.unknown_topic_id,
        }

    def test_a_transactional_request_is_refused_since_no_transactions_are_served(
        self, raw: Raw, kafka_topic: str
    ) -> None:
        for _ in range(3):  # a request that is known by its prefix is still refused
            (row,) = produce_all(raw, 9, {kafka_topic: {0: batch(b"x")}}, transactional_id="t").values()
            assert row.error_code is Error.transactional_id_authorization_failed
        assert values(raw, kafka_topic) == []

    def test_the_wrong_broker_says_that_it_does_not_lead(self, three: LocalCluster) -> None:
        with Raw(three.brokers[0].address) as raw:
            name = f"spread-{uuid4().hex[:8]}"
            assert create_topics(raw, new_topic(name, 3))[0].error_code is Error.none
            leaders = {p.partition_index: p.leader_id for p in metadata(raw, name).topics[0].partitions}
            rows = produce_all(raw, 9, {name: {p: batch(b"x") for p in range(3)}})
            for partition, leader in leaders.items():
                expected = Error.none if leader == 0 else Error.not_leader_or_follower
                assert rows[name, partition].error_code is expected
                assert fetch(raw, name, 0, partition=partition)[0] == expected.value

    def test_a_deleted_and_recreated_topic_takes_batches_on_the_same_connection(
        self, raw: Raw, topic_with: MakeTopic
    ) -> None:
        topic = topic_with()
        for _ in range(3):
            assert produce(raw, topic, batch(b"old"))[0] == 0
        assert delete_topics(raw, topic)[0].error_code is Error.none
        assert produce(raw, topic, batch(b"x"))[0] == Error.unknown_topic_or_partition.value
        assert create_topics(raw, new_topic(topic))[0].error_code is Error.none
        assert produce(raw, topic, batch(b"new")) == (0, 0)
        assert values(raw, topic) == [b"new"]


class TestShapes:
    """A connection recognises requests that it has seen by their prefix: none may be taken for another."""

    def test_three_hundred_partitions_on_one_connection(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(300)
        for round_ in range(3):
            raw.send(b"".join(produce_frame(topic, batch(b"%d/%d" % (round_, p)), partition=p) for p in range(300)))
            assert [produced(raw, topic) for _ in range(300)] == [(0, round_)] * 300
        for partition in (0, 1, 127, 128, 255, 256, 299):
            assert values(raw, topic, partition) == [b"%d/%d" % (n, partition) for n in range(3)]

    def test_topics_versions_acks_and_clients_may_change_from_request_to_request(
        self, raw: Raw, topic_with: MakeTopic
    ) -> None:
        short, long_, twin = "s" + topic_with()[:9], topic_with(2), topic_with(2)
        assert create_topics(raw, new_topic(short, 2))[0].error_code is Error.none
        written: dict[tuple[str, int], list[bytes]] = {}
        asked = []
        for number in range(200):
            topic = (short, long_, twin)[number % 3]
            partition = number // 3 % 2
            version = (7, 9, 3, 8)[number % 4]
            acks = (1, -1, 0)[number % 5 % 3]
            client = ("raw", "other", "")[number % 7 % 3]
            value = b"%d" % number
            written.setdefault((topic, partition), []).append(value)
            body = produce_request(version, {topic: {partition: batch(value)}}, acks=acks)
            raw.send(write_request(Api.PRODUCE, version, number, client, body))
            if acks:
                asked.append((number, version, topic, partition, len(written[topic, partition]) - 1))
        for number, version, topic, partition, offset in asked:
            correlation_id, answer = read_response(Api.PRODUCE, version, raw.frame())
            assert correlation_id == number
            row = answer.responses[0].partition_responses[0]
            assert str(answer.responses[0].name) == topic
            assert (row.index, row.error_code, row.base_offset) == (partition, Error.none, offset)
        for (topic, partition), expected in written.items():
            assert values(raw, topic, partition) == expected

    def test_one_batch_and_several_partitions_take_turns(self, raw: Raw, topic_with: MakeTopic) -> None:
        topic = topic_with(2)
        for number in range(10):
            assert produce(raw, topic, batch(b"one"))[1] == 2 * number
            rows = produce_all(raw, 7, {topic: {0: batch(b"both"), 1: batch(b"both")}})
            assert [row.base_offset for row in rows.values()] == [2 * number + 1, number]
        assert values(raw, topic, 0) == [b"one", b"both"] * 10
        assert values(raw, topic, 1) == [b"both"] * 10
