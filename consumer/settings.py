"""The consumer's settings, with the names and defaults of Kafka 0.8's, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.settings import MAX_INT, Setting, as_text, describe, parsed, setting

_RESETS = {"smallest": EARLIEST, "earliest": EARLIEST, "largest": LATEST, "latest": LATEST}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What can be set for a consumer."""

    TABLE: ClassVar[dict[str, Setting]]

    audit_window_ms: int = setting(60_000, "With audit=True: the windows of time in which is counted.", low=100)
    auto_commit_enable: bool = setting(True, "Commit by itself how far the application has come.")
    auto_commit_interval_ms: int = setting(60_000, "How often it does.", low=1, high=MAX_INT)
    auto_offset_reset: str = setting(
        "largest", "Where a group begins that has no offset yet, or one that is gone (P19).", choices=tuple(_RESETS)
    )
    client_id: str = setting("kafka-classic", "The name brokers know this client by.")
    consumer_id: str = setting("", "This consumer's name in its group; made up if it is empty.")
    consumer_timeout_ms: int = setting(
        -1, "When a stream that waits in vain raises ConsumerTimeout; -1 is never.", low=-1, high=MAX_INT
    )
    dual_commit_enabled: bool = setting(True, "With offsets.storage=kafka, commit to ZooKeeper as well.")
    fetch_message_max_bytes: int = setting(1 << 20, "The largest share of one partition in an answer.", low=1)
    fetch_min_bytes: int = setting(1, "An answer waits until there is so much.", low=1)
    fetch_wait_max_ms: int = setting(100, "How long it waits for that.", high=MAX_INT)
    offsets_channel_socket_timeout_ms: int = setting(
        10_000, "How long the brokers are asked for offsets, or to keep them, attempts included.", low=1, high=MAX_INT
    )
    offsets_storage: str = setting("zookeeper", "Where offsets are kept.", choices=("zookeeper", "kafka"))
    queued_max_message_chunks: int = setting(2, "Chunks of a partition that are kept ready (P7).", low=1)
    rebalance_backoff_ms: int = setting(2_000, "The wait before a conflict is looked at again.", low=1, high=MAX_INT)
    rebalance_max_retries: int = setting(4, "Conflicts in a row before everything owned is released (P18).", low=1)
    rebalance_quiet_ms: int = setting(
        200, "How long a change must be the last one before partitions are shared out anew.", low=1, high=MAX_INT
    )
    rebalance_quiet_max_ms: int = setting(
        1_000, "How long changes may follow each other before it is done all the same.", low=1, high=MAX_INT
    )
    refresh_leader_backoff_ms: int = setting(200, "The first wait before a leader is looked for again.", low=1)
    socket_timeout_ms: int = setting(30_000, "When an unanswered request is taken for lost.", low=1, high=MAX_INT)
    zookeeper_connection_timeout_ms: int = setting(6_000, "How long the first connection may take.", low=1)
    zookeeper_session_timeout_ms: int = setting(6_000, "Silence after which others take over.", low=100, high=MAX_INT)

    @property
    def where_to_begin(self) -> int:
        """EARLIEST or LATEST: what auto.offset.reset asks a broker for."""
        return _RESETS[self.auto_offset_reset]

    @property
    def stream_timeout(self) -> float | None:
        """consumer.timeout.ms in seconds; None is for ever."""
        return None if self.consumer_timeout_ms < 0 else self.consumer_timeout_ms / 1000

    @classmethod
    def load(cls, given: Mapping[str, Any]) -> Self:
        """Settings by Kafka's names, with dots or underscores; values of their type or as text."""
        return cls(**parsed(cls.TABLE, as_text(given), "consumer"))


ConsumerSettings.TABLE = describe(ConsumerSettings)
