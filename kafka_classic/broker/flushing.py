"""Flushing: fsync by flush.messages and flush.ms, on another thread, so that the event loop never waits for a disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gevent

from kafka_classic.replication.partition import Partition

log = logging.getLogger(__name__)

NEVER = 2**62  # ms: what flush.ms means when it is not set


class Flusher:
    """Begins a flush when one is due; at most one a partition is under way."""

    def __init__(self, clock: Callable[[], float]) -> None:
        hub = gevent.get_hub()
        self._loop: Any = hub.loop
        self._threads: Any = hub.threadpool
        self._clock = clock

    def committed(self, partition: Partition) -> None:
        """New data was written: flush now if it is due, else when flush.ms has passed; then wake who waits to read."""
        log_config = partition.log.config
        if log_config.flush_ms < NEVER or log_config.flush_messages < NEVER:
            if partition.log.needs_flush(self._clock()):
                self.flush(partition)
            elif partition.flush_timer is None and not partition.flushing and log_config.flush_ms < NEVER:
                timer = partition.flush_timer = self._loop.timer(log_config.flush_ms / 1000)
                timer.start(self._due, partition)
        if partition.waiters:
            partition.wake()

    def flush(self, partition: Partition) -> None:
        if partition.flushing or partition.gone or partition.log.failed is not None:
            return
        self._stop_timer(partition)
        partition.flushing = True
        job = partition.log.begin_flush()
        self._threads.spawn(job.run).rawlink(lambda _: self._flushed(partition, job))

    def _due(self, partition: Partition) -> None:
        self._stop_timer(partition)
        self.flush(partition)

    def _flushed(self, partition: Partition, job: Any) -> None:
        partition.flushing = False
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
