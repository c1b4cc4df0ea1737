"""Produce and Fetch packed by hand say what kio's classes say, byte for byte."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v11 import FetchRequest, FetchResponse
from kio.schema.fetch.v11.request import FetchPartition, FetchTopic
from kio.schema.fetch.v11.response import AbortedTransaction, FetchableTopicResponse, PartitionData
from kio.schema.produce.v8 import ProduceRequest, ProduceResponse
from kio.schema.produce.v8.request import PartitionProduceData, TopicProduceData
from kio.schema.produce.v8.response import BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

from kafka_classic.client.fetch_packed import Fetched, FetchLimits, pack_fetch, read_fetched
from kafka_classic.client.produce_packed import Produced, pack_produce, read_produced
from kafka_classic.wire.errors import Error
from tests.client.answers import NO_TIME

names = st.text("abcäöü._-", min_size=1, max_size=20)
partitions = st.tuples(names, st.integers(0, 2**31 - 1))
int64 = st.integers(-(2**63), 2**63 - 1)


def _written(entity: object) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)  # type: ignore[type-var]
    return out.getvalue()


def _milliseconds(number: int) -> i32Timedelta:
    from datetime import timedelta

    return i32Timedelta.parse(timedelta(milliseconds=number))


@given(st.dictionaries(partitions, st.binary(max_size=50), max_size=6), st.sampled_from([-1, 0, 1]))
def test_a_produce_request_is_what_kio_writes(batches: dict[tuple[str, int], bytes], acks: int) -> None:
    topics = dict.fromkeys(topic for topic, _ in batches)
    twin = ProduceRequest(
        transactional_id=None,
        acks=i16(acks),
        timeout=_milliseconds(1500),
        topic_data=tuple(
            TopicProduceData(
                name=TopicName(topic),
                partition_data=tuple(
                    PartitionProduceData(index=i32(index), records=Records(batch))
                    for (name, index), batch in batches.items()
                    if name == topic
                ),
            )
            for topic in topics
        ),
    )
    assert b"".join(pack_produce(batches, acks, 1500)) == _written(twin)


@given(st.dictionaries(partitions, int64, max_size=6))
def test_a_fetch_request_is_what_kio_writes(offsets: dict[tuple[str, int], int]) -> None:
    topics = dict.fromkeys(topic for topic, _ in offsets)
    twin = FetchRequest(
        replica_id=BrokerId(-1),
        max_wait=_milliseconds(77),
        min_bytes=i32(3),
        max_bytes=i32(1000),
        isolation_level=i8(0),
        topics=tuple(
            FetchTopic(
                topic=TopicName(topic),
                partitions=tuple(
                    FetchPartition(partition=i32(index), fetch_offset=i64(offset), partition_max_bytes=i32(99))
                    for (name, index), offset in offsets.items()
                    if name == topic
                ),
            )
            for topic in topics
        ),
        forgotten_topics_data=(),
    )
    assert b"".join(pack_fetch(offsets, FetchLimits(77, 3, 1000, 99))) == _written(twin)


def test_a_produce_response_is_read_as_kio_wrote_it() -> None:
    twin = ProduceResponse(
        responses=(
            TopicProduceResponse(
                name=TopicName("wörter"),
                partition_responses=(
                    PartitionProduceResponse(
                        index=i32(3), error_code=Error.none, base_offset=i64(2**40), record_errors=()
                    ),
                    PartitionProduceResponse(
                        index=i32(4),
                        error_code=Error.invalid_record,
                        base_offset=i64(-1),
                        log_append_time=datetime.fromtimestamp(5, UTC),  # type: ignore[arg-type]
                        log_start_offset=i64(7),
                        record_errors=(
                            BatchIndexAndErrorMessage(batch_index=i32(0), batch_index_error_message="no key"),
                            BatchIndexAndErrorMessage(batch_index=i32(1)),
                        ),
                        error_message="two records are wrong",
                    ),
                ),
            ),
        ),
        throttle_time=NO_TIME,
    )
    assert read_produced(_written(twin)) == {
        ("wörter", 3): Produced(0, 2**40, -1, -1, None),
        ("wörter", 4): Produced(Error.invalid_record, -1, 5000, 7, "two records are wrong; no key"),
    }


FETCHED = FetchResponse(
    throttle_time=NO_TIME,
    error_code=Error.none,
    responses=(
        FetchableTopicResponse(
            topic=TopicName("t"),
            partitions=(
                PartitionData(
                    partition_index=i32(0),
                    error_code=Error.none,
                    high_watermark=i64(9),
                    log_start_offset=i64(2),
                    aborted_transactions=(AbortedTransaction(producer_id=ProducerId(1), first_offset=i64(1)),),
                    records=Records(b"some batches"),
                ),
                PartitionData(
                    partition_index=i32(1),
                    error_code=Error.not_leader_or_follower,
                    high_watermark=i64(-1),
                    aborted_transactions=None,
                    records=None,
                ),
            ),
        ),
    ),
)


def test_a_fetch_response_is_read_as_kio_wrote_it() -> None:
    assert read_fetched(_written(FETCHED)) == (
        0,
        {
            ("t", 0): Fetched(0, 9, 2, memoryview(b"some batches")),
            ("t", 1): Fetched(Error.not_leader_or_follower, -1, -1, memoryview(b"")),
        },
    )


def test_a_fetch_response_cut_off_anywhere_is_refused() -> None:
    import struct

    whole = _written(FETCHED)
    for size in range(len(whole)):
        with pytest.raises((struct.error, ValueError, IndexError)):
            read_fetched(whole[:size])
