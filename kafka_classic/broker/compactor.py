"""Compaction in the background: the dirtiest log first, `log.cleaner.threads` at a time, beside the event loop.

A pass computes and waits for the disk on a thread; what it has written takes its place in one short step on the loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from kafka_classic.log.compaction import Cancelled, Compaction, Damaged
from kafka_classic.log.errors import StorageError
from kafka_classic.log.pace import Pace
from kafka_classic.replication.partition import Partition

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker

log = logging.getLogger(__name__)

T = TypeVar("T")
ENDS_S = 10.0  # how long a stop waits for threads that have been told to end
LEAST_MEMORY = 1 << 10


class Compactor:
    """A few greenlets, each compacting one log after the other; `stop()` ends what is under way."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        count = settings.log_cleaner_threads if settings.log_cleaner_enable else 0
        self._memory = max(settings.log_cleaner_dedupe_buffer_size // max(count, 1), LEAST_MEMORY)
        self._buffer = max(settings.log_cleaner_io_buffer_size // max(count, 1), LEAST_MEMORY)
        self._pace = Pace(settings.log_cleaner_io_max_bytes_per_second)
        self._threads: Any = ThreadPool(max(count, 1))
        self._at_work: dict[tuple[str, int], Compaction] = {}
        self._given_up: set[tuple[UUID, int]] = set()  # damaged, and left alone until the broker restarts
        self._ending = Event()
        self._greenlets = [gevent.spawn(self._work) for _ in range(count)]

    def stop(self) -> None:
        """Begin no more passes, and wait for those under way to see that they are to end."""
        self._ending.set()
        for compaction in self._at_work.values():
            compaction.cancel()
        gevent.joinall(self._greenlets, timeout=ENDS_S)

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                partition = self._dirtiest()
                if partition is not None and self._compact(partition):
                    continue
            except Exception:
                log.exception("compaction failed; it is tried again in %d ms", self._wait_ms)
            self._ending.wait(self._wait_ms / 1000)

    @property
    def _wait_ms(self) -> int:
        return max(self._broker.settings.log_cleaner_backoff_ms, 1)

    def _dirtiest(self) -> Partition | None:
        """Of the logs that are worth it the one with the largest share of bytes to compact."""
        now = self._broker.clock()
        best, most = None, -1.0
        for partition in self._broker.hosted:
            known = (partition.topic_id, partition.index) in self._given_up
            if known or not partition.settings.compacts or (partition.topic, partition.index) in self._at_work:
                continue
            dirt = partition.log.dirt(now, partition.readable_to)
            if dirt is not None and dirt.worth_it(partition.settings.min_cleanable_dirty_ratio) and dirt.ratio > most:
                best, most = partition, dirt.ratio
        return best

    def _compact(self, partition: Partition) -> bool:
        """One pass; says whether it came to its end."""
        now = self._broker.clock()
        dirt = partition.log.dirt(now, partition.readable_to)
        if dirt is None:
            return False
        name = partition.topic, partition.index
        compaction = partition.log.begin_compaction(
            dirt, now, memory=self._memory, buffer=self._buffer, pace=self._pace
        )
        self._at_work[name] = compaction
        began = time.monotonic()
        done = False
        try:
            self._in_a_thread(compaction.read_keys)
            for group in compaction.groups():
                if self._in_a_thread(partial(compaction.rewrite, group)):
                    partition.log.swap(compaction, group)
            done = True
        except Cancelled:
            log.info("%s-%d: the compaction was given up, as the log has changed", *name)
        except Damaged as error:
            self._given_up.add((partition.topic_id, partition.index))
            log.error("%s-%d is compacted no more until the broker restarts, and all of it stays: %s", *name, error)
        except StorageError as error:
            log.error("%s-%d is offline: %s", *name, error)
            partition.refresh()
        except OSError as error:
            log.error("%s-%d was not compacted and stays as it is: %s", *name, error)
        finally:
            partition.log.end_compaction(compaction, done=done)
            try:
                self._in_a_thread(compaction.discard)
                self._broker.in_a_thread(self._broker.directory.checkpoint_job())
            finally:
                del self._at_work[name]
        if done:
            log.info(
                "%s-%d compacted up to %d: %d bytes to %d, %d records to %d, %d keys, %.1f s",
                *name,
                compaction.upto,
                compaction.bytes_before,
                compaction.bytes_after,
                compaction.keeping.seen,
                compaction.keeping.kept,
                compaction.keys,
                time.monotonic() - began,
            )
        return done

    def _in_a_thread(self, work: Callable[[], T]) -> T:
        def attempt() -> tuple[T | None, Exception | None]:
            try:
                return work(), None
            except Exception as error:  # brought back as a value: the pool would print it
                return None, error

        result: T
        result, error = self._threads.apply(attempt)
        if error is not None:
            raise error
        return result
