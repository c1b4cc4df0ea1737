"""One partition of the offsets topic, as the broker that leads it knows it: its groups and what they committed.

    Loading --(all records are read)--> Active --(another leads, or the partition is gone)--> Closed

What is written is applied here when it is replicated, not before; so a coordinator that takes over knows at least what
anyone was told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum

from kafka_classic.groups.group import Group, State
from kafka_classic.groups.offsets import At
from kafka_classic.groups.records import (
    GroupKey,
    GroupValue,
    OffsetValue,
    UnknownRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from kafka_classic.groups.subscription import CONSUMER
from kafka_classic.wire.errors import Error

log = logging.getLogger(__name__)

Row = tuple[bytes, bytes | None]  # a record to be written; without a value it deletes
Done = Callable[[Error, int], None]  # what became of it, and the first record's offset; called once, now or later
Append = Callable[[Sequence[Row], Done], None]


# All that a large group has committed fits into no batch: 64 members of 1,000 partitions each are 5 MB of keys.
BYTES_AT_A_TIME = 1 << 16


class Phase(Enum):
    LOADING = "its records are being read"
    ACTIVE = "it answers"
    CLOSED = "another does, or nobody"


# What a failed write to the offsets topic means to a client.
MEANS = {
    Error.unknown_topic_or_partition: Error.coordinator_not_available,
    Error.not_enough_replicas: Error.coordinator_not_available,
    Error.not_enough_replicas_after_append: Error.coordinator_not_available,
    Error.request_timed_out: Error.coordinator_not_available,
    Error.not_leader_or_follower: Error.not_coordinator,
    Error.kafka_storage_error: Error.not_coordinator,
    Error.message_too_large: Error.invalid_commit_offset_size,
}


class Shard:
    """The groups of one partition."""

    def __init__(self, index: int, append: Append) -> None:
        self.index = index
        self.phase = Phase.LOADING
        self.groups: dict[str, Group] = {}
        self._append = append
        self._found: dict[str, GroupValue] = {}
        self._unknown = 0

    # --- loading

    def take(self, key: bytes | None, value: bytes | None, record: int) -> None:
        """One record of the log, in the order in which they stand there."""
        try:
            known = read_key(key or b"")
            if isinstance(known, GroupKey):
                if value is None:
                    self._found.pop(known.group, None)
                else:
                    self._found[known.group] = read_group(value)
            else:
                offset = None if value is None else read_offset(value)
                self.group(known.group).offsets.apply((known.topic, known.partition), offset, record)
        except UnknownRecord as error:
            self._unknown += 1
            if self._unknown == 1:
                log.warning("partition %d of the offsets topic, offset %d: %s; left out", self.index, record, error)

    def loaded(self) -> list[Group]:
        """All records are read; returns the groups that have members, whose sessions begin now."""
        for id, value in self._found.items():
            self.group(id).restore(value)
        self._found = {}
        for id in [id for id, g in self.groups.items() if not len(g.offsets) and g.protocol_type is None]:
            del self.groups[id]
        self.phase = Phase.ACTIVE
        return [group for group in self.groups.values() if group.members]

    def group(self, id: str) -> Group:
        """The group, which is made if it is not there."""
        found = self.groups.get(id)
        if found is None:
            found = self.groups[id] = Group(id)
        return found

    def tidy(self, group: Group) -> None:
        """Keep no group that was made for somebody who was refused."""
        if group.state is State.EMPTY and group.protocol_type is None and not len(group.offsets):
            self._drop(group)

    # --- offsets

    def commit(self, id: str, values: Mapping[At, OffsetValue], answer: Callable[[Error], None]) -> None:
        """Write offsets down; `answer` is called when they are replicated, or cannot be."""
        group = self.group(id)
        group.offsets.pending += 1
        rows = [(offset_key(id, *at), offset_value(value)) for at, value in values.items()]

        def done(error: Error, first: int) -> None:
            group.offsets.pending -= 1
            if error is Error.none:
                for record, (at, value) in enumerate(values.items(), first):
                    group.offsets.apply(at, value, record)
            answer(MEANS.get(error, error))

        self._append(rows, done)

    def forget(self, group: Group, ats: Collection[At], answer: Callable[[Error], None] = lambda _: None) -> None:
        """Delete offsets, and the group too if nothing is left of it."""
        doomed = frozenset(ats)
        last = group.state is State.EMPTY and not group.pending and all(at in doomed for at in group.offsets)
        pieces = _pieces(group.id, list(ats))
        if last and group.protocol_type is not None:
            pieces.append(([(group_key(group.id), None)], []))
        left, failed = len(pieces), Error.none

        def end() -> None:
            if last and failed is Error.none:
                self._drop(group)
            answer(MEANS.get(failed, failed))

        def write(rows: Sequence[Row], gone: Sequence[At]) -> None:
            def done(error: Error, first: int) -> None:
                nonlocal left, failed
                left -= 1
                if error is not Error.none:
                    failed = error
                else:
                    for record, at in enumerate(gone, first):
                        group.offsets.apply(at, None, record)
                if not left:
                    end()

            self._append(rows, done)

        for rows, gone in pieces:
            write(rows, gone)
        if not pieces:
            end()

    def _drop(self, group: Group) -> None:
        """It is written that the group is no more; unless somebody came meanwhile."""
        quiet = group.state is State.EMPTY and not group.pending and not group.offsets.pending
        if quiet and not len(group.offsets) and self.groups.get(group.id) is group:
            del self.groups[group.id]
            group.move(State.DEAD, 0)

    def forget_topics(self, topics: Collection[str]) -> None:
        """These topics were deleted, and what was committed of them with them."""
        for group in list(self.groups.values()):
            ats = group.offsets.of_topics(topics)
            if ats:
                self.forget(group, ats)

    def expire(self, now_ms: int, retention_ms: int) -> int:
        """Forget what was committed too long ago by those who are gone; returns how many offsets."""
        count = 0
        for group in list(self.groups.values()):
            if group.offsets.pending or group.pending:
                continue
            if group.state is State.EMPTY:
                since = group.state_since if group.protocol_type is not None else None
                ats = group.offsets.older(now_ms, retention_ms, empty_since=since)
                if ats or not len(group.offsets):
                    self.forget(group, ats)
            elif group.state is State.STABLE and group.protocol_type == CONSUMER and group.subscribed is not None:
                ats = group.offsets.older(now_ms, retention_ms, empty_since=None, kept=group.subscribed)
                if ats:
                    self.forget(group, ats)
            else:
                continue
            count += len(ats)
        return count

    # --- members

    def store(self, group: Group, assignment: Mapping[str, bytes], done: Callable[[Error], None]) -> None:
        """Write the group and its members down, with what is assigned to each."""
        row = (group_key(group.id), group_value(group.value(assignment)))
        self._append([row], lambda error, _: done(error))


def _pieces(group: str, ats: Sequence[At]) -> list[tuple[list[Row], list[At]]]:
    """The deletions of these offsets, in batches that are surely small enough to be written."""
    pieces: list[tuple[list[Row], list[At]]] = []
    size = BYTES_AT_A_TIME
    for at in ats:
        key = offset_key(group, *at)
        if size + len(key) > BYTES_AT_A_TIME:
            pieces.append(([], []))
            size = 0
        rows, gone = pieces[-1]
        rows.append((key, None))
        gone.append(at)
        size += len(key)
    return pieces
