"""Requests of groups, as a member or an admin sends them, over a Raw connection."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import kio.schema.find_coordinator.v6.request as find_coordinator_request
import kio.schema.heartbeat.v4.request as heartbeat_request
import kio.schema.join_group.v9.request as join_request
import kio.schema.offset_commit.v9.request as named_commit
import kio.schema.offset_commit.v10.request as commit_by_id
import kio.schema.offset_delete.v0.request as delete_request
import kio.schema.offset_fetch.v9.request as named_fetch
import kio.schema.offset_fetch.v10.request as fetch_by_id
import kio.schema.sync_group.v5.request as sync_request

from kafka_classic.testing.waiting import until
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error
from tests.broker.raw import Raw
from tests.groups.play import subscription

FIND: Any = find_coordinator_request
COMMIT: dict[bool, Any] = {False: named_commit, True: commit_by_id}
FETCH: dict[bool, Any] = {False: named_fetch, True: fetch_by_id}
DELETE: Any = delete_request
JOIN: Any = join_request
SYNC: Any = sync_request
HEARTBEAT: Any = heartbeat_request

Topic = str | UUID
Offsets = Mapping[tuple[Any, int], int]


def ms(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def find_coordinator(raw: Raw, *keys: str, version: int = 6, key_type: int = 0) -> Any:
    body = FIND.FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    return raw.call(Api.FIND_COORDINATOR, version, body).coordinators


def coordinator(raw: Raw, group: str) -> str:
    """The address of the group's coordinator, once there is one."""
    found: list[Any] = []

    def there() -> bool:
        found[:] = find_coordinator(raw, group)
        return not found[0].error_code

    until(there)
    return f"{found[0].host}:{found[0].port}"


def by_topic(offsets: Offsets) -> dict[Any, list[tuple[int, int]]]:
    topics: dict[Any, list[tuple[int, int]]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append((index, offset))
    return topics


def commit(
    raw: Raw,
    group: str,
    offsets: Offsets,
    *,
    version: int = 9,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    metadata: str | None = "",
    epoch: int = -1,
) -> dict[tuple[Any, int], Error]:
    """Commit; returns the error of each partition."""
    by_id = version >= 10
    made = COMMIT[by_id]
    body = made.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=tuple(
            made.OffsetCommitRequestTopic(
                **{"topic_id" if by_id else "name": topic},
                partitions=tuple(
                    made.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset in rows
                ),
            )
            for topic, rows in by_topic(offsets).items()
        ),
    )
    answer = raw.call(Api.OFFSET_COMMIT, version, body)
    return {
        (topic.topic_id if by_id else topic.name, row.partition_index): row.error_code
        for topic in answer.topics
        for row in topic.partitions
    }


def fetch_offsets(
    raw: Raw, group: str, wanted: Mapping[Any, tuple[int, ...]] | None, *, version: int = 9
) -> tuple[Error, dict[tuple[Any, int], Any]]:
    """The group's error, and the row of each partition; None asks for all."""
    by_id = version >= 10
    made = FETCH[by_id]
    topics = None
    if wanted is not None:
        topics = tuple(
            made.OffsetFetchRequestTopics(**{"topic_id" if by_id else "name": topic}, partition_indexes=indexes)
            for topic, indexes in wanted.items()
        )
    body = made.OffsetFetchRequest(groups=(made.OffsetFetchRequestGroup(group_id=group, topics=topics),))
    (found,) = raw.call(Api.OFFSET_FETCH, version, body).groups
    rows = {
        (topic.topic_id if by_id else topic.name, row.partition_index): row
        for topic in found.topics
        for row in topic.partitions
    }
    return found.error_code, rows


def committed(raw: Raw, group: str, wanted: Mapping[Any, tuple[int, ...]] | None = None, **more: Any) -> dict[Any, int]:
    """The committed offset of each partition; fails on any error."""
    error, rows = fetch_offsets(raw, group, wanted, **more)
    assert not error, error
    assert not any(row.error_code for row in rows.values()), rows
    return {at: row.committed_offset for at, row in rows.items()}


def delete_offsets(raw: Raw, group: str, wanted: Mapping[str, tuple[int, ...]]) -> Any:
    body = DELETE.OffsetDeleteRequest(
        group_id=group,
        topics=tuple(
            DELETE.OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(DELETE.OffsetDeleteRequestPartition(partition_index=index) for index in indexes),
            )
            for topic, indexes in wanted.items()
        ),
    )
    return raw.call(Api.OFFSET_DELETE, 0, body)


def join(raw: Raw, group: str, member: str = "", *, version: int = 9, instance: str | None = None, **more: Any) -> Any:
    body = JOIN.JoinGroupRequest(
        group_id=group,
        session_timeout=ms(more.get("session_ms", 30_000)),
        rebalance_timeout=ms(more.get("rebalance_ms", 30_000)),
        member_id=member,
        group_instance_id=instance,
        protocol_type=more.get("kind", "consumer"),
        protocols=(JOIN.JoinGroupRequestProtocol(name="range", metadata=more.get("metadata", subscription("t"))),),
    )
    return raw.call(Api.JOIN_GROUP, version, body)


def enter(raw: Raw, group: str, version: int = 9, **more: Any) -> Any:
    first = join(raw, group, version=version, **more)
    if first.error_code is not Error.member_id_required:
        return first
    return join(raw, group, first.member_id, version=version, **more)


def sync(raw: Raw, group: str, member: str, generation: int, share: bytes = b"all", *, version: int = 5) -> Any:
    rows = (SYNC.SyncGroupRequestAssignment(member_id=member, assignment=share),)
    body = SYNC.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=rows)
    return raw.call(Api.SYNC_GROUP, version, body)


def beat(raw: Raw, group: str, member: str, generation: int, *, version: int = 4) -> Error:
    body = HEARTBEAT.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
    code: Error = raw.call(Api.HEARTBEAT, version, body).error_code
    return code
