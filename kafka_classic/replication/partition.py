"""One partition as this broker holds it: its log, whether it leads, what it accepts, and who waits for new data."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.settings import MAX_LONG, BrokerSettings, TopicSettings


class Waiter(Protocol):
    """One who waits in purgatory for a partition to have more to read."""

    def again(self) -> None: ...


class Partition:
    """A partition that this broker leads.

    States: *leading* (`log` is open and healthy) -> *offline* (an I/O error; every request gets
    KAFKA_STORAGE_ERROR until the broker restarts) or *gone* (the topic was deleted; UNKNOWN_TOPIC_OR_PARTITION).
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
        "leader_epoch",
        "log",
        "max_batch",
        "settings",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        leader_epoch: int,
        settings: TopicSettings,
        broker: BrokerSettings,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
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
        self.fast = (
            not self.gone
            and self.log.failed is None
            and settings.compression_type == "producer"
            and settings.message_timestamp_type == "CreateTime"
            and settings.message_timestamp_before_max_ms == MAX_LONG
            and settings.min_insync_replicas == 1
        )

    def tell_time(self, now_ms: int) -> None:
        """Move the bound on timestamps; a clock read once a second is near enough for a bound of an hour."""
        self.latest_timestamp = now_ms + self.settings.message_timestamp_after_max_ms

    @property
    def readable_to(self) -> int:
        """The high watermark: with one replica, all that the log exposes."""
        return self.log.exposed_offset

    def wake(self) -> None:
        """Tell everyone who waits that there may be more to read."""
        for waiter in list(self.waiters):
            waiter.again()


def log_config(settings: TopicSettings, broker: BrokerSettings) -> LogConfig:
    """What a topic's logs go by: its settings, and the broker's for what no topic can set."""
    names = [name for name in LogConfig.__dataclass_fields__ if hasattr(settings, name)]
    return LogConfig(
        producer_id_expiration_ms=broker.producer_id_expiration_ms, **{name: getattr(settings, name) for name in names}
    )
