"""This broker as a coordinator of groups: loads and unloads partitions of the offsets topic, runs timers, finds groups.

A partition is loaded when the controller says that this broker leads it, unless it has led it all the time, and dropped
when another does. One greenlet reads all that is to be read, one runs the timers of all groups; neither holds up the
loop for longer than a few milliseconds.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import gevent
from gevent.event import AsyncResult, Event

from kafka_classic.broker.appending import append
from kafka_classic.broker.unhurried import AT_A_TIME_S, BREATH_S
from kafka_classic.groups.group import Group
from kafka_classic.groups.membership import Membership
from kafka_classic.groups.placing import partition_of
from kafka_classic.groups.rebalance import Rebalance, Rules
from kafka_classic.groups.shard import Done, Phase, Row, Shard
from kafka_classic.groups.timers import Timers
from kafka_classic.log.errors import OffsetOutOfRange, StorageError
from kafka_classic.records.batch import CorruptBatch, InvalidRecord
from kafka_classic.records.decode import decode_records
from kafka_classic.replication.partition import Partition
from kafka_classic.settings import OFFSETS_TOPIC
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker

log = logging.getLogger(__name__)

READ_BYTES = 1 << 17  # of the log at a time, while a partition is loaded
LOOK_S = 1.0  # how often to look for groups that have gone to another coordinator
STOOD_STILL_S = 1.0  # a timer that is late by more was not kept from running by work
LONGEST_NAME = 32_767  # bytes of text that a record of the offsets topic can hold in one field


class Led:
    """A partition of the offsets topic that is led here, in one reign."""

    def __init__(self, broker: Broker, partition: Partition) -> None:
        self._broker = broker
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.shard = Shard(partition.index, self._append)

    def _append(self, rows: Sequence[Row], done: Done) -> None:
        if self.shard.phase is Phase.CLOSED:
            done(Error.not_leader_or_follower, -1)
        else:
            append(self._broker, self.partition, self.epoch, rows, done)


class Coordination:
    """One for a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.led: dict[int, Led] = {}
        self._to_load: deque[Led] = deque()
        self._loader: gevent.Greenlet | None = None
        self._sooner = Event()
        self.timers = Timers(self._sooner.set)
        settings = broker.settings
        rules = Rules(
            settings.group_initial_rebalance_delay_ms / 1000,
            settings.group_min_session_timeout_ms,
            settings.group_max_session_timeout_ms,
            settings.group_max_size,
            settings.offsets_commit_timeout_ms / 1000,
        )
        self._stood_still = 0.0  # seconds in which this process did not run, so that nobody could be heard
        self.rebalance = Rebalance(rules, self.timers, self._store, self._clock, lambda: int(broker.clock() * 1000))
        self.membership = Membership(self.rebalance, lambda: str(uuid.uuid4()))
        self._greenlets = [gevent.spawn(run) for run in (self._run_timers, self._expire, self._send_away)]

    def stop(self) -> None:
        gevent.killall([*self._greenlets, *([self._loader] if self._loader else [])])

    # --- what is led here

    def on_leadership(self, partition: Partition) -> None:
        """The controller has spoken of a partition, or it is gone."""
        if partition.topic != OFFSETS_TOPIC:
            return
        there = self.led.get(partition.index)
        if not partition.leading or partition.gone:
            if there is not None and there.partition is partition:
                del self.led[partition.index]
                self._close(there)
            return
        if there is not None:
            if there.partition is partition and partition.leader_epoch == there.epoch + 1:
                there.epoch += 1  # led all the time: only who is in sync has changed
                return
            self._close(there)
        led = self.led[partition.index] = Led(self._broker, partition)
        self._to_load.append(led)
        if self._loader is None:
            self._loader = gevent.spawn(self._load_all)

    def _close(self, led: Led) -> None:
        led.shard.phase = Phase.CLOSED
        for group in led.shard.groups.values():
            self.rebalance.close(group)

    def _store(self, group: Group, assignment: Mapping[str, bytes], done: Callable[[Error], None]) -> None:
        led = self.led.get(partition_of(group.id, self.size))
        if led is None or led.shard.groups.get(group.id) is not group:
            done(Error.not_leader_or_follower)
        else:
            led.shard.store(group, assignment, done)

    def _load_all(self) -> None:
        try:
            while self._to_load:
                led = self._to_load.popleft()
                try:
                    self._load(led)
                except (StorageError, OSError, OffsetOutOfRange, CorruptBatch, InvalidRecord) as error:
                    # Its groups stay without a coordinator: to answer for what was not read would lose it.
                    log.error("%s-%d cannot be read: %s", OFFSETS_TOPIC, led.partition.index, error)
                except Exception:
                    log.exception("%s-%d could not be loaded", OFFSETS_TOPIC, led.partition.index)
        finally:
            self._loader = None

    def _load(self, led: Led) -> None:
        shard, partition = led.shard, led.partition
        began = time.monotonic()
        at, end = partition.log.start_offset, partition.log.end_offset
        breath = perf_counter()
        records = 0
        while at < end and shard.phase is Phase.LOADING:
            piece = partition.log.read(at, READ_BYTES, upto=end)
            if piece is None:
                break
            raw = os.pread(piece.file.fileno(), piece.length, piece.position)
            for record in decode_records(raw):
                if record.offset >= at:
                    shard.take(record.key, record.value, record.offset)
                    records += 1
                if perf_counter() - breath > AT_A_TIME_S:
                    gevent.sleep(BREATH_S)
                    breath = perf_counter()
            at = piece.next_offset
        if shard.phase is Phase.LOADING:
            for group in shard.loaded():
                self.rebalance.restored(group)
            if records:
                took = time.monotonic() - began
                log.info("%s-%d: %d records loaded in %.2f s", OFFSETS_TOPIC, shard.index, records, took)

    # --- finding

    @property
    def size(self) -> int:
        """How many partitions the offsets topic has, or is to have."""
        return self._broker.view.size_of(OFFSETS_TOPIC) or self._broker.settings.offsets_topic_num_partitions

    def find(self, group: str) -> tuple[Shard | None, Error]:
        """The partition that keeps the group, or why this broker cannot answer for it now."""
        if len(group) * 3 > LONGEST_NAME and len(group.encode()) > LONGEST_NAME:
            return None, Error.invalid_group_id
        led = self.led.get(partition_of(group, self.size))
        if led is None or led.partition.log.failed is not None:
            return None, Error.not_coordinator
        if self._broker.fence.deserted(led.partition):
            return None, Error.coordinator_not_available
        if led.shard.phase is Phase.LOADING:
            return None, Error.coordinator_load_in_progress
        return led.shard, Error.none

    def doubtful(self, shard: Shard) -> bool:
        """Whether another may coordinate these groups by now: ZooKeeper may have given this broker up."""
        return self._broker.fence.closed and self.led[shard.index].partition.replicated

    def deserted(self, index: int) -> bool:
        """Whether another coordinates these groups by now, for all that can be seen from here."""
        led = self.led.get(index)
        return led is not None and self._broker.fence.deserted(led.partition)

    def active(self) -> list[Shard]:
        return [led.shard for led in self.led.values() if led.shard.phase is Phase.ACTIVE]

    @property
    def loading(self) -> bool:
        return any(led.shard.phase is Phase.LOADING for led in self.led.values())

    # --- waiting

    def outcome(self, begin: Callable[[Callable[[Error], None]], None]) -> Error:
        """Begin to write something, in a greenlet, and wait until it is replicated, as long as a commit may take."""
        result: AsyncResult[Error] = AsyncResult()
        begin(result.set)
        try:
            error: Error = result.get(timeout=self._broker.settings.offsets_commit_timeout_ms / 1000)
        except gevent.Timeout:
            return Error.coordinator_not_available
        return error

    # --- by the clock

    def _clock(self) -> float:
        return time.monotonic() - self._stood_still

    def _run_timers(self) -> None:
        while True:
            due = self.timers.next()
            self._sooner.clear()
            self._sooner.wait(None if due is None else max(due - self._clock(), 0))
            if due is not None and (late := self._clock() - due) > STOOD_STILL_S:
                # What members sent meanwhile is still in the sockets.
                self._stood_still += late
                log.warning("this process stood still for %.1f s or more; sessions of groups are longer by that", late)
            try:
                self.timers.fire(self._clock())
            except Exception:
                log.exception("a timer of a group failed")

    def _expire(self) -> None:
        settings = self._broker.settings
        while True:
            gevent.sleep(settings.offsets_retention_check_interval_ms / 1000)
            for shard in self.active():
                try:
                    count = shard.expire(int(self._broker.clock() * 1000), settings.offsets_retention_minutes * 60_000)
                except Exception:
                    log.exception("%s-%d: old offsets could not be forgotten", OFFSETS_TOPIC, shard.index)
                    continue
                if count:
                    log.info("%s-%d: %d offsets were kept for long enough", OFFSETS_TOPIC, shard.index, count)
                gevent.sleep(BREATH_S)

    def _send_away(self) -> None:
        """Whoever waits here for members that have gone to another coordinator is to go there too."""
        while True:
            gevent.sleep(LOOK_S)
            for led in list(self.led.values()) if self._broker.fence.closed else ():
                if self._broker.fence.deserted(led.partition):
                    for group in list(led.shard.groups.values()):
                        try:
                            self.rebalance.send_away(group)
                        except Exception:
                            log.exception("the members of group %s could not be sent away", group.id)

    def forget_topics(self, names: Collection[str]) -> None:
        """These topics are deleted."""
        for shard in self.active() if names else ():
            shard.forget_topics(names)
