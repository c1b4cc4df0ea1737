"""Flushing: fsync by flush.messages and flush.ms, on another thread, so that the event loop never waits for a disk."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from gevent.threadpool import ThreadPool

from kafka_classic.replication.partition import Partition

log = logging.getLogger(__name__)

NEVER = 2**62  # ms: what flush.ms means when it is not set


AT_A_TIME = 8  # fsyncs under way; a disk gains nothing from more


class Flusher:
    """Begins a flush when one is due; at most one a partition is under way, and AT_A_TIME in all."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._loop: Any = gevent.get_hub().loop
        # Twice the threads that are used: a full pool would make the event loop wait, which it must not.
        self._threads: Any = ThreadPool(2 * AT_A_TIME)
        self._clock = clock
        self._running = 0
        self._queue: deque[Partition] = deque()
        self._stopped = False

    def stop(self) -> None:
        """Begin no more and let those under way count for nothing: the logs are closed next, which flushes them."""
        self._stopped = True

    def committed(self, partition: Partition) -> None:
        """New data was written: flush now if it is due, else when flush.ms has passed; then wake who waits to read."""
        # Asked of every topic: a segment that was rolled is flushed whatever the settings, to move the recovery point.
        if not partition.flushing:
            if partition.log.needs_flush(self._clock()):
                self.flush(partition)
            elif partition.flush_timer is None and (flush_ms := partition.log.config.flush_ms) < NEVER:
                timer = partition.flush_timer = self._loop.timer(flush_ms / 1000)
                timer.start(self._due, partition)
        if partition.waiters:
            partition.wake()

    def flush(self, partition: Partition) -> None:
        if partition.flushing or partition.gone or partition.log.failed is not None or self._stopped:
            return
        self._stop_timer(partition)
        partition.flushing = True
        if self._running < AT_A_TIME:
            self._begin(partition)
        else:
            self._queue.append(partition)

    def _begin(self, partition: Partition) -> None:
        if partition.gone or partition.log.failed is not None:
            partition.flushing = False
            return
        self._running += 1
        job = partition.log.begin_flush()
        self._threads.spawn(job.run).rawlink(lambda _: self._flushed(partition, job))

    def _due(self, partition: Partition) -> None:
        self._stop_timer(partition)
        self.flush(partition)

    def _flushed(self, partition: Partition, job: Any) -> None:
        if self._stopped:
            return
        self._running -= 1
        partition.flushing = False
        while self._queue and self._running < AT_A_TIME:
            self._begin(self._queue.popleft())
        if partition.gone:
            return
        partition.log.end_flush(job)
        if partition.log.failed is not None:
            log.error("%s-%d is offline: %s", partition.topic, partition.index, partition.log.failed)
            partition.refresh()
        partition.wake()
        if partition.log.recovery_point < partition.log.end_offset:
            self.committed(partition)  # more came meanwhile

    @staticmethod
    def _stop_timer(partition: Partition) -> None:
        timer: Any = partition.flush_timer
        if timer is not None:
            timer.close()
            partition.flush_timer = None
