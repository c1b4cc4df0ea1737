"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition's log begins, ends, and stood at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import kio.schema.delete_records.v2.response as delete_records_response
import kio.schema.list_offsets.v11.response as list_offsets_response
import kio.schema.offset_for_leader_epoch.v4.response as epoch_response
from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.broker.unhurried import Unhurried
from kafka_classic.log.errors import OffsetOutOfRange, StorageError
from kafka_classic.replication.partition import Partition
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

L: Any = list_offsets_response
E: Any = epoch_response
D: Any = delete_records_response

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4  # without tiered storage the whole log is local …
LATEST_TIERED = -5  # … and nothing is in the other tier
EARLIEST_PENDING_UPLOAD = -6


def fenced(partition: Partition, claimed: int) -> Error:
    """The error for a client whose leader epoch differs from ours, if it named one."""
    if claimed < 0 or claimed == partition.leader_epoch:
        return Error.none
    return Error.fenced_leader_epoch if claimed < partition.leader_epoch else Error.unknown_leader_epoch


def locate(partition: Partition, target: int) -> tuple[int, int]:
    """The (offset, timestamp) that a ListOffsets target means; -1 for what is not there."""
    log = partition.log
    if target == LATEST:
        return partition.readable_to, -1
    if target in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if target in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1
    found = log.max_timestamp() if target == MAX_TIMESTAMP else log.offset_for_timestamp(target)
    return found if found is not None and found[0] < partition.readable_to else (-1, -1)


def list_offsets(broker: Broker, connection: Connection, request: ListOffsetsRequest) -> Any:
    topics = Unhurried(partial(_listed_topic, broker), request.topics)
    return L.ListOffsetsResponse(throttle_time=NO_TIME, topics=topics)


def _listed_topic(broker: Broker, topic: ListOffsetsTopic) -> Any:
    rows = Unhurried(partial(listed, broker, topic.name), topic.partitions)
    return L.ListOffsetsTopicResponse(name=topic.name, partitions=rows)


def listed(broker: Broker, topic: str, row: ListOffsetsPartition) -> Any:
    """The answer for one partition."""
    partition, code = broker.hosted.lead(topic, row.partition_index)
    offset = timestamp = -1
    if partition is not None:
        code = fenced(partition, row.current_leader_epoch)
        if row.timestamp < EARLIEST_PENDING_UPLOAD:
            code = Error.unsupported_version  # a later Kafka may know what it means
        if row.timestamp == LATEST and partition.fresh:
            code = Error.offset_not_available  # the leader before may have told consumers more
        if code is Error.none:
            try:
                offset, timestamp = locate(partition, row.timestamp)
            except StorageError:
                code = Error.kafka_storage_error
    return L.ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        error_code=code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.leader_epoch if partition is not None and offset >= 0 else -1,
    )


def offset_for_leader_epoch(broker: Broker, connection: Connection, request: OffsetForLeaderEpochRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            partition, code = broker.hosted.lead(topic.topic, row.partition)
            epoch = end = -1
            if partition is not None:
                code = fenced(partition, row.current_leader_epoch)
                if code is Error.none:
                    try:
                        epoch, end = partition.log.epoch_end_offset(row.leader_epoch)
                    except StorageError:
                        code = Error.kafka_storage_error
            rows.append(E.EpochEndOffset(error_code=code, partition=row.partition, leader_epoch=epoch, end_offset=end))
        topics.append(E.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(rows)))
    return E.OffsetForLeaderEpochResponse(throttle_time=NO_TIME, topics=tuple(topics))


def delete_records(broker: Broker, connection: Connection, request: DeleteRecordsRequest) -> Any:
    topics = []
    for topic in request.topics:
        rows = []
        for row in topic.partitions:
            partition, code = broker.hosted.lead(topic.name, row.partition_index)
            low = -1
            if partition is not None:
                code, low = _delete_before(broker, partition, row.offset)
            rows.append(
                D.DeleteRecordsPartitionResult(partition_index=row.partition_index, low_watermark=low, error_code=code)
            )
        topics.append(D.DeleteRecordsTopicResult(name=topic.name, partitions=tuple(rows)))
    return D.DeleteRecordsResponse(throttle_time=NO_TIME, topics=tuple(topics))


def _delete_before(broker: Broker, partition: Partition, offset: int) -> tuple[Error, int]:
    """Move the log's start; the files below it go at the next retention, as in Kafka."""
    log = partition.log
    if offset == -1:
        offset = partition.readable_to
    if offset > partition.high_watermark:
        return Error.offset_out_of_range, -1
    try:
        log.advance_start_offset(offset)
        broker.in_a_thread(broker.directory.checkpoint_job())  # what was deleted must stay deleted
    except OffsetOutOfRange:
        return Error.offset_out_of_range, -1
    except StorageError:
        return Error.kafka_storage_error, -1
    return Error.none, log.start_offset
