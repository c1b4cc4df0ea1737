"""ListGroups, DescribeGroups and DeleteGroups: what an admin asks of the coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kio.schema.delete_groups.v2.response as delete_response
import kio.schema.describe_groups.v6.response as describe_response
import kio.schema.list_groups.v5.response as list_response
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.broker.unhurried import Unhurried
from kafka_classic.groups.group import Group, State
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

L: Any = list_response
G: Any = describe_response
D: Any = delete_response

CLASSIC = "classic"  # the only type of group there is here: members assign, the coordinator keeps count
NOT_FOUND_SINCE = 6  # the version of DescribeGroups that says so; before, a group that is not there is dead


def list_groups(broker: Broker, connection: Connection, request: ListGroupsRequest) -> Any:
    states = {state.lower() for state in request.states_filter}
    types = {type.lower() for type in request.types_filter}
    groups = [
        group
        for shard in broker.coordination.active()
        for group in shard.groups.values()
        if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
    ]
    return L.ListGroupsResponse(
        throttle_time=NO_TIME,
        error_code=Error.coordinator_load_in_progress if broker.coordination.loading else Error.none,
        groups=Unhurried(_listed, groups),
    )


def _listed(group: Group) -> Any:
    return L.ListedGroup(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def describe_groups(broker: Broker, connection: Connection, request: DescribeGroupsRequest) -> Any:
    says_not_found = connection.version >= NOT_FOUND_SINCE
    return G.DescribeGroupsResponse(
        throttle_time=NO_TIME, groups=tuple(_described(broker, id, says_not_found) for id in request.groups)
    )


def _described(broker: Broker, id: str, says_not_found: bool) -> Any:
    shard, code = broker.coordination.find(id)
    group = shard.groups.get(id) if shard is not None else None
    message = None
    if group is None:
        state = ""
        if code is Error.none:
            state = State.DEAD.value
            if says_not_found:
                code, message = Error.group_id_not_found, f"Group {id} not found."
        return _row(id, code, message, state)
    stable = group.state is State.STABLE
    members = tuple(
        G.DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if stable else b"",
            member_assignment=member.assignment if stable else b"",
        )
        for member in group.members.values()
    )
    protocol = (group.protocol or "") if stable else ""
    return _row(id, Error.none, None, group.state.value, group.protocol_type or "", protocol, members)


def _row(
    id: str,
    code: Error,
    message: str | None,
    state: str,
    protocol_type: str = "",
    protocol: str = "",
    members: tuple[Any, ...] = (),
) -> Any:
    return G.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=id,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol,
        members=members,
    )


def delete_groups(broker: Broker, connection: Connection, request: DeleteGroupsRequest) -> Any:
    ids = dict.fromkeys(request.groups_names)
    rows = tuple(D.DeletableGroupResult(group_id=id, error_code=_delete(broker, id)) for id in ids)
    return D.DeleteGroupsResponse(throttle_time=NO_TIME, results=rows)


def _delete(broker: Broker, id: str) -> Error:
    shard, code = broker.coordination.find(id)
    if shard is None:
        return code
    group = shard.groups.get(id)
    if group is None:
        return Error.group_id_not_found
    if group.state is not State.EMPTY or group.pending:
        return Error.non_empty_group
    return broker.coordination.outcome(lambda answer: shard.forget(group, list(group.offsets), answer))
