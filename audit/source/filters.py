"""Filters of a query, as far as they spare reading: on topic, partition, offset, and the earliest timestamp.

Spark applies every filter again to what we return: here it may only be left out what cannot match.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kafka_classic.audit.source.plan import Range

_FOREVER = 1 << 63


class Pushed(NamedTuple):
    """What the filters leave: names and numbers that may match (None: all), offsets from `low` to below `high`."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    low: int = 0
    high: int = _FOREVER
    least_partition: int = 0
    most_partition: int = _FOREVER
    since_ms: int | None = None

    def inside(self, ranges: Iterable[Range]) -> list[Range]:
        """Return what is left to read of the ranges."""
        left = [
            one._replace(start=max(one.start, self.low), end=min(one.end, self.high))
            for one in ranges
            if (self.topics is None or one.topic in self.topics)
            and (self.partitions is None or one.partition in self.partitions)
            and self.least_partition <= one.partition <= self.most_partition
        ]
        return [one for one in left if one.size]


def push(filters: Iterable[Filter]) -> Pushed:
    """Return what all the filters together leave."""
    pushed = Pushed()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) == 1:
            pushed = _and(pushed, attribute[0], one)
    return pushed


def _and(pushed: Pushed, column: str, one: Filter) -> Pushed:
    if column == "timestamp":
        return _since(pushed, one)
    values = _equal_to(one)
    if column == "topic" and values is not None:
        return pushed._replace(topics=values if pushed.topics is None else pushed.topics & values)
    if column == "partition":
        if values is not None:
            return pushed._replace(partitions=values if pushed.partitions is None else pushed.partitions & values)
        low, high = _bounds(one)
        return pushed._replace(
            least_partition=max(pushed.least_partition, low), most_partition=min(pushed.most_partition, high - 1)
        )
    if column == "offset":
        low, high = (min(values), max(values) + 1) if values else (0, 0) if values is not None else _bounds(one)
        return pushed._replace(low=max(pushed.low, low), high=min(pushed.high, high))
    return pushed


def _equal_to(one: Filter) -> frozenset[Any] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        return frozenset({one.value} - {None})
    if isinstance(one, In):
        return frozenset(set(one.value) - {None})
    return None


def _bounds(one: Filter) -> tuple[int, int]:
    match one:
        case GreaterThan(_, value):
            return value + 1, _FOREVER
        case GreaterThanOrEqual(_, value):
            return value, _FOREVER
        case LessThan(_, value):
            return 0, value
        case LessThanOrEqual(_, value):
            return 0, value + 1
    return 0, _FOREVER


def _since(pushed: Pushed, one: Filter) -> Pushed:
    """A lower bound alone can be kept: after the first record that is late enough older ones may follow."""
    if isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo) and isinstance(one.value, datetime):
        since = int(one.value.timestamp() * 1000) - 1
        return pushed._replace(since_ms=max(pushed.since_ms or 0, since))
    return pushed
