"""The settings of one log, with Kafka's names and defaults for topics."""

from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a log goes by; times are in milliseconds, sizes in bytes, and -1 stands for no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    max_message_bytes: int = 1048588
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    min_cleanable_dirty_ratio: float = 0.5
    message_timestamp_type: str = "CreateTime"
    compression_type: str = "producer"
    producer_id_expiration_ms: int = DAY_MS
    classic: bool = False

    @property
    def deletes(self) -> bool:
        """Whether old segments go by age and size; a topic that is only compacted keeps them."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy and not self.classic
