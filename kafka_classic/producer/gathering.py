"""Batches that are still open: filled up to batch.size, for no longer than linger.ms, or until their lane is free.

A lane that cannot send now (its leader is unknown, its link is full) keeps its batch open however long it lingers: the
slower the brokers, the larger the batches.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_classic.producer.batch import Batch, Waiter
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.batch import HEADER_SIZE
from kafka_classic.records.encode import NewRecord

_LOOK_AGAIN_S = 0.005


class Gathering:
    """Guarded by the sender's lock. A batch that closes is given to `enqueue`, and its topic to `batch_closed`."""

    def __init__(
        self,
        settings: ProducerSettings,
        waiter: Waiter,
        enqueue: Callable[[Batch], None],
        batch_closed: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._size = min(
            settings.batch_size, settings.max_request_size - HEADER_SIZE
        )  # a broker refuses what is larger
        self._linger = settings.linger_ms / 1000
        self._delivery_timeout = settings.delivery_timeout_ms / 1000
        self._waiter = waiter
        self._enqueue = enqueue
        self._batch_closed = batch_closed
        self._clock = clock
        self._open: dict[Lane, None] = {}  # the oldest batch first

    def new_batch(self, lane: Lane, records: list[NewRecord], size: int) -> Batch:
        now = self._clock()
        return Batch(self._waiter, lane, records, size, now, now + self._delivery_timeout)

    def append(self, lane: Lane, record: NewRecord, size: int) -> tuple[Batch, int, bool]:
        """Add a record to its lane's batch; returns the batch, the place in it, and whether a batch was closed."""
        batch = lane.open
        closed = False
        if batch is not None and batch.size + size > self._size:
            self.close(lane)
            closed = True
            batch = None
        if batch is None:
            batch = lane.open = self.new_batch(lane, [], 0)
            self._open[lane] = None
        records = batch.records
        records.append(record)
        batch.size += size
        if batch.size >= self._size:
            self.close(lane)
            closed = True
        return batch, len(records) - 1, closed

    def close(self, lane: Lane) -> None:
        batch, lane.open = lane.open, None
        if batch is not None:
            del self._open[lane]
            self._batch_closed(lane.at[0])
            self._enqueue(batch)

    def close_all(self) -> None:
        for lane in list(self._open):
            self.close(lane)

    def close_lingered(self, now: float, can_send: Callable[[Lane], bool]) -> float:
        """Close what has lingered and can be sent; returns when the next will have lingered."""
        held = False
        for lane in list(self._open):
            batch = lane.open
            assert batch is not None
            ripe = batch.created + self._linger
            if ripe > now:
                return min(ripe, now + _LOOK_AGAIN_S) if held else ripe
            # One whose time is up is closed all the same: it is expired as what is queued.
            if can_send(lane) or batch.deadline <= now:
                self.close(lane)
            else:
                held = True
        return now + _LOOK_AGAIN_S if held else float("inf")
