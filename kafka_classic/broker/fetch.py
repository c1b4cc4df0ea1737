"""Fetch: find the bytes in the log and send the files; wait in purgatory while there is too little to send.

Purgatory here is a callback that each partition calls when it has new data, and one timer: an idle consumer costs no
greenlet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kafka_classic.log.errors import OffsetOutOfRange, StorageError
from kafka_classic.log.log import FileSlice
from kafka_classic.replication.partition import Partition
from kafka_classic.wire.bodies import RequestHeader
from kafka_classic.wire.errors import Error
from kafka_classic.wire.fetch import FetchPartition, FetchRequest, PartitionOut, write_fetch_response
from kafka_classic.zk.brokers import BrokerInfo

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection
    from kafka_classic.broker.fetch_sessions import FetchSession


CONSUMER = -1
NOT_AVAILABLE = Error.offset_not_available.value
SINCE_FOLLOWERS = 11  # the version of Fetch by which consumers know of preferred replicas, and of OFFSET_NOT_AVAILABLE


class Read(NamedTuple):
    """What one partition has to give now, and how far whoever asks may read it."""

    out: PartitionOut
    slice: FileSlice | None
    upto: int = -1


def read(
    partition: Partition,
    wanted: FetchPartition,
    max_bytes: int,
    min_one: bool,
    version: int = SINCE_FOLLOWERS,
    replica: int = CONSUMER,
) -> Read:
    """Read one partition, at most `max_bytes`, or one whole batch if `min_one` and that is larger.

    A follower reads to the log's end, a consumer to the high watermark, and of a follower only if it knows that it may.
    """
    log = partition.log
    error = _may_read(partition, wanted, version, replica)
    if error is Error.none:
        try:
            mark = partition.readable_to
            upto = mark if replica < 0 else log.end_offset
            if upto < wanted.fetch_offset and _elsewhere(partition, wanted.fetch_offset) and version >= SINCE_FOLLOWERS:
                out = PartitionOut(wanted.partition, NOT_AVAILABLE, mark, mark, log.start_offset, 0)
                return Read(out, None, upto)
            found = log.read(wanted.fetch_offset, min(max_bytes, wanted.max_bytes), upto=upto, min_one=min_one)
            size = found.length if found is not None else 0
            return Read(PartitionOut(wanted.partition, 0, mark, mark, log.start_offset, size), found, upto)
        except OffsetOutOfRange:
            error = Error.offset_out_of_range
        except StorageError:
            error = Error.kafka_storage_error
    return Read(PartitionOut(wanted.partition, error.value, -1, -1, log.start_offset, 0), None)


def _may_read(partition: Partition, wanted: FetchPartition, version: int, replica: int) -> Error:
    if replica >= 0:
        if not partition.leading or replica not in partition.followers:
            return Error.not_leader_or_follower
    elif not partition.leading and version < SINCE_FOLLOWERS:
        return Error.not_leader_or_follower
    if 0 <= wanted.current_leader_epoch != partition.leader_epoch:
        older = wanted.current_leader_epoch < partition.leader_epoch
        return Error.fenced_leader_epoch if older else Error.unknown_leader_epoch
    return Error.none


def _elsewhere(partition: Partition, offset: int) -> bool:
    """Whether a consumer may have read that far from another replica, though here it is not known to be committed."""
    if not partition.leading:
        return True
    return partition.fresh and offset <= partition.log.end_offset


def in_rack(partition: Partition, rack: str, offset: int, brokers: Mapping[int, BrokerInfo]) -> int:
    """A replica in sync that stands in the reader's rack and has what it asks for; -1 where the leader is as good."""
    if partition.me in brokers and brokers[partition.me].rack == rack:
        return -1
    near = [
        id
        for id in partition.isr
        if id in brokers and brokers[id].rack == rack and id in partition.followers
        if partition.followers[id].end >= offset
    ]
    return max(near, key=lambda id: partition.followers[id].end, default=-1)


class DelayedFetch:
    """One fetch request, from its arrival to its answer."""

    __slots__ = (
        "_broker",
        "_connection",
        "_done",
        "_header",
        "_hosted",
        "_limit",
        "_min_bytes",
        "_replica",
        "_request",
        "_session",
        "_timer",
        "_waiting",
        "_wanted",
    )

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        request: FetchRequest,
        wanted: list[FetchPartition],
        session: FetchSession | None,
        limit: int,
    ) -> None:
        self._broker = broker
        self._hosted = broker.hosted
        self._replica = request.replica_id
        self._connection = connection
        self._header = header
        self._request = request
        self._wanted = wanted
        self._session = session
        self._limit = min(limit, request.max_bytes)
        self._min_bytes = min(request.min_bytes, self._limit)
        self._timer: Any = None
        self._waiting: list[Partition] = []
        self._done = False

    def begin(self, loop: Any) -> None:
        """Answer at once if there is enough or no will to wait; else wait for data or the time limit."""
        if self._replica >= 0:
            self._followers_fetch()
        if self._attempt(self._request.max_wait_ms <= 0):
            return
        self._connection.mute()
        self._connection.delayed = self
        self._timer = loop.timer(self._request.max_wait_ms / 1000)
        self._timer.start(self._expire)

    def _followers_fetch(self) -> None:
        """Note how far a follower has come, which may be what writers and consumers wait for."""
        replica = self._replica
        now = time.monotonic()
        for wanted in self._wanted:
            partition, _ = self._hosted.find(wanted.topic, wanted.partition)
            if partition is None or wanted.current_leader_epoch != partition.leader_epoch:
                continue
            if not partition.leading or replica not in partition.followers:
                continue
            if not partition.log.start_offset <= wanted.fetch_offset <= partition.log.end_offset:
                continue
            if partition.fetched(replica, wanted.fetch_offset, now):
                partition.wake()
            if replica not in partition.isr:
                self._broker.in_sync.caught_up(partition, replica)

    def cancel(self) -> None:
        """Wait no longer: answered, or the connection is gone."""
        self._done = True
        for partition in self._waiting:
            partition.waiters.pop(self, None)
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _expire(self) -> None:
        if not self._done:
            self._attempt(True)

    def again(self) -> None:
        """There may be more to read."""
        if not self._done:
            self._attempt(False)

    def _attempt(self, final: bool) -> bool:
        """Read everything; answer if it is enough or `final`, else ask to be called when there is more."""
        room = self._limit
        total = 0
        failed = False
        cut = False
        rows: list[tuple[str | UUID, Read]] = []
        waiting: list[Partition] = []
        for wanted in self._wanted:
            partition, error = self._hosted.find(wanted.topic, wanted.partition)
            if partition is None:
                rows.append((wanted.topic, Read(PartitionOut(wanted.partition, error.value, -1, -1, -1, 0), None)))
                failed = True
                continue
            row = self._read(partition, wanted, room, total == 0)
            failed |= row.out.error != 0 or row.out.preferred_read_replica >= 0
            size = row.out.records_size
            total += size
            room = max(room - size, 0)
            # The file or a limit ended before the data did: there is no use in waiting for more of it.
            reached = wanted.fetch_offset if row.slice is None else row.slice.next_offset
            cut |= total > 0 and reached < row.upto
            rows.append((wanted.topic, row))
            waiting.append(partition)
        if self._session is not None and not failed and not total and not final:
            failed = self._session.has_news([(topic, r.out) for topic, r in rows])
        if self._replica >= 0:
            failed |= self._marks_moved(waiting)
        if not final and not failed and not cut and total < self._min_bytes and rows:
            self._waiting = waiting
            for partition in waiting:
                partition.waiters[self] = None
            return False
        if self._replica >= 0:
            self._note_marks(waiting)
        self._answer(rows)
        return True

    def _marks_moved(self, partitions: list[Partition]) -> bool:
        """Whether a follower is to be told of a high watermark at once, because consumers read from it."""
        if not self._broker.settings.replica_selector_class:
            return False
        replica = self._replica
        return any(
            p.high_watermark > p.followers[replica].told for p in partitions if p.leading and replica in p.followers
        )

    def _note_marks(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            follower = partition.followers.get(self._replica)
            if follower is not None:
                follower.told = partition.high_watermark

    def _read(self, partition: Partition, wanted: FetchPartition, room: int, first: bool) -> Read:
        broker, version, rack = self._broker, self._header.api_version, self._request.rack_id
        if rack and partition.leading and version >= SINCE_FOLLOWERS and broker.settings.replica_selector_class:
            near = in_rack(partition, rack, wanted.fetch_offset, broker.view.brokers)
            if near >= 0:
                mark, start = partition.readable_to, partition.log.start_offset
                return Read(PartitionOut(wanted.partition, 0, mark, mark, start, 0, near), None, mark)
        return read(partition, wanted, room, first, version, self._replica)

    def _answer(self, rows: list[tuple[str | UUID, Read]]) -> None:
        self.cancel()
        session_id = 0
        if self._session is not None:
            session_id = self._session.id
            rows = self._session.only_news(rows)
        topics: list[tuple[str | UUID, list[PartitionOut]]] = []
        slices = []
        for topic, (out, found, _) in rows:
            if topics and topics[-1][0] == topic:
                topics[-1][1].append(out)
            else:
                topics.append((topic, [out]))
            if found is not None:
                slices.append(found)
        chunks = write_fetch_response(self._header.api_version, self._header.correlation_id, 0, 0, session_id, topics)
        parts: list[Any] = [chunks[0]]
        for found, chunk in zip(slices, chunks[1:], strict=True):
            parts.append(found)
            if chunk:
                parts.append(chunk)
        if self._connection.muted:
            self._connection.unmute(parts)
        else:
            self._connection.send_parts(parts)
