"""One partition as this broker holds it: its log, its part in replication, what it accepts, and who waits for it."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.replication.replica import Leadership, Replica, Taken
from kafka_classic.settings import INTERNAL_TOPICS, MAX_LONG, BrokerSettings, TopicSettings

# What the produce fast path may take as it is: nothing, or what need not wait for others, or everything.
SLOW, UNLESS_ALL, FAST = 0, 1, 2


class Waiter(Protocol):
    """One who waits in purgatory for a partition to have more to read, or for others to have what was written."""

    def again(self) -> None: ...


class Partition(Replica):
    """A replica of a partition with its log on this broker's disk.

    States besides those of Replica: *offline* (an I/O error; every request gets KAFKA_STORAGE_ERROR until the broker
    restarts) and *gone* (the topic was deleted, or the replica moved away; UNKNOWN_TOPIC_OR_PARTITION).
    """

    __slots__ = (
        "_broker",
        "dirty",
        "fast",
        "flush_timer",
        "flushing",
        "gone",
        "index",
        "latest_timestamp",
        "max_batch",
        "settings",
        "topic",
        "topic_id",
        "waiters",
    )

    log: Log

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        settings: TopicSettings,
        broker: BrokerSettings,
        high_watermark: int = 0,
    ) -> None:
        super().__init__(broker.broker_id, min(max(high_watermark, log.start_offset), log.end_offset))
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.waiters: dict[Waiter, None] = {}  # in order of arrival; each takes itself out when it is done
        self.dirty = False  # staged batches await this turn's commit
        self.flushing = False  # an fsync is under way on another thread
        self.flush_timer: object = None
        self.gone = False
        self._broker = broker
        self.configure(settings)

    def configure(self, settings: TopicSettings) -> None:
        """Take new topic settings; they hold from the next batch on."""
        self.settings = settings
        self.log.config = log_config(settings, self._broker)
        self.max_batch = settings.max_message_bytes
        self.latest_timestamp = 0
        self.refresh()

    def refresh(self) -> None:
        """Decide anew whether the produce fast path may take a producer's bytes as they are."""
        settings = self.settings
        self.fast = SLOW
        if (
            self.leading
            and not self.gone
            and self.log.failed is None
            and self.topic not in INTERNAL_TOPICS
            and settings.compression_type == "producer"
            and settings.message_timestamp_type == "CreateTime"
            and settings.message_timestamp_before_max_ms == MAX_LONG
            and not settings.compacts  # then each record's key is looked at
        ):
            self.fast = UNLESS_ALL if self.replicated else FAST

    @property
    def replicated(self) -> bool:
        """Whether another broker holds a replica, and could lead."""
        return len(self.replicas) > 1

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas, as in Kafka."""
        return min(self.settings.min_insync_replicas, max(len(self.replicas), 1))

    def take(self, told: Leadership, now: float) -> Taken:
        """Lead or follow as told; whoever waits looks again at once: what it waits for may never come, or has come."""
        mark = self.high_watermark
        taken = super().take(told, now)
        if taken in (Taken.LEADS, Taken.FOLLOWS):
            self.refresh()
        if taken in (Taken.LEADS, Taken.FOLLOWS) or self.high_watermark > mark:
            self.wake()
        return taken

    def tell_time(self, now_ms: int) -> None:
        """Move the bound on timestamps; a clock read once a second is near enough for a bound of an hour."""
        self.latest_timestamp = now_ms + self.settings.message_timestamp_after_max_ms

    @property
    def readable_to(self) -> int:
        """How far consumers may read: the high watermark, of a classic topic what of it is flushed."""
        exposed = self.log.exposed_offset
        return exposed if exposed < self.high_watermark else self.high_watermark

    def wake(self) -> None:
        """Tell everyone who waits that there may be more to read."""
        for waiter in list(self.waiters):
            waiter.again()


def log_config(settings: TopicSettings, broker: BrokerSettings) -> LogConfig:
    """What a topic's logs go by: its settings, and the broker's for what no topic can set."""
    values = {name: getattr(settings, name) for name in LogConfig.__dataclass_fields__ if hasattr(settings, name)}
    if settings.compacts:  # what is in the active segment is not compacted, however old
        values["segment_ms"] = min(settings.segment_ms, settings.max_compaction_lag_ms)
    return LogConfig(producer_id_expiration_ms=broker.producer_id_expiration_ms, **values)
