"""An audit in words and numbers: what people read on a terminal, and what scripts and the report read as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kafka_classic.audit.findings import DAMAGE, AtTier, Cell, Verdict, worst
from kafka_classic.audit.judge import LOG, PRODUCER
from kafka_classic.audit.pipeline import Audit

PAPER_OVERHEAD = 9  # P30


@dataclass(frozen=True, slots=True)
class Row:
    """A topic at a tier, over all windows and producers."""

    topic: str
    tier: str
    verdict: str
    cells: int
    unknown: int
    expected: int
    counted: int
    missing: int
    doubled: int
    altered: int
    other: int  # extra, out of order, deleted


def rows(cells: Sequence[Cell]) -> list[Row]:
    """The table of an audit: its topics with their tiers."""
    by_tier: dict[tuple[str, str], list[AtTier]] = defaultdict(list)
    for cell in cells:
        for tier, at in cell.tiers.items():
            by_tier[cell.topic, tier].append(at)
    return [_row(topic, tier, every) for (topic, tier), every in by_tier.items()]


def _row(topic: str, tier: str, every: list[AtTier]) -> Row:
    return Row(
        topic,
        tier,
        worst(at.verdict for at in every).value,
        len(every),
        sum(at.verdict is Verdict.UNKNOWN for at in every),
        sum(at.expected for at in every),
        sum(at.count for at in every),
        sum(at.missing for at in every),
        sum(at.doubled for at in every),
        sum(at.altered for at in every),
        sum(at.extra + at.disordered + at.deleted for at in every),
    )


def overhead(cells: Sequence[Cell]) -> float | None:
    """The bytes a message takes in the log beyond its key and value (P30), over what is complete there."""
    told = [(cell, cell.tiers[LOG]) for cell in cells if cell.published and LOG in cell.tiers]
    whole = [(cell, at) for cell, at in told if at.count == cell.published]
    count = sum(cell.published for cell, _ in whole)
    return (sum(at.bytes for _, at in whole) - sum(cell.bytes for cell, _ in whole)) / count if count else None


def sentence(audit: Audit) -> str:
    """The answer in one sentence, and which topics it does not speak of because they are gone."""
    return _answer(audit) + (f"; not audited, for they are no more: {', '.join(audit.gone)}" if audit.gone else "")


def _answer(audit: Audit) -> str:
    published = sum(cell.published for cell in audit.cells)
    windows = len({(cell.topic, cell.window) for cell in audit.cells})
    of = f"{published:,} published messages in {windows:,} {'window' if windows == 1 else 'windows'}"
    if audit.verdict is Verdict.COMPLETE:
        return f"complete: {of}, each counted at every tier, none missing, doubled or altered{_passed(audit)}"
    if audit.verdict is Verdict.DAMAGED:
        damage = Counter[str]()
        for cell in audit.cells:
            for at in cell.tiers.values():
                if at.verdict is not Verdict.DAMAGED:
                    continue  # what a dead producer never told of is unknown, whatever was counted
                damage += Counter({kind.value: getattr(at, kind.value) for kind in DAMAGE})
        return f"DAMAGED: {of}; " + ", ".join(f"{count:,} {kind}" for kind, count in damage.items())
    if audit.verdict is Verdict.UNKNOWN:
        unknown = sum(cell.verdict is Verdict.UNKNOWN for cell in audit.cells)
        return f"not decidable: {of}; {unknown:,} of {len(audit.cells):,} cells are unknown"
    return f"not decidable: nobody published monitoring events here; use Producer(…, audit=True){_passed(audit)}"


def _passed(audit: Audit) -> str:
    """Who was not counted, so that nobody takes his offsets for more than they say."""
    tiers = {tier for cell in audit.cells for tier, at in cell.tiers.items() if at.verdict is Verdict.PASSED}
    return "; passed, as far as offsets tell, by " + ", ".join(sorted(tiers)) if tiers else ""


def details(cells: Sequence[Cell], most: int = 20) -> Iterator[str]:
    """What is wrong where, the certain before the unknown; unknown cells of one reason share a line."""
    told = 0
    for cell in cells:
        for tier, at in cell.tiers.items():
            if at.verdict is Verdict.DAMAGED:
                told += 1
                if told <= most:
                    yield f"{cell.topic} {moment(cell.window)} {cell.maker}, {tier}: {damage_of(at)}"
                    yield from (f"  {_finding(finding)}" for finding in at.findings[:most])
    if told > most:
        yield f"… and {told - most} more damaged cells: --json or `audit report` tell all"
    why: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for cell in cells:
        for tier, at in cell.tiers.items():
            if at.verdict is Verdict.UNKNOWN and at.why:
                why[cell.topic, tier, cell.maker, at.why].append(cell.window)
    for place, ((topic, tier, maker, reason), windows) in enumerate(why.items()):
        if place == most:
            yield f"… and {len(why) - most} more"
            return
        when = moment(windows[0]) + (f" … {moment(windows[-1])}, {len(windows)} windows" if len(windows) > 1 else "")
        yield f"{topic} {when} {maker}, {tier}: unknown: {reason}"


def damage_of(at: AtTier) -> str:
    found = [f"{getattr(at, kind.value):,} {kind.value}" for kind in DAMAGE if getattr(at, kind.value)]
    return ", ".join(found) + f" of {at.expected:,}"


def moment(window: int) -> str:
    return datetime.fromtimestamp(window / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _finding(finding: Any) -> str:
    place = f"partition {finding.partition}"
    if finding.epoch >= 0:
        place += f", epoch {finding.epoch}, numbers {finding.first} to {finding.next - 1}"
    elif finding.next > finding.first:
        place += f", offsets {finding.first} to {finding.next - 1}"
    if finding.low >= 0 or finding.high >= 0:
        place += f" (within offsets {_known(finding.low)} to {_known(finding.high)})"
    return f"{finding.kind.value}: {place}"


def _known(offset: int) -> str:
    return str(offset) if offset >= 0 else "?"


def as_json(audit: Audit) -> dict[str, Any]:
    """Everything that was found."""
    question = audit.question
    return {
        "verdict": audit.verdict.value,
        "says": sentence(audit),
        "at": moment(audit.at),
        "bootstrap": question.bootstrap,
        "from": None if question.begin is None else moment(question.begin),
        "to": None if question.end is None else moment(question.end),
        "topics": audit.topics,
        "gone": list(audit.gone),
        "tiers": [PRODUCER, *audit.tiers],
        "seconds": round(audit.seconds, 3),
        "overhead_bytes": overhead(audit.cells),
        "paper_overhead_bytes": PAPER_OVERHEAD,
        "cells": [cell.to_json() for cell in audit.cells],
    }
