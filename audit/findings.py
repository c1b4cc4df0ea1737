"""What an audit finds: a verdict for each tier of each cell, and the cells' names of what is wrong.

A *cell* is one producer's messages of one topic and one window. At each tier it is

    complete   every message that was published is there once, as it was
    damaged    something is certainly missing, doubled, altered or out of order
    unknown    not decidable now, and `why` says so; never taken for complete
    passed     not counted, but a group of consumers went past all of it, by the offsets it committed
    counted    counted, with nothing to compare it with: the messages of clients that publish no monitoring events
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    COMPLETE = "complete"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"
    PASSED = "passed"
    COUNTED = "counted"


class Kind(StrEnum):
    MISSING = "missing"
    DOUBLED = "doubled"
    EXTRA = "extra"  # under a number that its producer never gave
    ALTERED = "altered"
    DISORDERED = "disordered"
    DELETED = "deleted"  # by retention, or DeleteRecords: nobody can tell any more whether it was there


DAMAGE = (Kind.MISSING, Kind.DOUBLED, Kind.EXTRA, Kind.ALTERED, Kind.DISORDERED)


@dataclass(slots=True, frozen=True)
class Finding:
    """Messages `first` up to, not including, `next`, by their producer's numbers; by offset where epoch is -1.

    They lie, or would lie, within the offsets `low` to `high`; -1 where that is not known.
    """

    kind: Kind
    partition: int
    epoch: int
    first: int
    next: int
    low: int = -1
    high: int = -1

    @property
    def size(self) -> int:
        return self.next - self.first


@dataclass(slots=True)
class AtTier:
    """One cell at one tier.

    `altered` counts messages whose checksum is wrong; where only a fingerprint differs, 1. `disordered` counts places
    where a lower number follows a higher one.
    """

    verdict: Verdict = Verdict.COMPLETE
    expected: int = 0
    count: int = 0
    bytes: int = 0
    missing: int = 0
    doubled: int = 0
    extra: int = 0
    altered: int = 0
    disordered: int = 0
    deleted: int = 0
    again: int = 0  # read again by a group: at least once, and no damage
    compared: bool = False  # contents were compared as well, not only names
    why: str = ""
    slowest: int = 0  # milliseconds from the message's timestamp to its arrival at this tier
    mean_delay: int = 0
    findings: list[Finding] = field(default_factory=list)

    def unknown(self, why: str) -> None:
        if self.verdict is not Verdict.DAMAGED:
            self.verdict = Verdict.UNKNOWN
        if why not in self.why:
            self.why = f"{self.why}; {why}" if self.why else why

    def found(self, kind: Kind, count: int, findings: list[Finding]) -> None:
        if not count:
            return
        setattr(self, kind.value, getattr(self, kind.value) + count)
        self.findings += findings
        if kind in DAMAGE:
            self.verdict = Verdict.DAMAGED


@dataclass(slots=True)
class Cell:
    """A cell with all its tiers, `producer` among them."""

    topic: str
    window: int
    window_ms: int
    producer: int
    server: str
    client: str
    published: int
    late: int = 0
    bytes: int = 0
    tiers: dict[str, AtTier] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return worst(tier.verdict for tier in self.tiers.values())

    @property
    def maker(self) -> str:
        """Who made the messages, as people say it."""
        if self.server:
            return f"{self.server}/{self.client} ({self.producer})"
        return f"producer {self.producer}" if self.producer >= 0 else "clients without a producer id"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.value, "maker": self.maker}


_RISING = (Verdict.COUNTED, Verdict.PASSED, Verdict.COMPLETE, Verdict.UNKNOWN, Verdict.DAMAGED)
_RANK = {verdict: rank for rank, verdict in enumerate(_RISING)}


def worst(verdicts: Any) -> Verdict:
    """Damage is certain, so it outweighs what is unknown; what is unknown outweighs what is complete."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.COUNTED)
