"""A turn of the event loop: the batches that arrived in it are written with one write a log, then all are answered.

Writing once for all ready connections, rather than once a request, is worth 25 to 40 % of the broker's CPU at small
requests. Nothing is answered, and no consumer woken, before the write has succeeded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafka_classic.log.errors import StorageError
from kafka_classic.replication.partition import Partition

if TYPE_CHECKING:
    from kafka_classic.broker.connection import Connection

log = logging.getLogger(__name__)


class Answer(Protocol):
    """What knows how to answer a produce request once its batches are written."""

    def answer(self, correlation_id: int, base_offset: int) -> bytes: ...


class Delayed(Protocol):
    """What is written with the rest of a turn, and goes on waiting after that."""

    def begin(self, loop: Any) -> None: ...


class Turn:
    """Collects what was staged; `end()` commits, answers and wakes."""

    __slots__ = ("_called", "_delayed", "_loop", "answers", "dirty", "on_commit")

    def __init__(self, on_commit: Callable[[Partition], None], loop: Any) -> None:
        self._loop = loop
        self._called = False
        self._delayed: list[Delayed] = []
        self.answers: list[tuple[Connection, Answer, int, int]] = []
        self.dirty: list[Partition] = []
        self.on_commit = on_commit

    def delay(self, one: Delayed) -> None:
        """Written with the rest, answered when others have it too."""
        self._delayed.append(one)

    def soon(self) -> None:
        """End the turn, though no socket was ready: a greenlet has staged something, and the loop might sleep now."""
        if not self._called:
            self._called = True
            self._loop.run_callback(self._end_called)

    def _end_called(self) -> None:
        self._called = False
        self.end()

    def end(self) -> None:
        dirty, self.dirty = self.dirty, []
        for partition in dirty:
            self._commit(partition)
        answers = self.answers
        if answers:
            self.answers = []
            last = answers[0][0]
            out: list[bytes] = []
            # A connection's frames are handled in one go, so its answers stand together.
            for connection, plan, correlation_id, base_offset in answers:
                if connection is not last:
                    last.send(b"".join(out) if len(out) > 1 else out[0])
                    out = []
                    last = connection
                out.append(plan.answer(correlation_id, base_offset))
            last.send(b"".join(out) if len(out) > 1 else out[0])
        for partition in dirty:
            self.on_commit(partition)
        if self._delayed:
            delayed, self._delayed = self._delayed, []
            for one in delayed:
                one.begin(self._loop)

    @staticmethod
    def _commit(partition: Partition) -> None:
        partition.dirty = False
        try:
            partition.log.commit()
            partition.advance()
        except StorageError as error:
            log.error("%s-%d is offline: %s", partition.topic, partition.index, error)
            partition.refresh()
        except Exception as error:
            # Raised on, it would leave all the answers to the next turn, which would say that all is well.
            log.exception("%s-%d is offline", partition.topic, partition.index)
            partition.log.give_up(error)
            partition.refresh()
