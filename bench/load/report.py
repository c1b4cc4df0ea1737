"""What was measured, as a table to look at and as JSON lines to keep."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.load.measure import Goal, Outcome

RESULTS = Path(__file__).resolve().parents[1] / "results"


def number(value: float) -> str:
    """Three significant digits, in the way people write them."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def cpu(outcome: Outcome) -> str:
    seconds = outcome.cpu_per_unit
    unit = outcome.samples[0].unit
    each = f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e6:.2f} µs"
    return f"{each} a {unit}, busy {outcome.busy:.0%}"


def show(outcomes: list[Outcome], machine: dict[str, Any], console: Console) -> None:
    table = Table(title=f"One broker on one core of {machine['cores']} ({machine['cpu']}, Python {machine['python']})")
    for column in ("case", "measured (best)", "goal", "", "broker CPU"):
        table.add_column(column, justify="left" if column in ("case", "") else "right")
    for outcome in outcomes:
        for row, goal in enumerate(outcome.case.goals):
            table.add_row(
                outcome.case.title if row == 0 else "", *_cells(outcome, goal), cpu(outcome) if row == 0 else ""
            )
        if note := outcome.samples[-1].note:
            table.add_row(f"  [dim]{note}[/dim]", "", "", "", "")
    yardsticks = [outcome.yardstick_us for outcome in outcomes]
    table.caption = (
        f"a bare send and recv over loopback took {min(yardsticks):.1f} to {max(yardsticks):.1f} µs of CPU meanwhile"
    )
    console.print(table)


def _cells(outcome: Outcome, goal: Goal) -> tuple[str, str, str]:
    value = outcome.median(goal.figure)
    measured = f"{number(value)} {goal.unit}"
    if len(outcome.samples) > 1:
        measured += f" ({number(outcome.best(goal))})"
    if goal.reach is None:
        return measured, "", ""
    sign = "≥" if goal.more_is_better else "≤"
    mark = "[green]reached[/green]" if goal.reached(value) else "[yellow]short[/yellow]"
    return measured, f"{sign} {number(goal.reach)}", mark


def lines(outcomes: list[Outcome], machine: dict[str, Any]) -> list[str]:
    """One JSON object a case, with every run of it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return [
        json.dumps(
            {
                "time": now,
                "case": outcome.case.name,
                "goals": [
                    {
                        "figure": goal.figure,
                        "unit": goal.unit,
                        "median": outcome.median(goal.figure),
                        "reach": goal.reach,
                        "reached": goal.reached(outcome.median(goal.figure)),
                    }
                    for goal in outcome.case.goals
                ],
                "runs": [
                    {"values": run.values, "broker_cpu_s": run.cpu_s, "wall_s": run.wall_s, run.unit: run.units}
                    for run in outcome.samples
                ],
                "yardstick_us": outcome.yardstick_us,
                "machine": machine,
            }
        )
        for outcome in outcomes
    ]


def keep(text: list[str]) -> Path:
    """Append the lines to the results of this kind of run, which git does not track."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "broker.jsonl"
    with open(path, "a") as file:
        file.writelines(line + "\n" for line in text)
    return path
