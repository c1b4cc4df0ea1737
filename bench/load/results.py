"""What an experiment gave, as JSON lines: every run, processor time of servers and clients apart, ratios to the peers.

One line is one *case* of an experiment for one *subject*: `produce`, batch 50, RabbitMQ. All lines of one run of a
program bear the same `run`, and a ratio is only ever taken within a run: machines differ, and so do hours.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.load.machine import describe

RESULTS = Path(__file__).resolve().parents[1] / "results"

Case = dict[str, str | int | float]
# What every kept line has, and who reads one relies on.
NEEDED = {"run", "experiment", "subject", "case", "unit", "runs", "more_is_better", "median", "low", "high", "machine"}


@dataclass(frozen=True, slots=True)
class Line:
    """A case for one subject. `runs` has at least three values where the figure is to be believed."""

    experiment: str
    subject: str
    case: Case
    unit: str
    runs: list[float]
    more_is_better: bool = True
    server_cpu_us: list[float] = field(default_factory=list)  # of a message (or what the unit counts), run by run
    client_cpu_us: list[float] = field(default_factory=list)
    series: list[tuple[float, float]] = field(default_factory=list)  # over time (s, value), of the median run
    goal: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return median(self.runs)

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.median >= self.goal if self.more_is_better else self.median <= self.goal


def row(experiment: str, name: str, figure: float, unit: str, subject: str = "kafka-classic") -> Line:
    """A figure of a program that takes one of each: its unit says whether more is better."""
    more_is_better = "/s" in unit or "a second" in unit
    return Line(experiment, subject, {"case": name}, unit, [figure], more_is_better)


def rows(experiment: str, table: Iterable[tuple[str, float, str]]) -> list[Line]:
    """The rows of a table, name, figure and unit; one that is indented belongs to the last that is not."""
    found, above = [], ""
    for name, figure, unit in table:
        indented = name.startswith(" ")
        above = above if indented else name
        found.append(row(experiment, f"{above}: {name.strip()}" if indented else name, figure, unit))
    return found


def ratios(line: Line, others: Iterable[Line]) -> dict[str, float]:
    """How many times as much as each other subject in the same case, by their medians."""
    same = (o for o in others if (o.experiment, o.case) == (line.experiment, line.case) and o.subject != line.subject)
    return {other.subject: line.median / other.median for other in same if other.median}


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a program's user say where its lines go; else to a file of the program's own, which git does not track."""
    own = RESULTS / f"{Path(sys.argv[0]).stem}.jsonl"
    parser.add_argument(
        "--results", type=Path, metavar="FILE", default=own, help="append JSON lines here, else to bench/results"
    )


def keep_run(lines: list[Line], options: argparse.Namespace) -> None:
    """Append the lines of a program's run, with the machine, and whether it was the quick form."""
    keep(lines, {**describe(), "quick": bool(getattr(options, "quick", False))}, options.results)


def keep(lines: list[Line], machine: dict[str, Any], path: Path) -> None:
    """Append the lines of one run to a file."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.writelines(json.dumps({"run": now, **whole(line, lines), "machine": machine}) + "\n" for line in lines)


def whole(line: Line, others: Iterable[Line]) -> dict[str, Any]:
    """A line with what follows from it."""
    about = {"median": line.median, "low": min(line.runs), "high": max(line.runs), "reached": line.reached}
    return {**asdict(line), **about, "ratio": ratios(line, others)}


def text(lines: list[Line]) -> str:
    """The lines of this run, to print."""
    return "\n".join(json.dumps(whole(line, lines)) for line in lines)


class NotResults(ValueError):
    """A file that is not there, holds something else than such lines, or has not the run that was asked for."""


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, oldest run first."""
    try:
        found = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except OSError as error:
        raise NotResults(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise NotResults(f"{path}: not JSON lines ({error})") from None
    if not found:
        raise NotResults(f"{path}: no lines")
    for number, line in enumerate(found, 1):
        if not isinstance(line, dict) or not line.keys() >= NEEDED:
            raise NotResults(f"{path}, line {number}: not a line of results, which have {', '.join(sorted(NEEDED))}")
    return found


def read_run(name: str) -> list[dict[str, Any]]:
    """The lines of one run: of the last in FILE, or of RUN in FILE@RUN, which may be told by its beginning."""
    path, _, wanted = (name, "", "") if Path(name).exists() else name.partition("@")
    lines = read(Path(path))
    runs = list(dict.fromkeys(line["run"] for line in lines))
    fitting = [run for run in runs if run.startswith(wanted)]
    if not fitting:
        raise NotResults(f"{path}: no run {wanted}; there are {', '.join(runs)}")
    return [line for line in lines if line["run"] == fitting[-1]]
