"""Members of a group on the wire: every version of every request, and what an admin sees and does."""

from __future__ import annotations

import uuid
from typing import Any

import kio.schema.delete_groups.v2.request as delete_request
import kio.schema.describe_groups.v6.request as describe_request
import kio.schema.leave_group.v5.request as leave_request
import kio.schema.list_groups.v5.request as list_request
import pytest

from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.errors import Error
from tests.broker.conftest import MakeTopic
from tests.broker.group_calls import beat, commit, committed, coordinator, delete_offsets, enter, join, sync
from tests.broker.raw import CLIENT, Raw
from tests.groups.play import subscription

LEAVE: Any = leave_request
LIST: Any = list_request
DESCRIBE: Any = describe_request
DELETE: Any = delete_request


@pytest.fixture
def group(raw: Raw) -> str:
    name = f"g-{uuid.uuid4().hex[:12]}"
    coordinator(raw, name)
    return name


def newest(api: Api) -> int:
    return SERVED[api][1]


def leave(raw: Raw, group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    rows = tuple(LEAVE.MemberIdentity(member_id=id, group_instance_id=instance) for id, instance in members)
    return raw.call(Api.LEAVE_GROUP, version, LEAVE.LeaveGroupRequest(group_id=group, members=rows))


def describe(raw: Raw, group: str, version: int = 6) -> Any:
    body = DESCRIBE.DescribeGroupsRequest(groups=(group,), include_authorized_operations=False)
    return raw.call(Api.DESCRIBE_GROUPS, version, body).groups[0]


def delete(raw: Raw, group: str, version: int = 2) -> Error:
    (row,) = raw.call(Api.DELETE_GROUPS, version, DELETE.DeleteGroupsRequest(groups_names=(group,))).results
    code: Error = row.error_code
    return code


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(raw: Raw, group: str, version: int) -> None:
    asked_twice = join(raw, group, version=version)
    assert (asked_twice.error_code is Error.member_id_required) == (version >= 4)
    joined = join(raw, group, asked_twice.member_id, version=version) if version >= 4 else asked_twice
    member, generation = joined.member_id, joined.generation_id
    assert joined.error_code is Error.none
    assert member.startswith(f"{CLIENT}-")
    assert (joined.leader, joined.protocol_name, generation) == (member, "range", 1)
    assert [(row.member_id, row.metadata) for row in joined.members] == [(member, subscription("t"))]
    synced = sync(raw, group, member, generation, version=min(version, newest(Api.SYNC_GROUP)))
    assert (synced.error_code, synced.assignment) == (Error.none, b"all")
    for beating in range(newest(Api.HEARTBEAT) + 1):
        assert beat(raw, group, member, generation, version=beating) is Error.none
        assert beat(raw, group, member, generation + 1, version=beating) is Error.illegal_generation
    leaving = min(version, newest(Api.LEAVE_GROUP))
    left = leave(raw, group, (member, None), version=leaving)
    assert left.error_code is Error.none
    assert [row.error_code for row in left.members] == ([Error.none] if leaving >= 3 else [])
    again = leave(raw, group, (member, None), version=leaving)
    known = again.members[0].error_code if leaving >= 3 else again.error_code
    assert known is Error.unknown_member_id


def test_many_leave_at_once_and_each_is_answered(raw: Raw, group: str) -> None:
    joined = enter(raw, group, instance="i")
    sync(raw, group, joined.member_id, joined.generation_id)
    answer = leave(raw, group, ("nobody", None), ("", "i"), ("", "j"))
    assert answer.error_code is Error.none
    assert [row.error_code for row in answer.members] == [Error.unknown_member_id, Error.none, Error.unknown_member_id]


def test_what_is_out_of_range_is_refused_and_leaves_no_group_behind(raw: Raw, group: str) -> None:
    assert join(raw, group, session_ms=5_999).error_code is Error.invalid_session_timeout
    assert join(raw, group, session_ms=1_800_001).error_code is Error.invalid_session_timeout
    assert join(raw, group, kind="").error_code is Error.inconsistent_group_protocol
    assert join(raw, "").error_code is Error.invalid_group_id
    assert join(raw, group, "who").error_code is Error.unknown_member_id
    assert sync(raw, group, "who", 1).error_code is Error.unknown_member_id
    assert beat(raw, group, "who", 1) is Error.unknown_member_id
    assert describe(raw, group).error_code is Error.group_id_not_found


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(raw: Raw, group: str, version: int) -> None:
    nobody = describe(raw, group, version)
    assert nobody.group_state == "Dead"
    assert nobody.error_code is (Error.group_id_not_found if version >= 6 else Error.none)
    joined = enter(raw, group)
    assert describe(raw, group, version).group_state == "CompletingRebalance"
    sync(raw, group, joined.member_id, 1)
    found = describe(raw, group, version)
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    (member,) = found.members
    assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, CLIENT, "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")
    leave(raw, group, (joined.member_id, None))


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(raw: Raw, group: str, topic_with: MakeTopic, version: int) -> None:
    joined = enter(raw, group)
    sync(raw, group, joined.member_id, 1)
    simple = f"{group}-simple"
    commit(raw, simple, {(topic_with(1), 0): 1})

    def listed(*states: str, types: tuple[str, ...] = ()) -> dict[str, Any]:
        body = LIST.ListGroupsRequest(states_filter=states, types_filter=types)
        answer = raw.call(Api.LIST_GROUPS, version, body)
        assert answer.error_code is Error.none
        return {row.group_id: row for row in answer.groups}

    every = listed()
    assert (every[group].protocol_type, every[simple].protocol_type) == ("consumer", "")
    if version >= 4:
        assert (every[group].group_state, every[simple].group_state) == ("Stable", "Empty")
        assert group in (stable := listed("STABLE"))
        assert simple not in stable
    if version >= 5:
        assert every[group].group_type == "classic"
        assert group in listed(types=("Classic",))
        assert listed(types=("consumer",)) == {}
    leave(raw, group, (joined.member_id, None))


@pytest.mark.parametrize("version", range(3))
def test_only_a_group_without_members_is_deleted(raw: Raw, group: str, topic_with: MakeTopic, version: int) -> None:
    topic = topic_with(1)
    joined = enter(raw, group)
    sync(raw, group, joined.member_id, 1)
    told = commit(raw, group, {(topic, 0): 5}, generation=1, member=joined.member_id)
    assert told == {(topic, 0): Error.none}
    assert delete(raw, group, version) is Error.non_empty_group
    leave(raw, group, (joined.member_id, None))
    assert committed(raw, group) == {(topic, 0): 5}
    assert delete(raw, group, version) is Error.none
    assert committed(raw, group) == {}
    assert delete(raw, group, version) is Error.group_id_not_found


def test_offsets_of_what_members_are_subscribed_to_are_not_deleted(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    mine, other = topic_with(1), topic_with(1)
    joined = enter(raw, group, metadata=subscription(mine))
    sync(raw, group, joined.member_id, 1)
    commit(raw, group, {(mine, 0): 5, (other, 0): 5}, generation=1, member=joined.member_id)
    answer = delete_offsets(raw, group, {mine: (0,), other: (0,)})
    assert {t.name: t.partitions[0].error_code for t in answer.topics} == {
        mine: Error.group_subscribed_to_topic,
        other: Error.none,
    }
    assert committed(raw, group) == {(mine, 0): 5}
    leave(raw, group, (joined.member_id, None))
