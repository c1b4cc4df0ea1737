"""What a consumer remembers of its rebalances: when, why, how long, how many attempts, what it cost; and the counts."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_classic.zk.consumers import TopicPartition

REMEMBERED = 100


@dataclass(frozen=True, slots=True)
class RebalanceRecord:
    """One rebalance, from the first word of a change until all that the plan gives this consumer is read."""

    started: float  # seconds since 1970
    why: str
    seconds: float
    attempts: int
    released: frozenset[TopicPartition]
    acquired: frozenset[TopicPartition]
    operations: int  # requests to ZooKeeper


@dataclass(slots=True)
class RebalanceHistory:
    """The last records, and counters that only grow."""

    rebalances: int = 0
    attempts: int = 0
    conflicts: int = 0  # how often a backoff ended and another still owned what the plan gives this consumer
    surrenders: int = 0  # how often everything was given up because of that (P18)
    failures: int = 0  # attempts that ZooKeeper, or the application's own code, did not let through
    expirations: int = 0  # sessions lost
    records: deque[RebalanceRecord] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _now: "_Open | None" = None

    def begin(self, why: Iterable[str], started: float, clock: float, operations: int) -> None:
        """A rebalance begins, unless one is under way: then this is one more reason for it."""
        if self._now is None:
            self._now = _Open(started, clock, operations)
        for reason in why:
            self._now.why.setdefault(reason)

    def attempted(self) -> None:
        self.attempts += 1
        if self._now is not None:
            self._now.attempts += 1

    def moved(self, released: Iterable[TopicPartition] = (), acquired: Iterable[TopicPartition] = ()) -> None:
        if self._now is not None:
            self._now.released.update(released)
            self._now.acquired.update(acquired)

    def end(self, clock: float, operations: int) -> RebalanceRecord | None:
        """The rebalance that was under way, if one was, is over."""
        now, self._now = self._now, None
        if now is None:
            return None
        record = RebalanceRecord(
            started=now.started,
            why="; ".join(now.why),
            seconds=clock - now.clock,
            attempts=now.attempts,
            released=frozenset(now.released),
            acquired=frozenset(now.acquired),
            operations=operations - now.operations,
        )
        self.records.append(record)
        self.rebalances += 1
        return record

    def under_way_for(self, clock: float) -> float:
        """Seconds since the rebalance that is not over yet began; 0 if there is none."""
        return 0.0 if self._now is None else clock - self._now.clock


@dataclass(slots=True)
class _Open:
    started: float
    clock: float
    operations: int
    attempts: int = 0
    why: dict[str, None] = field(default_factory=dict)  # in order, each once
    released: set[TopicPartition] = field(default_factory=set)
    acquired: set[TopicPartition] = field(default_factory=set)
