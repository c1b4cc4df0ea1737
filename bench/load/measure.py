"""What is measured: a case, its figures with the goal of each, and the broker's processor time while it ran."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.load.target import Target


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of a case and how far it should reach."""

    figure: str
    unit: str
    reach: float | None = None
    more_is_better: bool = True

    def reached(self, value: float) -> bool | None:
        if self.reach is None:
            return None
        return value >= self.reach if self.more_is_better else value <= self.reach


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a case: its figures, the broker's processor time and the wall time, and for how many units."""

    values: dict[str, float]
    cpu_s: float
    wall_s: float
    units: float
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    goals: tuple[Goal, ...]
    run: Callable[[Target], Sample]
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of a case. The median speaks for them: the machine is shared, and one run may meet another's load."""

    case: Case
    samples: list[Sample]
    yardstick_us: float

    def median(self, figure: str) -> float:
        return statistics.median(sample.values[figure] for sample in self.samples)

    def best(self, goal: Goal) -> float:
        return (max if goal.more_is_better else min)(sample.values[goal.figure] for sample in self.samples)

    @property
    def busy(self) -> float:
        """The share of the wall time that the broker ran: well below 1, its clients were the limit."""
        return statistics.median(sample.cpu_s / sample.wall_s for sample in self.samples)

    @property
    def cpu_per_unit(self) -> float:
        return statistics.median(sample.cpu_s / sample.units for sample in self.samples)


class Meter:
    """Takes the broker's processor time and the wall time of a block."""

    def __init__(self, pid: int) -> None:
        # The process's own clock: user and system time of all threads, which /proc/PID/stat has in steps of 10 ms.
        self._clock = (~pid << 3) | 2
        self.cpu_s = self.wall_s = 0.0

    def __enter__(self) -> Meter:
        self._cpu = time.clock_gettime(self._clock)
        self._wall = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = time.clock_gettime(self._clock) - self._cpu


def memory_kb(pid: int, field: str) -> int:
    """Return VmRSS, VmHWM, RssAnon … of a process, in KB."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"process {pid} has no {field}: it has ended")
    return int(found.group(1))


def forget_peak(pid: int) -> None:
    """Let VmHWM begin anew from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
