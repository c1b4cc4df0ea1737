"""What was decided on batches: memory given back, and futures' callbacks called one after the other, in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kafka_classic.producer.batch import Batch
from kafka_classic.producer.memory import Memory
from kafka_classic.wire.errors import KafkaError

log = logging.getLogger(__name__)


class Decisions:
    """settle() and when_done() expect the sender's lock; call_back() must be called without it."""

    def __init__(self, lock: threading.Lock, memory: Memory) -> None:
        self._lock = lock
        self._memory = memory
        self.calls: list[Callable[[], None]] = []  # to be made
        self._caller: int | None = None  # the thread that is calling back

    def settle(self, batch: Batch, error: KafkaError | None) -> None:
        """Acknowledged, or failed for good. The first decision stands."""
        if batch.done:
            return
        batch.error = error
        if batch.records:
            batch.forget_records()
        batch.data = None
        batch.done = True
        self._memory.give(batch.size)
        if batch.calls:
            self.calls += batch.calls
            batch.calls = None

    def when_done(self, batch: Batch, call: Callable[[], None]) -> bool:
        """Have it called after the decision; False if that has been made."""
        if not batch.done:
            batch.calls = [*(batch.calls or ()), call]
        return not batch.done

    def all_called(self) -> bool:
        """Whether no callback is left but that which asks, if one does."""
        return self.calling_here() or (self._caller is None and not self.calls)

    def calling_here(self) -> bool:
        """Whether who asks is a callback."""
        return self._caller == threading.get_ident()

    def call_back(self) -> bool:
        """Call what waits for decisions; it may send more. False if there was nothing, or another thread is at it."""
        if not self.calls:
            return False
        with self._lock:
            if self._caller is not None:
                return False  # it goes on until none is left: callbacks of one partition keep their order
            self._caller = threading.get_ident()
        while True:
            with self._lock:
                calls, self.calls = self.calls, []
                if not calls:
                    self._caller = None
                    return True
            for place, call in enumerate(calls):
                try:
                    call()
                except Exception:
                    log.exception("a callback of a future failed")
                except BaseException:  # interrupted, or exits: the others are called by whoever comes next
                    with self._lock:
                        self.calls[:0] = calls[place + 1 :]
                        self._caller = None
                    raise
