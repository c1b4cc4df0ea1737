"""Following: one greenlet and one connection to each broker that leads something of which a replica is here.

    connect -- ask OffsetForLeaderEpoch, cut what the leader's history lacks -- fetch, append byte for byte -- fetch …
       ^                                                                          |
       +---- the connection is lost, or a new partition must not wait ------------+

The leader answers with its high watermark, and learns from the next fetch's offset how far this replica has come.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import gevent
import kio.schema.offset_for_leader_epoch.v4.request as epoch_request
from gevent.event import Event

from kafka_classic.log.errors import OffsetsOutOfOrder, StorageError
from kafka_classic.records.batch import CorruptBatch, InvalidRecord, UnsupportedMagic
from kafka_classic.replication.peer import Peer
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.wire.replica_fetch import Got, Limits, Wanted, pack_replica_fetch, read_replica_fetch

if TYPE_CHECKING:
    from kafka_classic.replication.partition import Partition
    from kafka_classic.settings import BrokerSettings

log = logging.getLogger(__name__)

E: Any = epoch_request
FIRST_PAUSE_S = 0.01  # a leader that was told a moment later than this follower is ready in no time
DAMAGED = (CorruptBatch, InvalidRecord, UnsupportedMagic, OffsetsOutOfOrder)
Key = tuple[UUID, int]
Address = Callable[[int], "tuple[str, int] | None"]


class _Interrupted(Exception):
    """Somebody gave this fetcher another partition while it waited for the leader to have news."""


class _Followed:
    """A partition that is fetched, and how it fares."""

    __slots__ = ("partition", "pause", "until")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.pause = 0.0
        self.until = 0.0  # not asked for before, after an error


class Fetchers:
    """All fetchers of a broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        address: Address,
        appended: Callable[[Partition], None],
        save_cuts: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.address = address
        self.appended = appended  # records were written, or the high watermark moved
        self.save_cuts = save_cuts  # a log was cut: write the checkpoints before anything is appended
        self._fetchers: dict[int, Fetcher] = {}
        self._where: dict[Partition, Fetcher] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch it from its leader, from now on and from no other."""
        self.forget(partition)
        if partition.leader < 0 or partition.log.failed is not None:
            return
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader] = Fetcher(self, partition.leader)
        self._where[partition] = fetcher
        fetcher.add(partition)

    def forget(self, partition: Partition) -> None:
        fetcher = self._where.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)
            if not fetcher.partitions:
                fetcher.stop()
                self._fetchers.pop(fetcher.leader, None)

    def stop(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._where.clear()


class Fetcher:
    """Follows one leader."""

    def __init__(self, fetchers: Fetchers, leader: int) -> None:
        self.leader = leader
        self.partitions: dict[Key, _Followed] = {}
        self._all = fetchers
        settings = fetchers.settings
        self._me = settings.broker_id
        self._client_id = f"broker-{self._me}-fetcher-{leader}"
        self._limits = Limits(
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            settings.replica_fetch_max_bytes,
        )
        self._timeout_s = settings.replica_socket_timeout_ms / 1000
        self._longest_pause_s = settings.replica_fetch_backoff_ms / 1000
        self._pause_s = 0.0
        self._peer: Peer | None = None
        self._waiting = False  # for the leader's answer: may be interrupted
        self._cut_any = False
        self._news = Event()
        self._greenlet = gevent.spawn(self._run)

    def add(self, partition: Partition) -> None:
        self.partitions[partition.topic_id, partition.index] = _Followed(partition)
        self._news.set()
        if self._waiting:
            # The leader may take half a second to answer while it has no news; this one's writers wait for it now.
            self._waiting = False
            self._greenlet.kill(_Interrupted, block=False)

    def remove(self, partition: Partition) -> None:
        self.partitions.pop((partition.topic_id, partition.index), None)

    def stop(self) -> None:
        self._greenlet.kill(block=False)
        self._close()

    # --- the loop

    def _run(self) -> None:
        while True:
            try:
                self._round()
            except _Interrupted:
                self._close()

    def _round(self) -> None:
        try:
            self._news.clear()
            if self._peer is None:
                self._connect()
            self._truncate()
            self._fetch()
            self._pause_s = 0.0
        except (OSError, KafkaError) as error:
            self._close()
            if not self._pause_s:
                log.info("broker %d cannot be followed, trying again: %s", self.leader, error)
            self._pause_s = self._longer(self._pause_s)
            gevent.sleep(self._pause_s)
        except _Interrupted:
            raise
        except Exception:
            self._close()
            log.exception("following broker %d failed, trying again", self.leader)
            gevent.sleep(self._longest_pause_s)

    def _connect(self) -> None:
        where = self._all.address(self.leader)
        if where is None:
            raise ConnectionError("its address is not known")
        self._peer = Peer(*where, self._client_id, self._timeout_s)

    def _close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _longer(self, pause: float) -> float:
        return min(max(pause * 2, FIRST_PAUSE_S), max(self._longest_pause_s, FIRST_PAUSE_S))

    def _put_off(self, followed: _Followed) -> None:
        followed.pause = self._longer(followed.pause)
        followed.until = time.monotonic() + followed.pause

    def _due(self, truncating: bool) -> list[_Followed]:
        now = time.monotonic()
        return [f for f in self.partitions.values() if f.partition.truncating is truncating and f.until <= now]

    def _still(self, followed: _Followed, epoch: int) -> bool:
        """Whether what was asked in that epoch still concerns this fetcher."""
        partition = followed.partition
        return (
            self.partitions.get((partition.topic_id, partition.index)) is followed
            and partition.leader_epoch == epoch
            and not partition.leading
        )

    # --- where the histories part

    def _truncate(self) -> None:
        """Cut what the leader's history lacks, all partitions at once, until nothing is left to ask."""
        while due := self._due(True):
            asked = []
            for followed in due:
                partition = followed.partition
                if partition.log.epochs.latest < 0:
                    # Nothing was ever written here, or nothing that an epoch vouches for.
                    self._cut(followed, *partition.cut(-1, -1))
                else:
                    asked.append((followed, partition.leader_epoch, partition.log.epochs.latest))
            if asked:
                self._ask(asked)
        if self._cut_any:  # also what was not saved the last time, because the disk was full, say
            self._all.save_cuts()
            self._cut_any = False

    def _ask(self, asked: list[tuple[_Followed, int, int]]) -> None:
        topics: dict[str, list[Any]] = {}
        by_name = {}
        for followed, current, latest in asked:
            partition = followed.partition
            by_name[partition.topic, partition.index] = followed, current
            topics.setdefault(partition.topic, []).append(
                E.OffsetForLeaderPartition(partition=partition.index, current_leader_epoch=current, leader_epoch=latest)
            )
        body = E.OffsetForLeaderEpochRequest(
            replica_id=self._me,
            topics=tuple(E.OffsetForLeaderTopic(topic=name, partitions=tuple(rows)) for name, rows in topics.items()),
        )
        assert self._peer is not None
        answer = self._peer.request(Api.OFFSET_FOR_LEADER_EPOCH, body, self._timeout_s)
        for topic in answer.topics:
            for row in topic.partitions:
                followed, current = by_name[topic.topic, row.partition]
                if not self._still(followed, current):
                    continue
                if row.error_code is Error.none:
                    self._cut(followed, *followed.partition.cut(row.leader_epoch, row.end_offset))
                else:
                    self._put_off(followed)

    def _cut(self, followed: _Followed, offset: int, done: bool) -> None:
        partition = followed.partition
        end = partition.log.end_offset
        try:
            partition.log.truncate_to(offset)
        except StorageError as error:
            self._offline(partition, error)
            return
        if partition.log.end_offset < end:
            self._cut_any = True
            log.info("%s-%d: cut from %d to %d", partition.topic, partition.index, end, partition.log.end_offset)
        partition.was_cut(done=done)

    def _offline(self, partition: Partition, error: Exception) -> None:
        log.error("%s-%d is offline: %s", partition.topic, partition.index, error)
        partition.refresh()
        self.remove(partition)

    # --- fetching

    def _fetch(self) -> None:
        due = self._due(False)
        if not due:
            self._wait()
            return
        asked: dict[Key, tuple[_Followed, int]] = {}
        wanted = []
        for followed in due:
            partition = followed.partition
            asked[partition.topic_id, partition.index] = followed, partition.leader_epoch
            wanted.append(
                Wanted(
                    partition.topic_id,
                    partition.index,
                    partition.leader_epoch,
                    partition.log.end_offset,
                    partition.log.start_offset,
                )
            )
        limits = self._limits
        if len(due) < len(self.partitions):
            limits = limits._replace(max_wait_ms=min(limits.max_wait_ms, int(self._until_next() * 1000)))
        assert self._peer is not None
        frame = pack_replica_fetch(self._peer.next_id(), self._client_id.encode(), self._me, limits, wanted)
        self._waiting = True
        try:
            answer = self._peer.exchange(frame, self._timeout_s + limits.max_wait_ms / 1000)
        finally:
            self._waiting = False
        failure, rows = read_replica_fetch(answer)
        if failure:
            raise KafkaError(failure)
        for row in rows:
            key = row.topic_id, row.partition
            followed, epoch = asked[key]
            if self._still(followed, epoch):
                self._take(followed, row)
                if row.records and key in self.partitions:
                    # To the end: an answer is full after some, and those asked for last must not starve.
                    self.partitions[key] = self.partitions.pop(key)

    def _wait(self) -> None:
        """Until one that was put off is due, or another comes."""
        self._news.wait(self._until_next() if self.partitions else None)

    def _until_next(self) -> float:
        now = time.monotonic()
        return max(0.001, min((f.until - now for f in self.partitions.values() if f.until > now), default=0.001))

    def _take(self, followed: _Followed, row: Got) -> None:
        partition = followed.partition
        if row.error:
            self._refused(followed, row)
            return
        followed.pause = followed.until = 0.0
        try:
            if row.records:
                partition.log.append_as_follower(row.records)
            moved = partition.followed(row.high_watermark)
            if partition.log.start_offset < row.log_start <= partition.log.exposed_offset:
                partition.log.advance_start_offset(row.log_start)
        except StorageError as error:
            self._offline(partition, error)
            return
        except DAMAGED as error:
            where = f"{partition.topic}-{partition.index}"
            log.error("%s: what broker %d sent cannot be taken: %s", where, self.leader, error)
            partition.truncating = True
            self._put_off(followed)
            return
        if row.records or moved:
            self._all.appended(partition)

    def _refused(self, followed: _Followed, row: Got) -> None:
        partition = followed.partition
        if row.error == Error.offset_out_of_range.value:
            if row.log_start > partition.log.end_offset:
                # Everything here is older than what the leader still has: begin anew where it begins.
                log.info("%s-%d: begun anew at %d", partition.topic, partition.index, row.log_start)
                partition.log.truncate_fully_at(row.log_start)
                partition.was_cut(done=True)
                partition.high_watermark = row.log_start
                self._all.save_cuts()
                return
            partition.truncating = True
        self._put_off(followed)
