"""OffsetCommit, OffsetFetch and OffsetDelete: what groups have read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import kio.schema.offset_commit.v9.response as named_commit
import kio.schema.offset_commit.v10.response as commit_by_id
import kio.schema.offset_delete.v0.response as delete_response
import kio.schema.offset_fetch.v9.response as named_fetch
import kio.schema.offset_fetch.v10.response as fetch_by_id
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.groups.group import Group, State
from kafka_classic.groups.offsets import At
from kafka_classic.groups.records import OffsetValue
from kafka_classic.groups.subscription import CONSUMER
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

Commit: dict[bool, Any] = {False: named_commit, True: commit_by_id}
Fetch: dict[bool, Any] = {False: named_fetch, True: fetch_by_id}
D: Any = delete_response


def offset_commit(broker: Broker, connection: Connection, request: Any) -> Any:
    by_id = request.__version__ >= 10
    values: dict[At, OffsetValue] = {}
    codes: dict[tuple[str | UUID | None, int], Error] = {}
    now_ms = int(broker.clock() * 1000)
    longest = broker.settings.offset_metadata_max_bytes
    for topic in request.topics:
        said, name = _topic(broker, topic, by_id)
        for row in topic.partitions:
            metadata = row.committed_metadata or ""
            code = Error.none
            if name is None or row.partition_index >= broker.view.size_of(name) or row.partition_index < 0:
                code = Error.unknown_topic_id if by_id and name is None else Error.unknown_topic_or_partition
            elif len(metadata) > longest or len(metadata.encode()) > longest:
                code = Error.offset_metadata_too_large
            else:
                values[name, row.partition_index] = OffsetValue(
                    row.committed_offset, row.committed_leader_epoch, metadata, now_ms
                )
            codes[said, row.partition_index] = code
    shard, refused = broker.coordination.find(request.group_id)
    if shard is not None:
        refused = broker.coordination.membership.may_commit(
            shard.groups.get(request.group_id),
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
        )
    if refused is Error.none and values and shard is not None:
        found = shard
        refused = broker.coordination.outcome(lambda answer: found.commit(request.group_id, values, answer))
    made = Commit[by_id]

    def rows(topic: Any) -> tuple[Any, ...]:
        said = topic.topic_id if by_id else topic.name
        return tuple(
            made.OffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=codes[said, row.partition_index] or refused
            )
            for row in topic.partitions
        )

    return made.OffsetCommitResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            made.OffsetCommitResponseTopic(
                **({"topic_id": topic.topic_id} if by_id else {"name": topic.name}), partitions=rows(topic)
            )
            for topic in request.topics
        ),
    )


def _topic(broker: Broker, topic: Any, by_id: bool) -> tuple[str | UUID | None, str | None]:
    """A topic as the client says it, and its name, if there is such a topic."""
    if by_id:
        return topic.topic_id, broker.view.names.get(topic.topic_id)
    return topic.name, topic.name if topic.name in broker.view.topics else None


def offset_fetch(broker: Broker, connection: Connection, request: Any) -> Any:
    by_id = request.__version__ >= 10
    made = Fetch[by_id]
    return made.OffsetFetchResponse(
        throttle_time=NO_TIME, groups=tuple(_fetched(broker, made, by_id, asked) for asked in request.groups)
    )


def _fetched(broker: Broker, made: Any, by_id: bool, asked: Any) -> Any:
    shard, code = broker.coordination.find(asked.group_id)
    if shard is not None and broker.coordination.doubtful(shard):
        code = Error.coordinator_not_available
    group = shard.groups.get(asked.group_id) if shard is not None and code is Error.none else None
    if asked.topics is None:
        wanted = _everything(broker, group, by_id)
    else:
        wanted = [(t.topic_id if by_id else t.name, t.partition_indexes) for t in asked.topics]
    topics = []
    for said, indexes in wanted:
        name: str | None = broker.view.names.get(said) if by_id else said
        # A client of version 1 looks for what is wrong with the group in each row.
        row_code = Error.unknown_topic_id if name is None else code
        rows = tuple(_row(made, group, name, index, row_code) for index in indexes)
        topics.append(
            made.OffsetFetchResponseTopics(**({"topic_id": said} if by_id else {"name": said}), partitions=rows)
        )
    return made.OffsetFetchResponseGroup(group_id=asked.group_id, topics=tuple(topics), error_code=code)


def _everything(broker: Broker, group: Group | None, by_id: bool) -> list[tuple[Any, tuple[int, ...]]]:
    found: dict[Any, list[int]] = {}
    for topic, index in group.offsets if group is not None else ():
        said = broker.view.id_of(topic) if by_id else topic
        if said is not None:
            found.setdefault(said, []).append(index)
    return [(said, tuple(sorted(indexes))) for said, indexes in found.items()]


def _row(made: Any, group: Group | None, name: str | None, index: int, code: Error) -> Any:
    value = group.offsets.get((name, index)) if group is not None and name is not None else None
    if value is None or code is not Error.none:
        return made.OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
        )
    return made.OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=code,
    )


def offset_delete(broker: Broker, connection: Connection, request: OffsetDeleteRequest) -> Any:
    shard, code = broker.coordination.find(request.group_id)
    group = shard.groups.get(request.group_id) if shard is not None else None
    if shard is not None:
        code = _deletable(group)
    if code is not Error.none or shard is None or group is None:
        return D.OffsetDeleteResponse(error_code=code, throttle_time=NO_TIME, topics=())
    held = group.subscribed if group.state is not State.EMPTY else frozenset()
    codes: dict[At, Error] = {}
    for topic in request.topics:
        for row in topic.partitions:
            at = topic.name, row.partition_index
            if row.partition_index >= broker.view.size_of(topic.name):
                codes[at] = Error.unknown_topic_or_partition
            elif held is None or topic.name in held:
                codes[at] = Error.group_subscribed_to_topic
            else:
                codes[at] = Error.none
    doomed = [at for at, error in codes.items() if error is Error.none and group.offsets.get(at) is not None]
    if doomed:
        failed = broker.coordination.outcome(lambda answer: shard.forget(group, doomed, answer))
        codes.update(dict.fromkeys(doomed, failed))
    return D.OffsetDeleteResponse(
        error_code=Error.none,
        throttle_time=NO_TIME,
        topics=tuple(
            D.OffsetDeleteResponseTopic(name=topic.name, partitions=_deleted(topic, codes)) for topic in request.topics
        ),
    )


def _deletable(group: Group | None) -> Error:
    if group is None or group.state is State.DEAD:
        return Error.group_id_not_found
    if group.state is State.EMPTY or group.protocol_type == CONSUMER:
        return Error.none
    return Error.non_empty_group


def _deleted(topic: Any, codes: dict[At, Error]) -> tuple[Any, ...]:
    indexes: Iterable[int] = (row.partition_index for row in topic.partitions)
    return tuple(
        D.OffsetDeleteResponsePartition(partition_index=index, error_code=codes[topic.name, index]) for index in indexes
    )
