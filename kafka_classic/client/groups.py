"""The groups that brokers coordinate: listed, described, deleted."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator, group_error
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

CONSUMER = "consumer"  # the protocol type of groups that read topics
DEAD = "Dead"


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it. Without a protocol type it has offsets, and never had a member."""

    name: str
    protocol_type: str
    state: str


class GroupMember(NamedTuple):
    """One member and what it was given to read."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class DescribedGroup(NamedTuple):
    """A group, its state by Kafka's word, and its members."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]


def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """Return all groups of all brokers, by name: each broker is asked for those that it coordinates."""
    from kio.schema.list_groups.v5 import ListGroupsRequest

    def ask(node: int) -> Any:
        answer = cluster.connection(node).request(Api.LIST_GROUPS, ListGroupsRequest())
        if answer.error_code:
            raise KafkaError(answer.error_code)
        return answer.groups

    def attempt() -> list[ListedGroup]:
        return [_listed(group) for node in cluster.metadata(()).brokers for group in ask(node)]

    # A group that moves while the brokers are asked may be told of by two of them.
    return sorted({group.name: group for group in cluster.retrying(attempt)}.values())


def describe_group(coordinator: Coordinator) -> DescribedGroup | None:
    """Return the group; None if its coordinator does not know it."""
    from kio.schema.describe_groups.v6 import DescribeGroupsRequest
    from kio.schema.types import GroupId

    def read(answer: Any) -> DescribedGroup | None:
        [group] = answer.groups
        if group.error_code == Error.group_id_not_found or (not group.error_code and group.group_state == DEAD):
            return None
        if group.error_code:
            raise group_error(group.error_code, coordinator.group, group.error_message)
        return DescribedGroup(
            coordinator.group,
            group.group_state,
            group.protocol_type,
            group.protocol_data,
            tuple(_member(member, group.protocol_type) for member in group.members),
        )

    request = DescribeGroupsRequest(groups=(GroupId(coordinator.group),), include_authorized_operations=False)
    return coordinator.ask(Api.DESCRIBE_GROUPS, lambda: request, read)


def delete_group(coordinator: Coordinator) -> bool:
    """Forget a group and all its offsets; False if there is none, NON_EMPTY_GROUP while it has members."""
    from kio.schema.delete_groups.v2 import DeleteGroupsRequest
    from kio.schema.types import GroupId

    def read(answer: Any) -> bool:
        [result] = answer.results
        if result.error_code == Error.group_id_not_found:
            return False
        if result.error_code:
            raise group_error(result.error_code, coordinator.group)
        return True

    request = DeleteGroupsRequest(groups_names=(GroupId(coordinator.group),))
    return coordinator.ask(Api.DELETE_GROUPS, lambda: request, read)


def _listed(group: Any) -> ListedGroup:
    return ListedGroup(str(group.group_id), group.protocol_type, group.group_state)


def _member(member: Any, protocol_type: str) -> GroupMember:
    partitions = assigned_by(member.member_assignment) if protocol_type == CONSUMER else ()
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(sorted(partitions))
    )


def assigned_by(assignment: bytes) -> Iterable[TopicPartition]:
    """Read Kafka's ConsumerProtocolAssignment; what is none (a member made it, not a broker) assigns nothing.

    version: int16, then an array of (topic: string, partitions: array of int32), then bytes of the assignor's own.
    """
    found: list[TopicPartition] = []
    try:
        (topics,) = struct.unpack_from(">xxi", assignment)
        at = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", assignment, at)
            topic = assignment[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (count,) = struct.unpack_from(">i", assignment, at)
            at += 4
            if count < 0 or at + 4 * count > len(assignment):
                return ()
            found += [(topic, index) for index in struct.unpack_from(f">{count}i", assignment, at)]
            at += 4 * count
    except (struct.error, UnicodeDecodeError):
        return ()
    return found
