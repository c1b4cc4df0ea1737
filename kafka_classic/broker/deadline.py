"""The time that a client gives its request: it is answered in that time, though ZooKeeper may be away for longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import gevent

from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.errors import ZooKeeperUnreachable

LEAST_S = 1.0  # for writing to ZooKeeper: one who will not wait at all still wants it done
LATE = "ZooKeeper has not answered in time; what was asked may still be done: look before you try again"


class Deadline:
    """One for a whole request, however many topics it names."""

    def __init__(self, seconds: float) -> None:
        now = time.monotonic()
        self._until = now + seconds
        self._written = now + max(seconds, LEAST_S)

    @property
    def left(self) -> float:
        """Seconds to wait for others to see what was written."""
        return max(self._until - time.monotonic(), 0.0)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around what asks ZooKeeper, in a greenlet; raises REQUEST_TIMED_OUT where it does not answer in time."""
        late = KafkaError(Error.request_timed_out, LATE)
        left = self._written - time.monotonic()
        if left <= 0:
            raise late
        try:
            with gevent.Timeout(left, late):
                yield
        except ZooKeeperUnreachable:
            raise late from None
