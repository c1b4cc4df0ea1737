"""Answers of a scripted broker: the bodies that a real one would send."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta

from kio.schema.fetch.v12 import FetchResponse
from kio.schema.fetch.v12.response import FetchableTopicResponse, PartitionData
from kio.schema.list_offsets.v11 import ListOffsetsResponse
from kio.schema.list_offsets.v11.response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kio.schema.metadata.v13 import MetadataResponse
from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic
from kio.schema.produce.v12 import ProduceResponse
from kio.schema.produce.v12.response import PartitionProduceResponse, TopicProduceResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i32, i32Timedelta, i64

from kafka_classic.wire.errors import Error

NO_TIME = i32Timedelta.parse(timedelta(0))


def metadata(
    brokers: Mapping[int, int],
    topics: Mapping[str, Sequence[int]] | None = None,
    errors: Mapping[str, Error] | None = None,
    controller: int = 0,
) -> MetadataResponse:
    """Brokers by id and port; topics by name, each with its partitions' leaders (-1: none now)."""
    return MetadataResponse(
        throttle_time=NO_TIME,
        brokers=tuple(
            MetadataResponseBroker(node_id=BrokerId(id), host="127.0.0.1", port=i32(port))
            for id, port in brokers.items()
        ),
        cluster_id="scripted",
        controller_id=BrokerId(controller),
        topics=tuple(
            MetadataResponseTopic(
                error_code=Error.none,
                name=TopicName(name),
                topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name),
                partitions=tuple(
                    MetadataResponsePartition(
                        error_code=Error.none if leader >= 0 else Error.leader_not_available,
                        partition_index=i32(index),
                        leader_id=BrokerId(leader),
                        leader_epoch=i32(3),
                        replica_nodes=(BrokerId(max(leader, 0)),),
                        isr_nodes=(BrokerId(max(leader, 0)),),
                    )
                    for index, leader in enumerate(leaders)
                ),
            )
            for name, leaders in (topics or {}).items()
        )
        + tuple(
            MetadataResponseTopic(error_code=error, name=TopicName(name), topic_id=None, partitions=())
            for name, error in (errors or {}).items()
        ),
        error_code=Error.none,
    )


def produced(
    partitions: Mapping[tuple[str, int], tuple[Error, int]], messages: Mapping[tuple[str, int], str] | None = None
) -> ProduceResponse:
    """Error and base offset of each partition."""
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=TopicName(topic),
                partition_responses=(
                    PartitionProduceResponse(
                        index=i32(index),
                        error_code=error,
                        base_offset=i64(offset),
                        log_start_offset=i64(0),
                        record_errors=(),
                        error_message=(messages or {}).get((topic, index)),
                    ),
                ),
            )
            for (topic, index), (error, offset) in partitions.items()
        )
    )


def fetched(partitions: Mapping[tuple[str, int], tuple[Error, int, bytes]]) -> FetchResponse:
    """Error, high watermark and records of each partition."""
    return FetchResponse(
        throttle_time=NO_TIME,
        error_code=Error.none,
        responses=tuple(
            FetchableTopicResponse(
                topic=TopicName(topic),
                partitions=(
                    PartitionData(
                        partition_index=i32(index),
                        error_code=error,
                        high_watermark=i64(high_watermark),
                        log_start_offset=i64(0),
                        aborted_transactions=None,
                        records=Records(records),
                    ),
                ),
            )
            for (topic, index), (error, high_watermark, records) in partitions.items()
        ),
    )


def listed(partitions: Mapping[tuple[str, int], tuple[Error, int]]) -> ListOffsetsResponse:
    """Error and offset of each partition."""
    return ListOffsetsResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=TopicName(topic),
                partitions=(
                    ListOffsetsPartitionResponse(partition_index=i32(index), error_code=error, offset=i64(offset)),
                ),
            )
            for (topic, index), (error, offset) in partitions.items()
        ),
    )
