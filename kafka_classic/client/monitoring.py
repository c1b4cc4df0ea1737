"""Monitoring events (P25): what a producer or a member of a group says of one topic and one window of time.

They are JSON in the topic `__audit`, to be read with any consumer. The key is the event's id; a later event of the same
id replaces the earlier one, so publishing one again changes nothing, and the topic may be compacted.

    (opened before the window's first message is sent) --> open --> closed --(late messages)--> open --> closed

A window that is open was not counted to its end: its producer is at work, or died. No audit calls it complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.spans import Run
from kafka_classic.client.tally import Tally
from kafka_classic.client.topics import NewTopic, create_topics
from kafka_classic.wire.errors import Error, KafkaError

TOPIC = "__audit"
WINDOW_MS = 60_000
PRODUCER = "producer"
GROUP = "group"
_FORMAT = 1
_REPLICAS = 3
_PARTITIONS = 1


@dataclass(slots=True)
class Share:
    """What an event says of one partition and producer id.

    `tally` is of what was acknowledged, or with acks=0 sent. What was given up may be in the log or not (`failed`);
    what was sent again under other numbers (`replaced`) would be a double if it were there too.
    """

    partition: int
    producer: int
    tally: Tally = field(default_factory=Tally)
    failed: list[Run] = field(default_factory=list)
    replaced: list[Run] = field(default_factory=list)
    late: int = 0  # messages that came after the window had been closed

    def to_json(self) -> dict[str, Any]:
        found = {"partition": self.partition, "producer": self.producer, **self.tally.to_json()}
        if self.late:
            found["late"] = self.late
        for name in ("failed", "replaced"):
            if runs := getattr(self, name):
                found[name] = [list(run) for run in runs]
        return found

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Share:
        failed, replaced = ([Run._make(map(int, run)) for run in told.get(name, ())] for name in ("failed", "replaced"))
        return cls(
            int(told["partition"]), int(told["producer"]), Tally.from_json(told), failed, replaced, told.get("late", 0)
        )


@dataclass(slots=True)
class Tenure:
    """How long a member of a group read a partition: `upto` is what it had processed when it last said so."""

    partition: int
    begin: int
    upto: int
    ended: bool = False

    def to_json(self) -> list[int]:
        return [self.partition, self.begin, self.upto, int(self.ended)]

    @classmethod
    def from_json(cls, told: Any) -> Tenure:
        return cls(int(told[0]), int(told[1]), int(told[2]), bool(told[3]))


@dataclass(slots=True)
class Event:
    """What `source` counted of a topic in the window that begins at `window` (milliseconds since 1970)."""

    tier: str
    source: str
    topic: str
    window: int
    window_ms: int
    state: str  # open or closed
    revision: int
    producers: list[int] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    server: str = ""
    client: str = ""
    acks: str = ""
    group: str = ""
    published: int = 0
    # Events of a group's members: a window of -1 tells of whole partitions in place of one window.
    tenures: list[Tenure] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.tier}/{self.source}/{self.topic}/{self.window}"

    @property
    def closed(self) -> bool:
        return self.state == "closed"

    def encode(self) -> tuple[bytes, bytes]:
        """The key and the value of the event's message."""
        told: dict[str, Any] = {
            "v": _FORMAT,
            "tier": self.tier,
            "source": self.source,
            "server": self.server,
            "client": self.client,
            "topic": self.topic,
            "window": self.window,
            "window_ms": self.window_ms,
            "state": self.state,
            "revision": self.revision,
            "published": self.published,
            "count": sum(share.tally.count for share in self.shares),
            "bytes": sum(share.tally.bytes for share in self.shares),
        }
        for name in ("acks", "group", "producers"):
            if getattr(self, name):
                told[name] = getattr(self, name)
        told["partitions"] = [share.to_json() for share in self.shares]
        if self.tenures:
            told["tenures"] = [tenure.to_json() for tenure in self.tenures]
        return self.id.encode(), json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Event:
        """Raises ValueError where this is no event of ours."""
        try:
            told = json.loads(value)
            if told["v"] != _FORMAT:
                raise ValueError(f"a monitoring event of format {told['v']}: only {_FORMAT} is known")
            return cls(
                tier=str(told["tier"]),
                source=str(told["source"]),
                topic=str(told["topic"]),
                window=int(told["window"]),
                window_ms=int(told["window_ms"]),
                state=str(told["state"]),
                revision=int(told["revision"]),
                producers=[int(one) for one in told.get("producers", ())],
                shares=[Share.from_json(one) for one in told["partitions"]],
                server=str(told.get("server", "")),
                client=str(told.get("client", "")),
                acks=str(told.get("acks", "")),
                group=str(told.get("group", "")),
                published=int(told.get("published", 0)),
                tenures=[Tenure.from_json(one) for one in told.get("tenures", ())],
            )
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise ValueError(f"no monitoring event: {error}") from error


def latest(events: Iterable[Event]) -> list[Event]:
    """Each event once, in its last revision, whatever the order in which they were met."""
    found: dict[str, Event] = {}
    for event in events:
        known = found.get(event.id)
        if known is None or known.revision < event.revision:
            found[event.id] = event
    return list(found.values())


def ensure_topic(cluster: Cluster) -> None:
    """Create `__audit` if it is not there: one partition, on three brokers or as many as there are."""
    try:
        cluster.topic(TOPIC)
    except UnknownTopic:
        replicas = min(_REPLICAS, max(1, len(cluster.brokers())))
        configs = {"retention.ms": str(90 * 24 * 3600 * 1000)}
        if replicas >= _REPLICAS:
            configs["min.insync.replicas"] = "2"
        try:
            create_topics(cluster, [NewTopic(TOPIC, _PARTITIONS, replicas, configs)])
        except KafkaError as error:
            if error.code != Error.topic_already_exists:
                raise
