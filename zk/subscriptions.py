"""What a consumer registers itself with: the topics it wants, by name or by pattern, and in how many streams."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from kafka_classic.zk.znodes import Node

log = logging.getLogger(__name__)

Pattern = Literal["static", "white_list", "black_list"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """`streams` maps each topic to its number of streams; of a pattern the one key is the regular expression."""

    streams: Mapping[str, int]
    pattern: Pattern = "static"
    timestamp: int = 0

    def to_json(self) -> bytes:
        """Kafka 0.8's JSON, version 1."""
        value = {
            "version": 1,
            "subscription": dict(self.streams),
            "pattern": self.pattern,
            "timestamp": str(self.timestamp),
        }
        return json.dumps(value).encode()

    @classmethod
    def from_node(cls, consumer: str, node: Node) -> "Subscription":
        """What nobody can read counts as a subscription to nothing: one bad znode must not stop the whole group."""
        try:
            value = json.loads(node.data)
            pattern = value.get("pattern", "static")
            if pattern not in get_args(Pattern):
                raise ValueError(f"unknown pattern {pattern!r}")
            streams = {str(topic): int(count) for topic, count in value["subscription"].items()}
            return cls(streams, pattern, int(value.get("timestamp") or 0))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("consumer %s: its registration %r is not readable: %s", consumer, node.data, error)
            return cls({})
