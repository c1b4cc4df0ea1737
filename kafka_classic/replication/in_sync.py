"""Keeps the in-sync replicas of the partitions led here right in ZooKeeper: shrinks, expands, tells the controller."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import gevent

from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.zk.errors import UnknownTopic, VersionConflict, ZooKeeperUnreachable
from kafka_classic.zk.partitions import PartitionState, PartitionStates

log = logging.getLogger(__name__)

AT_A_TIME = 32
RETRY_S = 0.2


class InSync:
    """One for all partitions of a broker.

    A change is proposed (both sets count, see Replica), written over the version that is known, and settled. When the
    answer is lost the same write is tried again, which ZooKeeper does once at most; when the state is another's by
    now, the controller's next word settles it.
    """

    def __init__(
        self,
        states: PartitionStates,
        tell_controller: Callable[[Iterable[tuple[str, int]]], None],
        lag_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._states = states
        self._tell_controller = tell_controller
        self._lag_s = lag_s
        self._clock = clock
        self._jobs: deque[tuple[Partition, frozenset[int], tuple[int, ...], int]] = deque()
        self._workers: set[gevent.Greenlet] = set()
        self._declined: deque[tuple[str, int, PartitionState]] = deque()
        self._declining = False
        self._changed: list[tuple[str, int]] = []
        self._telling = False
        self._looked_at = clock()

    def stop(self) -> None:
        gevent.killall(list(self._workers))

    def look_at_all(self, partitions: Iterable[Partition]) -> None:
        """Find who fell behind; called every half of replica.lag.time.max.ms."""
        now = self._clock()
        late = now - self._looked_at > self._lag_s
        self._looked_at = now
        if late:
            return  # this broker itself stood still: what followers sent meanwhile is still in the sockets
        for partition in partitions:
            if partition.leading and len(partition.replicas) > 1:
                self._change(partition, partition.shrunk(now, self._lag_s))

    def caught_up(self, partition: Partition, follower: int) -> None:
        """A follower that is not in the ISR has just fetched: let it in if it lacks nothing."""
        self._change(partition, partition.grown(follower))

    def resign(self, partition: Partition) -> None:
        """This broker's disk fails it: it leaves the ISR, so that the controller has one of the others lead."""
        self._change(partition, partition.resigned())

    def decline(self, topic: str, index: int, told: Leadership) -> None:
        """What this broker is to lead cannot even be opened: as with a disk that fails, one of the others is to."""
        left = tuple(id for id in told.isr if id != told.leader)
        if left:
            state = PartitionState(told.leader, told.leader_epoch, left, told.controller_epoch, told.version)
            self._declined.append((topic, index, state))
            if not self._declining:
                self._declining = True
                self._spawn(self._decline)

    def _change(self, partition: Partition, wanted: frozenset[int] | None) -> None:
        if wanted is not None:
            self._jobs.append((partition, wanted, partition.propose(wanted), partition.leader_epoch))
            if len(self._workers) < AT_A_TIME:
                self._spawn(self._work)

    def _spawn(self, work: Callable[[], None]) -> None:
        worker = gevent.spawn(work)
        self._workers.add(worker)
        worker.rawlink(self._workers.discard)

    def _work(self) -> None:
        while self._jobs:
            job = self._jobs.popleft()
            try:
                self._write(*job)
            except Exception:  # left undone, its in-sync replicas would never change again
                log.exception("the ISR of %s-%d could not be written, trying again", job[0].topic, job[0].index)
                self._jobs.append(job)
                gevent.sleep(RETRY_S)

    def _write(self, partition: Partition, proposed: frozenset[int], isr: tuple[int, ...], epoch: int) -> None:
        topic, index = partition.topic, partition.index
        was = partition.isr
        while self._wanted(partition, epoch, proposed):
            state = PartitionState(partition.me, epoch, isr, partition.controller_epoch, partition.version)
            try:
                there = self._states.read(topic, index)
                if there is not None and _of_another_topic(there, state):
                    self._overtaken(partition)
                    return
                if not self._wanted(partition, epoch, proposed):
                    return
                written = self._states.write(topic, index, state)
            except ZooKeeperUnreachable:
                gevent.sleep(RETRY_S)
            except UnknownTopic:
                return
            except VersionConflict:
                if self._adopt(partition, epoch, proposed):
                    return
                gevent.sleep(RETRY_S)
            else:
                if partition.leader_epoch == epoch and partition.pending is proposed:
                    self._settle(partition, replace(written, isr=isr))
                    change = "shrank" if len(isr) < len(was) else "grew"
                    log.info("%s-%d: the ISR %s to %s", topic, index, change, ",".join(map(str, isr)))
                return

    @staticmethod
    def _wanted(partition: Partition, epoch: int, proposed: frozenset[int]) -> bool:
        """Whether nothing has come between since it was proposed."""
        known = partition.leading and not partition.gone and partition.leader_epoch == epoch
        return known and partition.pending is proposed

    @staticmethod
    def _overtaken(partition: Partition) -> None:
        log.info("%s-%d: another leads since, the ISR is not ours to change", partition.topic, partition.index)

    def _adopt(self, partition: Partition, epoch: int, proposed: frozenset[int]) -> bool:
        """Another state stands there: ours of before, or one of which the controller is about to tell."""
        try:
            state = self._states.read(partition.topic, partition.index)
        except ZooKeeperUnreachable:
            return False
        if state is not None and state.leader == partition.me and state.leader_epoch == epoch:
            if partition.leader_epoch == epoch and partition.pending is proposed:
                self._settle(partition, state)
        else:
            self._overtaken(partition)
        return True

    def _settle(self, partition: Partition, state: PartitionState) -> None:
        if partition.settle(state.isr, state.zk_version):
            partition.wake()
        partition.refresh()
        self._tell_soon(partition.topic, partition.index)

    def _decline(self) -> None:
        try:
            while self._declined:
                topic, index, state = self._declined[0]
                try:
                    self._states.write(topic, index, state)
                except ZooKeeperUnreachable:
                    gevent.sleep(RETRY_S)
                    continue
                except (UnknownTopic, VersionConflict) as error:
                    log.info("%s-%d is not declined, the controller has more to say: %s", topic, index, error)
                else:
                    self._tell_soon(topic, index)
                self._declined.popleft()
        finally:
            self._declining = False

    def _tell_soon(self, topic: str, index: int) -> None:
        self._changed.append((topic, index))
        if not self._telling:
            self._telling = True
            self._spawn(self._tell)

    def _tell(self) -> None:
        """Say which partitions changed, all that changed meanwhile in one go."""
        try:
            while self._changed:
                changed, self._changed = self._changed, []
                try:
                    self._tell_controller(changed)
                except ZooKeeperUnreachable:
                    self._changed = [*changed, *self._changed]
                    gevent.sleep(RETRY_S)
        finally:
            self._telling = False


def _of_another_topic(there: PartitionState, ours: PartitionState) -> bool:
    """Whether the topic was made anew: the versions of its znodes begin at zero again, and comparing them says nothing.

    (A server of ZooKeeper that lags behind may show an older version of ours. Then the write decides.)
    """
    same = (there.leader, there.leader_epoch) == (ours.leader, ours.leader_epoch)
    return there.zk_version == ours.zk_version and not same
