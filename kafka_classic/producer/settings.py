"""The producer's settings, with Kafka's names and defaults, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kafka_classic.records.codecs import Codec
from kafka_classic.settings import MAX_INT, Setting, SettingsError, describe, parsed, setting

_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
# A broker remembers the last five batches of a producer: more in flight could not be told from new ones.
_MOST_IN_FLIGHT_IDEMPOTENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """What can be set for a producer."""

    TABLE: ClassVar[dict[str, Setting]]

    acks: str = setting("all", "Who must have a batch before it is acknowledged.", choices=tuple(_ACKS))
    audit_grace_ms: int = setting(10_000, "With audit=True: how long after its end a window is closed.", high=MAX_INT)
    audit_window_ms: int = setting(60_000, "With audit=True: the windows of time in which is counted.", low=100)
    batch_size: int = setting(16384, "Bytes gathered for a partition before they are sent; 0 gathers nothing.")
    buffer_memory: int = setting(32 << 20, "Bytes of messages held that are not yet acknowledged.", low=1)
    client_id: str = setting("kafka-classic", "The name brokers know this client by.")
    compression_type: str = setting(
        "none", "The codec of whole batches.", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )
    compression_level: int = setting(-1, "The codec's level; -1 is its default.", low=-1)
    delivery_timeout_ms: int = setting(120_000, "When a message is given up, counted from its send().", high=MAX_INT)
    enable_idempotence: bool = setting(True, "Brokers recognise what is sent again: no duplicate, no disorder.")
    linger_ms: int = setting(0, "How long a batch that is not full waits for more.")
    max_block_ms: int = setting(60_000, "How long send() waits for memory or for a topic's metadata.")
    max_in_flight_requests_per_connection: int = setting(5, "Requests to one broker not yet answered.", low=1)
    max_request_size: int = setting(1 << 20, "The largest batch, before compression, and the largest request.", low=1)
    metadata_max_age_ms: int = setting(300_000, "When metadata is asked for anew in any case.", low=1)
    partitioner_ignore_keys: bool = setting(False, "Partition messages with a key like those without.")
    request_timeout_ms: int = setting(30_000, "When an unanswered request is taken for lost.", low=1, high=MAX_INT)
    retries: int = setting(MAX_INT, "How often a batch is sent again; delivery.timeout.ms ends it in any case.")
    retry_backoff_ms: int = setting(100, "The wait before the first retry; it doubles.", low=1)
    retry_backoff_max_ms: int = setting(1_000, "The longest wait before a retry.", low=1)
    zookeeper_session_timeout_ms: int = setting(18_000, "Silence after which ZooKeeper gives this client up.", low=100)

    @property
    def required_acks(self) -> int:
        return _ACKS[self.acks]

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    @property
    def level(self) -> int | None:
        return None if self.compression_level < 0 else self.compression_level

    @classmethod
    def load(cls, given: Mapping[str, Any]) -> Self:
        """Settings by Kafka's names, with dots or underscores; values of their type or as text."""
        texts = {name.replace("_", "."): _text(value) for name, value in given.items()}
        values = parsed(cls.TABLE, texts, "producer")
        if "enable.idempotence" not in texts and _ACKS[values.get("acks", "all")] != -1:
            values["enable_idempotence"] = False
        settings = cls(**values)
        if "delivery.timeout.ms" not in texts:
            # As in Kafka: a default never contradicts what was set.
            least = min(MAX_INT, settings.linger_ms + settings.request_timeout_ms)
            settings = replace(settings, delivery_timeout_ms=max(settings.delivery_timeout_ms, least))
        settings._check()
        return settings

    def _check(self) -> None:
        if self.enable_idempotence and self.required_acks != -1:
            raise SettingsError("enable.idempotence needs acks=all: set that, or enable.idempotence=false")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > _MOST_IN_FLIGHT_IDEMPOTENT:
            raise SettingsError(
                "max.in.flight.requests.per.connection must be at most 5 with enable.idempotence, "
                f"not {self.max_in_flight_requests_per_connection}"
            )
        if self.delivery_timeout_ms < min(MAX_INT, self.linger_ms + self.request_timeout_ms):
            raise SettingsError(
                "delivery.timeout.ms must be at least linger.ms + request.timeout.ms "
                f"({self.linger_ms + self.request_timeout_ms}), not {self.delivery_timeout_ms}"
            )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


ProducerSettings.TABLE = describe(ProducerSettings)
