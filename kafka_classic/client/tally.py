"""A tally: what one tier counted of one producer's messages in one partition and one window of time.

Tallies add up in any order, whoever counted the parts: tasks, files, members of a group. So the audit's tiers differ
only in where they count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_classic.client.fingerprint import NOTHING, Fingerprint
from kafka_classic.client.spans import Run, in_order

NOBODY = -1  # the producer id of messages whose producer numbers nothing


class Line(NamedTuple):
    """One producer's messages in one partition: they have an order, and names that do not repeat."""

    topic: str
    partition: int
    producer: int


@dataclass(slots=True)
class Tally:
    """`content` is over messages, `batches` over the CRCs of whole batches as their producer made them; None: unknown.

    `slowest` and `delays` (a sum over messages) are milliseconds from a message's timestamp to its arrival here.
    """

    count: int = 0
    bytes: int = 0
    runs: list[Run] = field(default_factory=list)
    content: Fingerprint | None = NOTHING
    batches: Fingerprint | None = NOTHING
    slowest: int = 0
    delays: int = 0
    damaged: int = 0  # messages in batches whose checksum is wrong
    broken: list[tuple[int, int]] = field(default_factory=list)  # the first and the last offset of each of these

    def add(self, other: Tally) -> None:
        self.count += other.count
        self.bytes += other.bytes
        self.runs = in_order([*self.runs, *other.runs])
        self.content = _both(self.content, other.content)
        self.batches = _both(self.batches, other.batches)
        self.slowest = max(self.slowest, other.slowest)
        self.delays += other.delays
        self.damaged += other.damaged
        self.broken = sorted([*self.broken, *other.broken])

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"count": self.count, "bytes": self.bytes, "runs": [list(run) for run in self.runs]}
        if self.content is not None:
            found["content"] = self.content.to_json()
        if self.batches is not None:
            found["batches"] = self.batches.to_json()
        if self.slowest or self.delays:
            found["slowest"], found["delays"] = self.slowest, self.delays
        return found

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Tally:
        return cls(
            int(told["count"]),
            int(told["bytes"]),
            [Run._make(map(int, run)) for run in told["runs"]],
            Fingerprint.from_json(told["content"]) if "content" in told else None,
            Fingerprint.from_json(told["batches"]) if "batches" in told else None,
            int(told.get("slowest", 0)),
            int(told.get("delays", 0)),
        )


def _both(one: Fingerprint | None, other: Fingerprint | None) -> Fingerprint | None:
    return None if one is None or other is None else one.plus(other)
