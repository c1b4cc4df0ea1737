"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what members of a group say to its coordinator."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import kio.schema.heartbeat.v4.response as heartbeat_response
import kio.schema.join_group.v9.response as join_response
import kio.schema.leave_group.v5.response as leave_response
import kio.schema.sync_group.v5.response as sync_response
from gevent.event import AsyncResult
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.groups.member import JoinAsk, Joined, Synced
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

J: Any = join_response
S: Any = sync_response
H: Any = heartbeat_response
L: Any = leave_response

ASKED_TWICE = 4  # the version of JoinGroup from which a member is given its id before it is one
CAN_SKIP = 9  # … and from which a leader can be told not to assign
LONGEST_TEXT = 8192  # bytes of an id or a protocol's name; a record of the group holds 32 KB in one field


def join_group(broker: Broker, connection: Connection, request: JoinGroupRequest) -> Any:
    shard, code = broker.coordination.find(request.group_id)
    names = (row.name for row in request.protocols)
    texts = (connection.client_id, request.member_id, request.group_instance_id, request.protocol_type, *names)
    if not request.group_id:
        code = Error.invalid_group_id
    elif _too_long(*texts):
        code = Error.invalid_request
    elif shard is not None and broker.coordination.doubtful(shard):
        code = Error.coordinator_not_available
    elif shard is not None and request.member_id and request.group_id not in shard.groups:
        code = Error.unknown_member_id
    if shard is None or code is not Error.none:
        return _joined(Joined(code, request.member_id))
    version = connection.version
    session_ms = _ms(request.session_timeout)
    rebalance_ms = _ms(request.rebalance_timeout)
    ask = JoinAsk(
        request.member_id,
        request.group_instance_id,
        connection.client_id or "",
        "/" + connection.peer.rpartition(":")[0],
        session_ms,
        session_ms if rebalance_ms < 0 else rebalance_ms,
        request.protocol_type,
        tuple((row.name, row.metadata) for row in request.protocols),
        version >= ASKED_TWICE,
        version >= CAN_SKIP,
    )
    result: AsyncResult[Joined] = AsyncResult()
    group = shard.group(request.group_id)
    broker.coordination.membership.join(group, ask, result.set)
    shard.tidy(group)
    return _joined(result.get())


def _joined(joined: Joined) -> Any:
    return J.JoinGroupResponse(
        throttle_time=NO_TIME,
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            J.JoinGroupResponseMember(member_id=id, group_instance_id=instance, metadata=metadata)
            for id, instance, metadata in joined.members
        ),
    )


def sync_group(broker: Broker, connection: Connection, request: SyncGroupRequest) -> Any:
    shard, code = broker.coordination.find(request.group_id)
    group = shard.groups.get(request.group_id) if shard is not None else None
    if code is Error.coordinator_load_in_progress:
        code = Error.rebalance_in_progress  # what was under way is lost: join again, here
    elif code is Error.none and group is None:
        code = Error.unknown_member_id
    if group is None:
        return _synced(Synced(code))
    result: AsyncResult[Synced] = AsyncResult()
    broker.coordination.membership.sync(
        group,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {row.member_id: row.assignment for row in request.assignments},
        result.set,
    )
    return _synced(result.get())


def _synced(synced: Synced) -> Any:
    return S.SyncGroupResponse(
        throttle_time=NO_TIME,
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(broker: Broker, connection: Connection, request: HeartbeatRequest) -> Any:
    shard, code = broker.coordination.find(request.group_id)
    group = shard.groups.get(request.group_id) if shard is not None else None
    if code is Error.coordinator_load_in_progress:
        code = Error.none  # its session begins when the group is read
    elif group is not None:
        code = broker.coordination.membership.heartbeat(
            group, request.generation_id, request.member_id, request.group_instance_id
        )
    elif code is Error.none:
        code = Error.unknown_member_id
    return H.HeartbeatResponse(throttle_time=NO_TIME, error_code=code)


def leave_group(broker: Broker, connection: Connection, request: LeaveGroupRequest) -> Any:
    shard, code = broker.coordination.find(request.group_id)
    group = shard.groups.get(request.group_id) if shard is not None else None
    members = []
    for row in request.members if code is Error.none else ():
        left = Error.unknown_member_id
        if group is not None:
            left = broker.coordination.membership.leave(group, row.member_id, row.group_instance_id)
        members.append(
            L.MemberResponse(member_id=row.member_id, group_instance_id=row.group_instance_id, error_code=left)
        )
    return L.LeaveGroupResponse(throttle_time=NO_TIME, error_code=code, members=tuple(members))


def _ms(time: timedelta) -> int:
    return round(time / timedelta(milliseconds=1))


def _too_long(*texts: str | None) -> bool:
    return any(text is not None and 4 * len(text) > LONGEST_TEXT for text in texts)
