"""Settings with Kafka's names and defaults: typed, checked at start, a misspelt one refused with the nearest name.

A field's name is the setting's name with dots for underscores (`log_segment_bytes` is `log.segment.bytes`), its
annotation the type; `setting()` adds what the broker tells of it in DescribeConfigs: the range, the choices, a line of
documentation, and for a topic's setting the broker's setting that gives its default.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# The topic in which the brokers keep what groups commit; nobody else writes to it.
OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})
# Empty: consumers read from the leader. Kafka's own class name is taken too.
SELECTORS = ("", "RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector")


POLICIES = ("delete", "compact")


class SettingsError(ValueError):
    """A setting is unknown, misspelt or out of range; the message is one line that says what to do."""


class Kind(IntEnum):
    """The types of a setting, with the numbers that DescribeConfigs gives them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting besides its value."""

    name: str
    kind: Kind
    default: Any
    doc: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    synonym: str

    def parse(self, text: str) -> Any:
        """The typed value of `text`, or a SettingsError that says what would be right."""
        text = text.strip()
        if self.kind is Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise SettingsError(f"{self.name} must be true or false, not {text!r}")
            return text.lower() == "true"
        if self.kind is Kind.STRING:
            if self.choices and text not in self.choices:
                raise SettingsError(f"{self.name} must be one of {', '.join(self.choices)}, not {text!r}")
            return text
        if self.kind is Kind.LIST:
            parts = tuple(part.strip() for part in text.split(",") if part.strip())
            if self.choices and not (parts and set(parts) <= set(self.choices)):
                raise SettingsError(f"{self.name} must be one or more of {', '.join(self.choices)}, not {text!r}")
            return parts
        number: int | float
        try:
            number = float(text) if self.kind is Kind.DOUBLE else int(text)
        except ValueError:
            what = "number" if self.kind is Kind.DOUBLE else "whole number"
            raise SettingsError(f"{self.name} must be a {what}, not {text!r}") from None
        low, high = (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)
        if not low <= number <= high:
            raise SettingsError(f"{self.name} must be from {self.low} to {self.high}, not {number}")
        return number

    def text(self, value: Any) -> str:
        """The value as Kafka writes it."""
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, tuple) else str(value)


def setting(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    synonym: str = "",
) -> Any:
    return field(default=default, metadata={"doc": doc, "range": (low, high), "choices": choices, "synonym": synonym})


_KINDS = {"bool": Kind.BOOLEAN, "str": Kind.STRING, "float": Kind.DOUBLE, "tuple[str, ...]": Kind.LIST}


def describe(cls: type) -> dict[str, Setting]:
    """The settings of a dataclass whose fields were all made by setting(), under Kafka's names."""
    found = {}
    for f in dataclasses.fields(cls):
        kind = _KINDS.get(str(f.type), Kind.INT)
        low, high = f.metadata["range"]
        if kind is Kind.INT:
            if high is None:
                high = MAX_LONG if f.name.endswith(("_ms", "_messages", "retention_bytes")) else MAX_INT
            kind = Kind.LONG if high > MAX_INT else Kind.INT
            low = 0 if low is None else low
        name = f.name.replace("_", ".")
        about = f.metadata
        found[name] = Setting(name, kind, f.default, about["doc"], low, high, about["choices"], about["synonym"])
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean X?` where one is near, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def parsed(table: Mapping[str, Setting], given: Mapping[str, str], what: str) -> dict[str, Any]:
    """The typed values by the names of their fields; a SettingsError names the nearest right name."""
    values = {}
    for name, text in given.items():
        if name not in table:
            raise SettingsError(f"unknown {what} setting {name}{nearest(name, table)}")
        values[name.replace(".", "_")] = table[name].parse(text)
    return values


def as_text(given: Mapping[str, Any]) -> dict[str, str]:
    """What a program passes, by Kafka's names with dots or underscores: values of their type, or as text."""
    return {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What can be set for a topic; the defaults come from the broker's settings by their synonyms."""

    TABLE: ClassVar[dict[str, Setting]]

    classic: bool = setting(False, "Offsets are byte positions and messages are exposed once flushed, as in the paper.")
    cleanup_policy: tuple[str, ...] = setting(
        ("delete",),
        "What happens to old records: `delete` by age and size, `compact` to the last of each key; or both.",
        choices=POLICIES,
        synonym="log.cleanup.policy",
    )
    compression_type: str = setting(
        "producer",
        "The codec on disk; `producer` keeps what the producer chose.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        synonym="compression.type",
    )
    delete_retention_ms: int = setting(
        DAY_MS, "How long a compacted topic keeps tombstones.", synonym="log.cleaner.delete.retention.ms"
    )
    flush_messages: int = setting(
        MAX_LONG, "Messages after which the log is flushed.", low=1, synonym="log.flush.interval.messages"
    )
    flush_ms: int = setting(MAX_LONG, "Milliseconds after which the log is flushed.", synonym="log.flush.interval.ms")
    index_interval_bytes: int = setting(
        4096, "Bytes of log between two index entries.", low=1, synonym="log.index.interval.bytes"
    )
    max_compaction_lag_ms: int = setting(
        MAX_LONG, "Age at which a record is compacted in any case.", low=1, synonym="log.cleaner.max.compaction.lag.ms"
    )
    max_message_bytes: int = setting(1_048_588, "The largest batch accepted.", synonym="message.max.bytes")
    message_timestamp_after_max_ms: int = setting(
        HOUR_MS, "How far ahead of the broker's clock a timestamp may be.", synonym="log.message.timestamp.after.max.ms"
    )
    message_timestamp_before_max_ms: int = setting(
        MAX_LONG,
        "How far behind the broker's clock a timestamp may be.",
        synonym="log.message.timestamp.before.max.ms",
    )
    message_timestamp_type: str = setting(
        "CreateTime",
        "Whose clock a record's timestamp is: the producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
        synonym="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio: float = setting(
        0.5,
        "Share of a log's bytes not compacted yet at which it is compacted.",
        low=0.0,
        high=1.0,
        synonym="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = setting(
        0, "Age below which a record is not compacted.", synonym="log.cleaner.min.compaction.lag.ms"
    )
    min_insync_replicas: int = setting(
        1, "In-sync replicas that acks=all asks for.", low=1, synonym="min.insync.replicas"
    )
    retention_bytes: int = setting(
        -1, "Bytes of a partition kept; -1 keeps all.", low=-1, synonym="log.retention.bytes"
    )
    retention_ms: int = setting(
        7 * DAY_MS, "Age at which messages go; -1 keeps all (P11).", low=-1, synonym="log.retention.ms"
    )
    segment_bytes: int = setting(1 << 30, "Size of a segment file (P4).", low=14, synonym="log.segment.bytes")
    segment_index_bytes: int = setting(10 << 20, "Largest index file.", low=4, synonym="log.index.size.max.bytes")
    segment_jitter_ms: int = setting(0, "Random time taken off segment.ms.", synonym="log.roll.jitter.ms")
    segment_ms: int = setting(7 * DAY_MS, "Age at which a segment is closed.", low=1, synonym="log.roll.ms")
    unclean_leader_election_enable: bool = setting(
        False,
        "Whether a replica that is not in sync may lead when no other can: records are lost then.",
        synonym="unclean.leader.election.enable",
    )

    @classmethod
    def load(cls, broker: BrokerSettings, given: Mapping[str, str]) -> Self:
        """A topic's settings: what was set for it, over the broker's defaults."""
        values = {}
        for name, known in cls.TABLE.items():
            if known.synonym:
                values[name.replace(".", "_")] = getattr(broker, known.synonym.replace(".", "_"))
        if given.get("classic", "").lower() == "true":
            values.update(CLASSIC_DEFAULTS)
        values.update(parsed(cls.TABLE, given, "topic"))
        settings = cls(**values)
        if settings.classic and settings.compacts:
            raise SettingsError("cleanup.policy of a classic topic must be delete: its offsets are byte positions")
        if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
            raise SettingsError(
                f"min.compaction.lag.ms ({settings.min_compaction_lag_ms}) must not be above "
                f"max.compaction.lag.ms ({settings.max_compaction_lag_ms})"
            )
        return settings

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is kept in the end."""
        return "compact" in self.cleanup_policy


# The paper exposes a message only once it is flushed (P5), so a classic topic must flush often to be of use: the 0.7
# release flushed every 500 messages; we wait at most a fifth of a second for the 500. It is never compacted.
CLASSIC_DEFAULTS = {"flush_messages": 500, "flush_ms": 200, "cleanup_policy": ("delete",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What can be set for a broker."""

    TABLE: ClassVar[dict[str, Setting]]

    broker_id: int = setting(0, "This broker's id, unique in the cluster.")
    broker_rack: str = setting("", "The rack this broker stands in.")
    listeners: tuple[str, ...] = setting(("PLAINTEXT://127.0.0.1:9092",), "NAME://host:port, … to listen on.")
    advertised_listeners: tuple[str, ...] = setting((), "What clients are told to connect to, if not `listeners`.")
    listener_security_protocol_map: tuple[str, ...] = setting((), "NAME:PLAINTEXT, … for listeners of other names.")
    log_dirs: str = setting("kafka-classic-data/broker-0", "The folder of the logs.")
    zookeeper_connect: str = setting("127.0.0.1:2181", "host:port,…[/chroot] of ZooKeeper.")
    zookeeper_session_timeout_ms: int = setting(18_000, "Silence after which ZooKeeper gives this broker up.", low=100)
    zookeeper_connection_timeout_ms: int = setting(18_000, "How long to wait for ZooKeeper at start.", low=1)

    num_partitions: int = setting(1, "Partitions of a topic that does not say.", low=1)
    default_replication_factor: int = setting(1, "Replicas of a topic that does not say.", low=1)
    auto_create_topics_enable: bool = setting(True, "Create a topic when a client first asks for it.")
    delete_topic_enable: bool = setting(True, "Whether topics can be deleted.")
    min_insync_replicas: int = setting(1, "In-sync replicas that acks=all asks for.", low=1)

    inter_broker_listener_name: str = setting("", "The listener by which brokers reach this one; the first, if empty.")
    replica_lag_time_max_ms: int = setting(
        30_000, "A replica that has not caught up for this long is out of sync.", low=1
    )
    replica_fetch_wait_max_ms: int = setting(500, "How long a follower's fetch waits for new records.", low=0)
    replica_fetch_min_bytes: int = setting(1, "How much a follower's fetch waits for.", low=0)
    replica_fetch_max_bytes: int = setting(1 << 20, "The most a follower fetches of one partition at a time.", low=1)
    replica_fetch_response_max_bytes: int = setting(10 << 20, "The most a follower fetches at a time.", low=1)
    replica_fetch_backoff_ms: int = setting(1000, "How long a follower waits after an error.", low=0)
    replica_socket_timeout_ms: int = setting(30_000, "How long a follower waits for an answer.", low=1)
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5000, "How often the high watermarks are saved.", low=1
    )
    replica_selector_class: str = setting(
        "", "`RackAwareReplicaSelector` lets a consumer read from a replica in its rack.", choices=SELECTORS
    )
    unclean_leader_election_enable: bool = setting(False, "Whether a replica that is not in sync may lead.")
    auto_leader_rebalance_enable: bool = setting(True, "Whether leadership goes back to preferred replicas by itself.")
    leader_imbalance_check_interval_seconds: int = setting(300, "How often that is looked at.", low=1)
    leader_imbalance_per_broker_percentage: int = setting(
        10, "Percentage of a broker's partitions led by others above which leadership goes back to it."
    )
    controlled_shutdown_enable: bool = setting(True, "Whether leadership is moved away before a broker stops.")
    controlled_shutdown_max_retries: int = setting(3, "How often a stop tries to move leadership away.")
    controlled_shutdown_retry_backoff_ms: int = setting(5000, "How long it waits between two tries.")
    controller_socket_timeout_ms: int = setting(30_000, "How long the controller waits for a broker's answer.", low=1)

    socket_request_max_bytes: int = setting(
        104_857_600, "The largest request; a larger one closes the connection.", low=1
    )
    socket_send_buffer_bytes: int = setting(-1, "SO_SNDBUF of a connection; -1 leaves it to the system.", low=-1)
    socket_receive_buffer_bytes: int = setting(-1, "SO_RCVBUF of a connection; -1 leaves it to the system.", low=-1)
    socket_listen_backlog_size: int = setting(1024, "Connections waiting to be accepted.", low=1)
    connections_max_idle_ms: int = setting(600_000, "An idle connection is closed after this time; -1 never.", low=-1)
    max_connections: int = setting(MAX_INT, "The most connections at a time.", low=1)
    queued_max_request_bytes: int = setting(
        512 << 20, "Bytes of half-received large requests held at a time; past it new ones wait.", low=1
    )
    fetch_max_bytes: int = setting(57_671_680, "The most bytes in a fetch response.", low=1024)
    max_incremental_fetch_session_cache_slots: int = setting(1000, "Fetch sessions kept.")

    compression_type: str = setting(
        "producer", "Default codec on disk.", choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    )
    message_max_bytes: int = setting(1_048_588, "The largest batch accepted.")
    log_cleaner_enable: bool = setting(True, "Whether topics with cleanup.policy=compact are compacted.")
    log_cleaner_threads: int = setting(1, "Logs compacted at a time.", low=1)
    log_cleaner_dedupe_buffer_size: int = setting(
        128 << 20, "Bytes of memory in which all threads together remember keys.", low=1, high=MAX_LONG
    )
    log_cleaner_io_buffer_size: int = setting(
        512 << 10, "Bytes of memory that all threads together read and write with.", low=1
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        sys.float_info.max, "Bytes that compaction reads and writes a second, all threads together.", low=0.0
    )
    log_cleaner_backoff_ms: int = setting(15_000, "How long to wait when there is nothing to compact.")
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, "Share of a log's bytes not compacted yet at which it is compacted.", low=0.0, high=1.0
    )
    log_cleaner_delete_retention_ms: int = setting(DAY_MS, "How long compacted topics keep tombstones.")
    log_cleaner_min_compaction_lag_ms: int = setting(0, "Age below which a record is not compacted.")
    log_cleaner_max_compaction_lag_ms: int = setting(MAX_LONG, "Age at which a record is compacted in any case.", low=1)
    log_cleanup_policy: tuple[str, ...] = setting(
        ("delete",), "What happens to old records of topics that do not say.", choices=POLICIES
    )
    log_flush_interval_messages: int = setting(MAX_LONG, "Messages after which a log is flushed.", low=1)
    log_flush_interval_ms: int = setting(MAX_LONG, "Milliseconds after which a log is flushed.")
    log_flush_offset_checkpoint_interval_ms: int = setting(60_000, "How often the recovery points are saved.", low=1)
    log_index_interval_bytes: int = setting(4096, "Bytes of log between two index entries.", low=1)
    log_index_size_max_bytes: int = setting(10 << 20, "Largest index file.", low=4)
    log_message_timestamp_type: str = setting(
        "CreateTime", "Whose clock a timestamp is.", choices=("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_after_max_ms: int = setting(HOUR_MS, "How far ahead a timestamp may be.")
    log_message_timestamp_before_max_ms: int = setting(MAX_LONG, "How far behind a timestamp may be.")
    log_retention_bytes: int = setting(-1, "Bytes of a partition kept; -1 keeps all.", low=-1)
    log_retention_check_interval_ms: int = setting(300_000, "How often retention is applied.", low=1)
    log_retention_ms: int = setting(7 * DAY_MS, "Age at which messages go; -1 keeps all (P11).", low=-1)
    log_roll_jitter_ms: int = setting(0, "Random time taken off log.roll.ms.")
    log_roll_ms: int = setting(7 * DAY_MS, "Age at which a segment is closed.", low=1)
    log_segment_bytes: int = setting(1 << 30, "Size of a segment file (P4).", low=14)
    producer_id_expiration_ms: int = setting(DAY_MS, "Silence after which a producer's state is dropped.", low=1)

    group_initial_rebalance_delay_ms: int = setting(
        3000, "How long the first rebalance of an empty group waits for more members.", high=MAX_INT
    )
    group_min_session_timeout_ms: int = setting(6000, "The shortest session timeout of a member.", high=MAX_INT)
    group_max_session_timeout_ms: int = setting(1_800_000, "The longest session timeout of a member.", high=MAX_INT)
    group_max_size: int = setting(MAX_INT, "The most members of a group.", low=1)
    offset_metadata_max_bytes: int = setting(
        4096, "The most text that may be committed with an offset.", high=2**15 - 1
    )
    offsets_commit_timeout_ms: int = setting(
        5000, "How long a commit may take until all in-sync replicas have it.", low=1, high=MAX_INT
    )
    offsets_retention_minutes: int = setting(
        7 * 24 * 60, "How long the offsets of a group without members are kept.", low=1
    )
    offsets_retention_check_interval_ms: int = setting(600_000, "How often that is looked at.", low=1)
    offsets_topic_num_partitions: int = setting(50, "Partitions of __consumer_offsets.", low=1)
    offsets_topic_replication_factor: int = setting(3, "Replicas of __consumer_offsets.", low=1, high=2**15 - 1)
    offsets_topic_segment_bytes: int = setting(100 << 20, "Size of a segment file of __consumer_offsets.", low=14)

    @classmethod
    def load(cls, given: Mapping[str, str]) -> Self:
        """The settings in `given` over the defaults; older names of Kafka's are understood."""
        modern: dict[str, str] = {}
        for name, text in given.items():
            if name in _OLDER:
                newer, factor = _OLDER[name]
                if newer in given:
                    continue
                number = Setting(name, Kind.LONG, 0, "", -1, MAX_LONG, (), "").parse(text) if factor else 0
                modern[newer] = str(number if number < 0 else number * factor) if factor else text
            else:
                modern[name] = text
        settings = cls(**parsed(cls.TABLE, modern, "broker"))
        settings.endpoints()
        settings.advertised()
        inter_broker = settings.inter_broker_listener_name.upper()
        if inter_broker and inter_broker not in {e.name for e in settings.endpoints()}:
            raise SettingsError(f"inter.broker.listener.name names {inter_broker}, which listeners does not")
        if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
            raise SettingsError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
        if settings.broker_id < 0:
            raise SettingsError("broker.id must be 0 or more")
        return settings

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where to listen."""
        return _endpoints("listeners", self.listeners)

    def advertised(self) -> tuple[Endpoint, ...]:
        """What to tell clients, one for each listener."""
        listeners = self.endpoints()
        if not self.advertised_listeners:
            return listeners
        named = {e.name: e for e in _endpoints("advertised.listeners", self.advertised_listeners)}
        unknown = named.keys() - {e.name for e in listeners}
        if unknown:
            raise SettingsError(f"advertised.listeners names {sorted(unknown)[0]}, which listeners does not")
        return tuple(named.get(e.name, e) for e in listeners)


class Endpoint(NamedTuple):
    """One address of a broker, under the listener's name."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """`NAME://host:port`, a host of IPv6 in brackets."""
        match = _ENDPOINT.fullmatch(text)
        if match is None or int(match[3]) > 65535:
            raise SettingsError(f"expected NAME://host:port, for example PLAINTEXT://127.0.0.1:9092, not {text!r}")
        return cls(match[1].upper(), match[2].strip("[]"), int(match[3]))

    def __str__(self) -> str:
        return (
            f"{self.name}://[{self.host}]:{self.port}" if ":" in self.host else f"{self.name}://{self.host}:{self.port}"
        )


_ENDPOINT = re.compile(r"([A-Za-z0-9_]+)://(\[[0-9A-Fa-f:.]+\]|[^:/\[\]]*):(\d+)")


def _endpoints(setting_name: str, texts: tuple[str, ...]) -> tuple[Endpoint, ...]:
    found = []
    for text in texts:
        try:
            found.append(Endpoint.parse(text))
        except SettingsError as error:
            raise SettingsError(f"{setting_name}: {error}") from None
    if not found:
        raise SettingsError(f"{setting_name} is empty; give it PLAINTEXT://127.0.0.1:9092")
    if len({e.name for e in found}) < len(found):
        raise SettingsError(f"{setting_name} names a listener twice; each needs its own name")
    return tuple(found)


_OLDER = {
    "log.dir": ("log.dirs", 0),
    "log.retention.hours": ("log.retention.ms", HOUR_MS),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.roll.hours": ("log.roll.ms", HOUR_MS),
}

TopicSettings.TABLE = describe(TopicSettings)
BrokerSettings.TABLE = describe(BrokerSettings)


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a Java properties file: `name=value` lines, `#` or `!` comments, `\\` at a line's end goes on."""
    found: dict[str, str] = {}
    line = ""
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = raw.strip()
        if not line and (not text or text[0] in "#!"):
            continue
        if text.endswith("\\"):
            line += text[:-1]
            continue
        line += text
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise SettingsError(f"{path}, line {number}: expected name=value, found {line!r}")
        found[name.strip()] = value.strip()
        line = ""
    return found
