"""What the broker does by the clock: retention, checkpoints, followers that fell behind, idle connections, hearsay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import gevent

from kafka_classic.broker.hearsay import Hearsay
from kafka_classic.broker.server import LOOKS
from kafka_classic.broker.unhurried import BREATH_S
from kafka_classic.log.errors import StorageError

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker

log = logging.getLogger(__name__)


class Housekeeping:
    """A few greenlets, each doing one thing again and again."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        self._greenlets = [
            gevent.spawn(self._every, 1.0, self._tell_time),
            gevent.spawn(self._every, 1.0, self._resign),
            gevent.spawn(self._every, 1.0, self._send_on),
            gevent.spawn(self._every, 1.0, Hearsay(broker).ask),
            gevent.spawn(self._every, settings.log_retention_check_interval_ms / 1000, self._retain),
            gevent.spawn(self._every, settings.log_flush_offset_checkpoint_interval_ms / 1000, self._checkpoint),
            gevent.spawn(self._every, settings.replica_high_watermark_checkpoint_interval_ms / 1000, self._save_marks),
            gevent.spawn(self._every, settings.replica_lag_time_max_ms / 2000, self._look_at_followers),
        ]
        if settings.connections_max_idle_ms >= 0:
            seconds = max(settings.connections_max_idle_ms / 1000 / LOOKS, 0.01)
            self._greenlets.append(gevent.spawn(self._every, seconds, broker.server.close_idle))

    def stop(self) -> None:
        gevent.killall(self._greenlets)

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        while True:
            gevent.sleep(seconds)
            try:
                work()
            except Exception:
                log.exception("%s failed; it is tried again in %.0f s", work.__name__, seconds)

    def _tell_time(self) -> None:
        now_ms = int(self._broker.clock() * 1000)
        for partition in self._broker.hosted:
            partition.tell_time(now_ms)

    def _resign(self) -> None:
        """Let others lead what this broker's disk cannot hold."""
        for partition in self._broker.hosted:
            if partition.log.failed is not None and partition.leading:
                self._broker.in_sync.resign(partition)

    def _send_on(self) -> None:
        """Let producers that wait here for followers look for them where they have gone."""
        fence = self._broker.fence
        for partition in self._broker.hosted if fence.closed else ():
            if fence.deserted(partition):
                partition.wake()

    def _retain(self) -> None:
        """Delete what is older or more than the topic keeps (P11)."""
        for partition in self._broker.hosted:
            if partition.log.failed is not None:
                continue
            try:
                deleted = partition.log.clean(self._broker.clock(), upto=partition.readable_to)
            except StorageError as error:
                log.error("%s-%d is offline: %s", partition.topic, partition.index, error)
                partition.refresh()
                continue
            if deleted:
                log.info("%s-%d: %d old segments deleted", partition.topic, partition.index, len(deleted))
            gevent.sleep(BREATH_S)

    def _save_marks(self) -> None:
        self._broker.in_a_thread(self._broker.hosted.save_marks_job())

    def _look_at_followers(self) -> None:
        self._broker.in_sync.look_at_all(self._broker.hosted)

    def _checkpoint(self) -> None:
        self._broker.in_a_thread(self._broker.directory.checkpoint_job())
