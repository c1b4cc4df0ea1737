"""The tier of a consumer group: the events of its members, put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf

from kafka_classic.audit.judge import Bounds
from kafka_classic.client.monitoring import GROUP, Event, Tenure


def groups_of(events: Iterable[Event], topic: str) -> list[str]:
    """The groups that tell of a topic."""
    return sorted({event.group for event in events if event.tier == GROUP and event.topic == topic})


def bounds_of(events: Iterable[Event], group: str, topic: str) -> dict[int, Bounds]:
    """How far a group has come in each partition, and where a member left without saying how far it was."""
    tenures: dict[int, list[Tenure]] = defaultdict(list)
    for event in events:
        if event.tier == GROUP and event.group == group and event.topic == topic:
            for tenure in event.tenures:
                tenures[tenure.partition].append(tenure)
    return {partition: bounds(every) for partition, every in tenures.items()}


def bounds(tenures: list[Tenure]) -> Bounds:
    """A member that died may have done more than it told: up to where the next one began is doubtful."""
    doubtful = []
    for tenure in tenures:
        if not tenure.ended:
            after = min((other.begin for other in tenures if other.begin > tenure.upto), default=inf)
            if after < inf:
                doubtful.append((tenure.upto, int(after)))
    return Bounds(min(one.begin for one in tenures), max(one.upto for one in tenures), doubtful)
