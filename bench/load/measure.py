"""What is measured: a case, its figures with the goal of each, and the processor time of servers and clients."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from bench.load import results

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
    """One run of a case: its figures, the servers' processor time and the wall time, and for how many units."""

    values: dict[str, float]
    cpu_s: float
    wall_s: float
    units: float
    unit: str
    note: str = ""
    client_cpu_s: float = 0.0


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

    def lines(self) -> list[results.Line]:
        """With the yardstick, by which runs on a shared machine are judged."""
        found = lines_of("broker", "kafka-classic", {"case": self.case.name}, self.case.goals, self.samples)
        yardstick = f"a bare send and recv over loopback took {self.yardstick_us:.2f} µs of CPU"
        return [replace(line, note=f"{line.note}; {yardstick}".strip("; ")) for line in found]

    @property
    def cpu_per_unit(self) -> float:
        return statistics.median(sample.cpu_s / sample.units for sample in self.samples)


def lines_of(
    experiment: str, subject: str, case: results.Case, goals: Sequence[Goal], samples: Sequence[Sample]
) -> list[results.Line]:
    """A line for each figure of a case, which names the figure if there are several."""
    return [
        results.Line(
            experiment,
            subject,
            case if len(goals) == 1 else {**case, "figure": goal.figure},
            goal.unit,
            [sample.values[goal.figure] for sample in samples],
            goal.more_is_better,
            [sample.cpu_s / sample.units * 1e6 for sample in samples],
            [sample.client_cpu_s / sample.units * 1e6 for sample in samples if sample.client_cpu_s],
            goal=goal.reach,
            note=samples[-1].note,
        )
        for goal in goals
    ]


class Meter:
    """Takes the servers' processor time, this process's own as that of the clients, and the wall time of a block."""

    def __init__(self, *pids: int) -> None:
        # The process's own clock: user and system time of all threads, which /proc/PID/stat has in steps of 10 ms.
        self._clocks = [(~pid << 3) | 2 for pid in pids]
        self.cpu_s = self.client_cpu_s = self.wall_s = 0.0

    def _used(self) -> float:
        return sum(map(time.clock_gettime, self._clocks))

    def __enter__(self) -> Meter:
        self._cpu, self._own = self._used(), time.process_time()
        self._wall = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = self._used() - self._cpu
        self.client_cpu_s = time.process_time() - self._own

    def sample(self, values: dict[str, float], units: float, unit: str = "message", note: str = "") -> Sample:
        return Sample(values, self.cpu_s, self.wall_s, units, unit, note, self.client_cpu_s)


def memory_kb(pid: int, field: str, file: str = "status") -> int:
    """Return VmRSS, VmHWM, RssAnon … of a process, in KB; Pss, which shares pages out, is in `smaps_rollup`."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"process {pid} has no {field}: it has ended")
    return int(found.group(1))


def forget_peak(pid: int) -> None:
    """Let VmHWM begin anew from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
