"""What was measured of one broker, as a table to look at."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bench.load.measure import Goal, Outcome


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
