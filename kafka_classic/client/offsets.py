"""Offsets of partitions: the earliest, the latest, that of a time; and the deletion of records before one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import Connection, Pending
from kafka_classic.client.leaders import Outcome, Question, TopicPartition, ask_leaders
from kafka_classic.wire.apis import Api

T = TypeVar("T")

# In place of a timestamp in milliseconds, by Kafka's numbers.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
# In place of an offset to delete up to: the high watermark.
HIGH_WATERMARK = -1
_CONSUMER = -1


class OffsetAt(NamedTuple):
    """An offset and the timestamp of its record; both are -1 when no record is that late."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, deadline: float | None = None
) -> dict[TopicPartition, OffsetAt]:
    """Return for each partition the offset of the first record at or after a timestamp, or of EARLIEST, LATEST …"""
    return ask_leaders(cluster, wanted, Question(_send_list, _read_list), deadline)


def list_offsets_of(
    connection: Connection, wanted: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, Outcome[OffsetAt]]:
    """Ask one leader, once: the outcome of each partition, errors among them, for those who make their own attempts."""
    return _read_list(_send_list(connection, wanted).result())


def offsets_of_topic(cluster: Cluster, topic: str, when: int) -> dict[int, int]:
    """Return the offset of each partition of a topic: EARLIEST, LATEST, or a timestamp in milliseconds."""
    partitions = cluster.topic(topic).partitions
    found = list_offsets(cluster, {(topic, partition.index): when for partition in partitions})
    return {index: at.offset for (_, index), at in found.items()}


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, deadline: float | None = None
) -> dict[TopicPartition, int]:
    """Delete all records before an offset (or HIGH_WATERMARK) and return each partition's new first offset."""
    return ask_leaders(cluster, before, Question(_send_delete, _read_delete), deadline)


def by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, list[tuple[int, T]]]:
    """Return the partitions in the shape that requests have: under their topic."""
    topics: dict[str, list[tuple[int, T]]] = defaultdict(list)
    for (topic, index), value in partitions.items():
        topics[topic].append((index, value))
    return topics


def _send_list(connection: Connection, share: Mapping[TopicPartition, int]) -> Pending[Any]:
    from kio.schema.list_offsets.v11 import ListOffsetsRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i8, i32, i32Timedelta, i64

    request = ListOffsetsRequest(
        replica_id=BrokerId(_CONSUMER),
        isolation_level=i8(0),
        topics=tuple(
            ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    ListOffsetsPartition(partition_index=i32(index), timestamp=i64(when)) for index, when in partitions
                ),
            )
            for topic, partitions in by_topic(share).items()
        ),
        timeout=i32Timedelta.parse(timedelta(seconds=connection.timeout)),
    )
    return connection.send(Api.LIST_OFFSETS, request)


def _read_list(answer: Any) -> Mapping[TopicPartition, Outcome[OffsetAt]]:
    return _outcomes(answer.topics, lambda one: OffsetAt(int(one.offset), int(one.timestamp), int(one.leader_epoch)))


def _send_delete(connection: Connection, share: Mapping[TopicPartition, int]) -> Pending[Any]:
    from kio.schema.delete_records.v2 import DeleteRecordsRequest
    from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
    from kio.schema.types import TopicName
    from kio.static.primitive import i32, i32Timedelta, i64

    request = DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    DeleteRecordsPartition(partition_index=i32(index), offset=i64(offset))
                    for index, offset in partitions
                ),
            )
            for topic, partitions in by_topic(share).items()
        ),
        timeout=i32Timedelta.parse(timedelta(seconds=connection.timeout)),
    )
    return connection.send(Api.DELETE_RECORDS, request)


def _read_delete(answer: Any) -> Mapping[TopicPartition, Outcome[int]]:
    return _outcomes(answer.topics, lambda one: int(one.low_watermark))


def _outcomes(topics: Iterable[Any], value: Callable[[Any], T]) -> dict[TopicPartition, Outcome[T]]:
    return {
        (str(topic.name), int(one.partition_index)): Outcome(one.error_code, value(one))
        for topic in topics
        for one in topic.partitions
    }
