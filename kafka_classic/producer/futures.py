"""What send() returns: light futures that share the fate of their batch.

A concurrent.futures.Future a message would cost more than all the rest of send(): it brings a lock of its own. These
have the same methods, and whoever waits for one drives the producer's sockets meanwhile.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

from kafka_classic.producer.batch import Batch

T = TypeVar("T")
_FOREVER = float("inf")


class RecordMetadata(NamedTuple):
    """Where a message went; the offset is -1 where nobody tells it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class _Future(Generic[T]):
    """The methods of concurrent.futures.Future over one or several batches; what was sent cannot be cancelled."""

    __slots__ = ()

    def _batches(self) -> Sequence[Batch]:
        raise AssertionError

    def _value(self) -> T:
        raise AssertionError

    def done(self) -> bool:
        return all(batch.done for batch in self._batches())

    def running(self) -> bool:
        return not self.done()

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until it is decided and return the failure, or None."""
        deadline = _FOREVER if timeout is None else time.monotonic() + timeout
        for batch in self._batches():
            if not batch.done and not batch.wait(deadline):
                raise TimeoutError("not decided yet: neither acknowledged nor given up")
        return next((batch.error for batch in self._batches() if batch.error is not None), None)

    def result(self, timeout: float | None = None) -> T:
        """Wait until it is acknowledged; raises what kept it from that, or TimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._value()

    def add_done_callback(self, call: Callable[[Self], Any]) -> None:
        """`call(future)` when it is decided, on a thread of the producer's or of another caller: be quick."""
        batches = self._batches()
        # The last one calls. next() cannot be interrupted by another thread, as `left -= 1` could.
        left = itertools.count(len(batches) - 1, -1)

        def one_decided() -> None:
            if not next(left):
                call(self)

        for batch in batches:
            batch.when_done(one_decided)
        if not batches:
            call(self)


class RecordFuture(_Future[RecordMetadata]):
    """One message on its way."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def _batches(self) -> Sequence[Batch]:
        return (self._batch,)

    def _value(self) -> RecordMetadata:
        return metadata(self._batch, self._index)


class SetFuture(_Future[list[RecordMetadata]]):
    """A set of messages on its way (P1): one batch, unless it was larger than a request may be."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Batch]) -> None:
        self._parts = parts

    def _batches(self) -> Sequence[Batch]:
        return self._parts

    def _value(self) -> list[RecordMetadata]:
        return [metadata(batch, index) for batch in self._parts for index in range(batch.count)]


def metadata(batch: Batch, index: int) -> RecordMetadata:
    """Where one record of an acknowledged batch is."""
    offset = batch.base_offset + index if batch.base_offset >= 0 else -1
    timestamp = batch.append_time if batch.append_time >= 0 else batch.timestamp(index)
    return RecordMetadata(*batch.lane.at, offset, timestamp)
