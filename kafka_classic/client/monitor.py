"""The publishing of monitoring events: a small writer of its own to `__audit`, which never stops the application.

What cannot be published now is tried again with the next event. A window whose events never come shows as unknown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.monitoring import TOPIC, Event, ensure_topic
from kafka_classic.client.writer import Writer
from kafka_classic.wire.errors import KafkaError

log = logging.getLogger(__name__)

_ATTEMPT_S = 5.0
_PAUSE_S = 30.0  # who waits for an announcement does not wait again so soon after one that failed


class Monitor:
    """Thread-safe. The cluster is the caller's."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._failing = False
        self._failed_at = -_PAUSE_S

    def publish(self, events: Sequence[Event], *, urgent: bool = False) -> bool:
        """Write the events and wait until they are acknowledged; False, and a line in the log, if they were not.

        An `urgent` one keeps an application waiting: it is not tried where the last one has just failed.
        """
        if not events:
            return True
        if urgent and self._failing and time.monotonic() < self._failed_at + _PAUSE_S:
            return False
        now = int(self._clock() * 1000)
        with self._lock:
            try:
                if self._writer is None:
                    self._cluster.retrying(lambda: ensure_topic(self._cluster), _ATTEMPT_S)
                    self._writer = Writer(self._cluster, timeout=_ATTEMPT_S)
                for event in events:
                    event.published = now
                    key, value = event.encode()
                    self._writer.write(TOPIC, 0, (key, value, (), now))
                self._writer.flush()
            except KafkaError as error:
                self._writer = None  # what it still holds is told anew by later revisions
                if not self._failing:
                    log.warning("monitoring events cannot be published now, their windows are unknown: %s", error)
                self._failing = True
                self._failed_at = time.monotonic()
                return False
            self._failing = False
            return True
