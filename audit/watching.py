"""Audits again and again: what was found complete once is not counted anew.

A window that is complete at every tier stays so in the picture, until a monitoring event tells more of it. Each look
begins at the oldest window that is not complete, that may still change, or of which more was told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_classic.audit.findings import Cell, Verdict
from kafka_classic.audit.heard import Settled
from kafka_classic.audit.pipeline import Audit, Question, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT = 10_000


class Watch:
    """`question` says what to look at, asked anew each time: its beginning may move on."""

    def __init__(self, spark: SparkSession, question: Callable[[], Question]) -> None:
        self._spark = spark
        self._question = question
        self._settled: dict[tuple[str, int, int], Cell] = {}
        self._until: Settled | None = None

    def look(self) -> Audit:
        """Audit what is not settled, and return all of it."""
        asked = self._question()
        found = audit(self._spark, replace(asked, settled=self._until))
        known = {(cell.topic, cell.window, cell.producer): cell for cell in found.cells}
        before = {key: cell for key, cell in self._settled.items() if key[1] in asked.windows()}
        merged = {**before, **known}
        cells = sorted(merged.values(), key=lambda cell: (cell.topic, cell.window, cell.producer))
        until = settled_until(cells)
        self._until = None if until is None else Settled(until, found.told)
        self._settled = {key: cell for key, cell in merged.items() if until is not None and key[1] < until}
        return replace(found, question=asked, cells=cells[-_KEPT:])


def settled_until(cells: list[Cell]) -> int | None:
    """The first window that is not complete, or else the last one, which may get more; None if there is none."""
    open_windows = [cell.window for cell in cells if cell.verdict is not Verdict.COMPLETE]
    return min(open_windows, default=max((cell.window for cell in cells), default=None))
