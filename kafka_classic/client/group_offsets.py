"""What a group has read, as its coordinator keeps it in `__consumer_offsets`: committed, fetched, deleted.

A commit outside of a generation (-1, no member id) is that of a consumer whom the coordinator hands no partitions: one
that assigns them itself, or balances itself through ZooKeeper. It is refused while the group has members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka_classic.client.coordinator import Coordinator, group_error
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.client.offsets import by_topic
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

_NO_GENERATION = -1
_FENCED = (Error.unknown_member_id, Error.illegal_generation)
_REFUSED = "the brokers share its partitions out among members of their own: stop those, or take another group"


def commit_offsets(
    coordinator: Coordinator, offsets: Mapping[TopicPartition, int], *, deadline: float | None = None
) -> None:
    """Keep these offsets; returns when they are safe.

    Raises UnknownTopic, once all others are kept, if there are no longer such partitions.
    """
    left = dict(offsets)
    gone: list[KafkaError] = []

    def read(answer: Any) -> None:
        failures = []
        for at, code in _outcomes(answer.topics):
            if not code:
                left.pop(at, None)
            elif code == Error.unknown_topic_or_partition:
                left.pop(at, None)
                gone.append(UnknownTopic(code, partition_error(code, *at).message))
            else:
                failures.append(group_error(code, coordinator.group, _REFUSED if code in _FENCED else None))
        # What another attempt cannot mend is told first.
        if failures:
            raise min(failures, key=lambda failure: failure.retriable)

    if left:
        coordinator.ask(Api.OFFSET_COMMIT, lambda: _commit_request(coordinator.group, left), read, deadline=deadline)
    if gone:
        raise gone[0]


def fetch_offsets(
    coordinator: Coordinator, partitions: Collection[TopicPartition] | None = None, *, deadline: float | None = None
) -> dict[TopicPartition, int]:
    """Return the committed offsets, of those of the partitions (or of all) that have one."""

    def read(answer: Any) -> dict[TopicPartition, int]:
        [group] = answer.groups
        rows = [
            ((str(topic.name), int(row.partition_index)), row) for topic in group.topics for row in topic.partitions
        ]
        for code in (group.error_code, *(row.error_code for _, row in rows)):
            if code:
                raise group_error(code, coordinator.group)
        return {at: int(row.committed_offset) for at, row in rows if row.committed_offset >= 0}

    if partitions is not None and not partitions:
        return {}
    return coordinator.ask(
        Api.OFFSET_FETCH, lambda: _fetch_request(coordinator.group, partitions), read, deadline=deadline
    )


def delete_offsets(
    coordinator: Coordinator, partitions: Collection[TopicPartition], *, deadline: float | None = None
) -> None:
    """Forget the offsets of these partitions; no group, or no offset, is nothing to forget."""

    def read(answer: Any) -> None:
        if answer.error_code and answer.error_code != Error.group_id_not_found:
            raise group_error(answer.error_code, coordinator.group)
        for at, code in _outcomes(answer.topics):
            if code and code != Error.unknown_topic_or_partition:
                raise partition_error(code, *at)

    if partitions:
        coordinator.ask(
            Api.OFFSET_DELETE, lambda: _delete_request(coordinator.group, partitions), read, deadline=deadline
        )


def _outcomes(topics: Iterable[Any]) -> list[tuple[TopicPartition, Error]]:
    return [
        ((str(topic.name), int(row.partition_index)), row.error_code) for topic in topics for row in topic.partitions
    ]


def _commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> object:
    from kio.schema.offset_commit.v9 import OffsetCommitRequest
    from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
    from kio.schema.types import GroupId, TopicName
    from kio.static.primitive import i32, i64

    return OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(_NO_GENERATION),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=i32(index), committed_offset=i64(offset), committed_metadata=""
                    )
                    for index, offset in partitions
                ),
            )
            for topic, partitions in by_topic(offsets).items()
        ),
    )


def _fetch_request(group: str, partitions: Collection[TopicPartition] | None) -> object:
    from kio.schema.offset_fetch.v9 import OffsetFetchRequest
    from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
    from kio.schema.types import GroupId, TopicName
    from kio.static.primitive import i32

    topics = None
    if partitions is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=TopicName(topic), partition_indexes=tuple(i32(index) for index, _ in rows))
            for topic, rows in by_topic(dict.fromkeys(partitions)).items()
        )
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GroupId(group), topics=topics),))


def _delete_request(group: str, partitions: Collection[TopicPartition]) -> object:
    from kio.schema.offset_delete.v0 import OffsetDeleteRequest
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
    from kio.schema.types import GroupId, TopicName
    from kio.static.primitive import i32

    return OffsetDeleteRequest(
        group_id=GroupId(group),
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=TopicName(topic),
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(index)) for index, _ in rows),
            )
            for topic, rows in by_topic(dict.fromkeys(partitions)).items()
        ),
    )
