"""What becomes of batches that failed: sent again in their order after a wait, or given up."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from kafka_classic.client.backoff import Backoff
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.decisions import Decisions
from kafka_classic.producer.errors import timed_out
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.producer.verdict import Verdict, judge
from kafka_classic.wire.errors import KafkaError

log = logging.getLogger(__name__)


class Recovery:
    """Guarded by the sender's lock."""

    def __init__(
        self, settings: ProducerSettings, decisions: Decisions, rng: random.Random, clock: Callable[[], float]
    ) -> None:
        self._retries = settings.retries
        self._backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._decisions = decisions
        self._rng = rng
        self._clock = clock
        self._waiting: dict[Lane, None] = {}

    def failed(self, batch: Batch, error: KafkaError) -> None:
        """A batch came back with an error. If it may yet succeed it waits until its lane is at rest."""
        lane = batch.lane
        lane.last_error = error
        if batch.done:
            return  # given up before
        verdict = judge(
            error,
            idempotent=lane.idempotent,
            behind_a_failure=bool(lane.failed),
            retries_left=batch.attempts < self._retries,
        )
        if verdict is Verdict.ACKNOWLEDGED:
            lane.acknowledged()
            self._decisions.settle(batch, None)
        elif verdict is Verdict.FAIL:
            self.give_up(batch, error)
        else:
            # To come behind a gap is none of the attempts that `retries` counts.
            batch.attempts += error.retriable
            lane.failed.append(batch)
            if verdict is Verdict.RENEW:
                lane.broken = True
                log.info("%s; going on under a new epoch", error)

    def give_up(self, batch: Batch, error: KafkaError) -> None:
        """Its number may never reach the leader now: the lane must close that gap."""
        if batch.producer is not None and not batch.done:
            batch.lane.gap = True
        self._decisions.settle(batch, error)

    def expire(self, lane: Lane, now: float) -> None:
        """Give up what stands in a lane's queue past its delivery.timeout.ms."""
        while lane.queue and lane.queue[0].deadline <= now:
            self.give_up(lane.queue.popleft(), timed_out(lane.at, lane.last_error))
        if lane.gap and not lane.in_flight:
            lane.come_to_rest()

    def later(self, lane: Lane) -> None:
        """Let a lane wait before its next attempt, longer each time."""
        lane.retry_at = self._clock() + self._backoff.delay(lane.attempts, self._rng)
        lane.attempts += 1
        self._waiting[lane] = None

    def ready(self, now: float) -> tuple[list[Lane], float]:
        """The lanes that have waited long enough, and when the next will have."""
        ready = []
        soonest = float("inf")
        for lane in list(self._waiting):
            assert lane.retry_at is not None
            if lane.retry_at <= now:
                del self._waiting[lane]
                lane.retry_at = None
                ready.append(lane)
            else:
                soonest = min(soonest, lane.retry_at)
        return ready, soonest
