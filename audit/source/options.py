"""The options of the data source: Spark's own names and meanings, checked before anything is started.

What is misspelt is refused with the nearest right name; `kafka.…` takes the settings of Kafka's clients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_classic.audit.source.plan import TopicPartition
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.offsets import EARLIEST, LATEST
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.settings import SettingsError, nearest

_BOOTSTRAP = "kafka.bootstrap.servers"
_SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
_START = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_END = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_NUMBERS = ("minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger")
_FLAGS = ("failOnDataLoss", "includeHeaders", "includeProducer")
_OTHERS = ("startingOffsetsByTimestampStrategy", "maxTriggerDelay", "kafkaConsumer.pollTimeoutMs", "topic")
# Of use to Spark's own source or sink only, or Spark's: taken, so that a job ports, and without effect.
_IGNORED = (
    *("groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "useDeprecatedOffsetFetching"),
    *("checkpointLocation", "path", "queryName", "includeTimestamp"),
)
_NAMES = (*_SUBSCRIPTIONS, *_START, *_END, *_NUMBERS, *_FLAGS, *_OTHERS, *_IGNORED)
_READING = {
    "fetch.max.bytes": 50 << 20,
    "fetch.max.wait.ms": 500,
    "fetch.min.bytes": 1,
    "max.partition.fetch.bytes": 4 << 20,
    "request.timeout.ms": 30_000,
}
_CHOICES = {"security.protocol": "PLAINTEXT", "isolation.level": "read_uncommitted"}
_KAFKA_IGNORED = ("group.id", "check.crcs", "client.rack", "session.timeout.ms", "heartbeat.interval.ms")
_REFUSED = {
    "auto.offset.reset": "say startingOffsets instead",
    "enable.auto.commit": "offsets are kept in the query's checkpoint",
    **dict.fromkeys(("key.deserializer", "value.deserializer"), "bytes are read; cast them in the query"),
    **dict.fromkeys(("key.serializer", "value.serializer"), "bytes are written; cast columns in the query"),
    **dict.fromkeys(("interceptor.classes", "transactional.id"), "there is no such thing here"),
}
_UNITS_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


class Where(NamedTuple):
    """A position in every partition: one for all, or one each; offsets (with EARLIEST, LATEST), or times in ms."""

    all: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    by_time: bool = False
    latest_if_none: bool = True  # where no record is that late; else an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose, read."""

    bootstrap: str
    topics: tuple[str, ...] | None
    pattern: str | None
    assigned: Mapping[str, tuple[int, ...]] | None
    start: Where | None
    end: Where | None
    min_partitions: int | None
    max_records: int | None
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    patience_s: float
    fail_on_data_loss: bool
    headers: bool
    producer: bool
    topic: str | None
    client_id: str
    request_timeout_s: float
    limits: FetchLimits
    producing: Mapping[str, str]

    def check_reading(self) -> None:
        if self.topics is None and self.pattern is None and self.assigned is None:
            raise SettingsError("say what to read: one of the options subscribe, subscribePattern and assign")

    def check_batch(self) -> None:
        """What a batch cannot begin or end with, as in Spark."""
        self.check_reading()
        if self.start is not None and not self.start.by_time and LATEST in _places(self.start):
            raise SettingsError('startingOffsets cannot be "latest" (-1) in a batch query: nothing would be read')
        if self.end is not None and not self.end.by_time and EARLIEST in _places(self.end):
            raise SettingsError('endingOffsets cannot be "earliest" (-2): nothing would be read')

    def check_stream(self) -> None:
        self.check_reading()
        if self.end is not None:
            raise SettingsError("a stream has no end: endingOffsets and endingTimestamp are for batch queries")


def read_options(given: Mapping[str, str]) -> Options:
    """Read all options, or raise SettingsError with the name of the first that is wrong."""
    known = {name.lower(): name for name in _NAMES}
    named: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower.startswith("kafka."):
            kafka[lower.removeprefix("kafka.")] = value
        elif lower in known:
            named[known[lower]] = value
        else:
            near = nearest(name, [*_NAMES, _BOOTSTRAP])
            raise SettingsError(f"there is no option {name!r}{near}")
    bootstrap = kafka.pop("bootstrap.servers", "").strip()
    if not bootstrap:
        raise SettingsError(f"the option {_BOOTSTRAP!r} is missing: HOST:PORT of a broker, several with commas between")
    numbers = {name: _number(name, named[name]) for name in _NUMBERS if name in named}
    reading, producing = _client_settings(kafka)
    start_none = _choice(named, "startingOffsetsByTimestampStrategy", "error", ("error", "latest")) == "latest"
    topics, pattern, assigned = _subscription(named)
    return Options(
        bootstrap=bootstrap,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=_where(named, _START, start_none),
        end=_where(named, _END, True),
        min_partitions=numbers.get("minPartitions"),
        max_records=numbers.get("maxRecordsPerPartition"),
        max_offsets=numbers.get("maxOffsetsPerTrigger"),
        min_offsets=numbers.get("minOffsetsPerTrigger"),
        max_delay_ms=_duration("maxTriggerDelay", named.get("maxTriggerDelay", "15m")),
        patience_s=_number("kafkaConsumer.pollTimeoutMs", named.get("kafkaConsumer.pollTimeoutMs", "120000")) / 1000,
        fail_on_data_loss=_flag(named, "failOnDataLoss", True),
        headers=_flag(named, "includeHeaders", False),
        producer=_flag(named, "includeProducer", False),
        topic=named.get("topic"),
        client_id=kafka.get("client.id", "kafka-classic-spark"),
        request_timeout_s=reading["request.timeout.ms"] / 1000,
        limits=FetchLimits(
            reading["fetch.max.wait.ms"],
            reading["fetch.min.bytes"],
            reading["fetch.max.bytes"],
            reading["max.partition.fetch.bytes"],
        ),
        producing=producing,
    )


def _client_settings(kafka: Mapping[str, str]) -> tuple[dict[str, int], dict[str, str]]:
    reading = dict(_READING)
    producing = {}
    for name, value in kafka.items():
        if name in _REFUSED:
            raise SettingsError(f"the option 'kafka.{name}' cannot be set: {_REFUSED[name]}")
        if name in _CHOICES:
            if value.lower() != _CHOICES[name].lower():
                raise SettingsError(f"'kafka.{name}' can only be {_CHOICES[name]!r} here, not {value!r}")
            continue
        if name in reading:
            reading[name] = _number(f"kafka.{name}", value)
        if name in ProducerSettings.TABLE:
            producing[name] = value
        elif name not in reading and name not in _KAFKA_IGNORED:
            known = [*reading, *ProducerSettings.TABLE, *_CHOICES, "bootstrap.servers"]
            raise SettingsError(f"there is no option 'kafka.{name}'{nearest(f'kafka.{name}', _prefixed(known))}")
    try:
        ProducerSettings.load(producing)
    except SettingsError as error:
        raise SettingsError(f"of the options kafka.…: {error}") from None
    return reading, producing


def _prefixed(names: Iterable[str]) -> list[str]:
    return [f"kafka.{name}" for name in names]


def _subscription(
    named: Mapping[str, str],
) -> tuple[tuple[str, ...] | None, str | None, Mapping[str, tuple[int, ...]] | None]:
    chosen = [name for name in _SUBSCRIPTIONS if name in named]
    if len(chosen) > 1:
        raise SettingsError(
            f"only one of subscribe, subscribePattern and assign can be given, not {' and '.join(chosen)}"
        )
    if not chosen:
        return None, None, None
    (name,) = chosen
    value = named[name]
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
        if not topics:
            raise SettingsError("subscribe names no topic: name some, with commas between")
        return topics, None, None
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise SettingsError(f"subscribePattern {value!r} is no regular expression: {error}") from None
        return None, value, None
    assigned = _parsed(name, value, '{"topic":[0,1]}', lambda entry: tuple(int(index) for index in entry))
    if not any(assigned.values()):
        raise SettingsError("assign names no partition")
    return None, None, assigned


def _where(named: Mapping[str, str], names: tuple[str, str, str], latest_if_none: bool) -> Where | None:
    """As in Spark a time for all is stronger than times for each, and both are stronger than offsets."""
    time, times, offsets = names
    if time in named:
        return Where(all=_number(time, named[time], low=0), by_time=True, latest_if_none=latest_if_none)
    if times in named:
        return Where(each=_each(times, named[times]), by_time=True, latest_if_none=latest_if_none)
    if offsets not in named:
        return None
    words = {"earliest": EARLIEST, "latest": LATEST}
    text = named[offsets].strip()
    if text.lower() in words:
        return Where(all=words[text.lower()])
    if not text.startswith("{"):
        raise SettingsError(
            f'{offsets} is "earliest", "latest" or JSON like {{"topic":{{"0":23,"1":-2}}}}, not {text!r}'
        )
    each = _each(offsets, text)
    if any(offset < EARLIEST for offset in each.values()):
        raise SettingsError(f"{offsets} holds a number below -2: -2 is the earliest offset, -1 the latest")
    return Where(each=each)


def _places(where: Where) -> set[int]:
    return {where.all} if where.all is not None else set((where.each or {}).values())


def _each(name: str, text: str) -> dict[TopicPartition, int]:
    example = '{"topic":{"0":23,"1":-2}}'
    topics = _parsed(name, text, example, lambda entry: {int(index): int(at) for index, at in entry.items()})
    return {(topic, index): at for topic, indices in topics.items() for index, at in indices.items()}


def _parsed(name: str, text: str, example: str, read: Callable[[Any], Any]) -> dict[str, Any]:
    try:
        return {str(topic): read(entry) for topic, entry in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise SettingsError(f"{name} is no JSON like {example}: {text!r}") from None


def _number(name: str, text: str, low: int = 1) -> int:
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(f"{name} is a whole number, not {text!r}") from None
    if number < low:
        raise SettingsError(f"{name} must be at least {low}, not {number}")
    return number


def _flag(named: Mapping[str, str], name: str, default: bool) -> bool:
    return _choice(named, name, str(default).lower(), ("true", "false")) == "true"


def _choice(named: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    value = named.get(name, default).strip().lower()
    if value not in choices:
        raise SettingsError(f"{name} is {' or '.join(choices)}, not {named[name]!r}")
    return value


def _duration(name: str, text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|min|m|h|)\s*", text.lower())
    if not found:
        raise SettingsError(f"{name} is a time like 15m or 30s, not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2]]
