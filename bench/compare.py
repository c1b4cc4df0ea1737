"""Tell what changed between two runs beyond the noise: per case both medians, the change, and a verdict.

    python -P bench/compare.py before.jsonl after.jsonl
    python -P bench/compare.py bench/results/broker.jsonl@2026-11-01 bench/results/broker.jsonl --json

Each is a file of result lines, of which the last run counts, or FILE@RUN (also only its beginning). A case got better
or worse if the two medians differ by more than 5 % AND the intervals from the lowest to the highest of its runs do not
overlap: where nothing changed, that is so for 2 of the 20 orders that two times three values may have, and for 2 of 252
with five runs each, before the 5 % are asked for. Of fewer than three runs the spread says nothing: then 25 % are.

The exit code is 1 if something got worse, 0 if not, 2 if there is nothing to compare. Whatever the verdicts say,
figures of two machines, or of a quiet and a busy hour, are not comparable: differences of that kind are named.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load.report import number
from bench.load.results import NotResults, read_run

APART, APART_UNKNOWN_SPREAD = 0.05, 0.25
ENOUGH_RUNS = 3
Kept = Mapping[str, Any]


class Verdict(Enum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "within the noise"


class Compared(NamedTuple):
    """One case, before and after."""

    name: str
    before: Kept
    after: Kept
    change: float
    verdict: Verdict


def name(line: Kept) -> str:
    """What makes two lines comparable: experiment, subject, case and unit."""
    case = ", ".join(f"{key} {value}" for key, value in sorted(line["case"].items()))
    return f"{line['experiment']}: {case}; {line['subject']}, {line['unit']}"


def change(before: Kept, after: Kept) -> float:
    """By which share of the former median the new one differs from it."""
    if not before["median"]:
        return 0.0 if not after["median"] else float("inf")
    return float(after["median"] / before["median"] - 1)


def verdict(before: Kept, after: Kept) -> Verdict:
    known = min(len(before["runs"]), len(after["runs"])) >= ENOUGH_RUNS
    overlap = before["low"] <= after["high"] and after["low"] <= before["high"]
    by = change(before, after)
    if overlap or abs(by) <= (APART if known else APART_UNKNOWN_SPREAD):
        return Verdict.SAME
    return Verdict.BETTER if (by > 0) == before["more_is_better"] else Verdict.WORSE


def compare(before: Iterable[Kept], after: Iterable[Kept]) -> tuple[list[Compared], list[str], list[str]]:
    """The cases of both runs, and the names of those that only the one or the other has."""
    old, new = ({name(line): line for line in lines} for lines in (before, after))
    both = [
        Compared(at, old[at], new[at], change(old[at], new[at]), verdict(old[at], new[at])) for at in old if at in new
    ]
    return both, [at for at in old if at not in new], [at for at in new if at not in old]


def differences(before: Kept, after: Kept) -> list[str]:
    """What is not the same about the machines, the hours, or the forms of two runs."""
    a, b = before["machine"], after["machine"]
    return [f"{key}: {a.get(key)} before, {b.get(key)} after" for key in {**a, **b} if a.get(key) != b.get(key)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="A", help="FILE or FILE@RUN")
    parser.add_argument("after", metavar="B", help="FILE or FILE@RUN")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    options = parser.parse_args()
    try:
        before, after = read_run(options.before), read_run(options.after)
    except NotResults as error:
        return refuse(str(error))
    both, gone, new = compare(before, after)
    if not both:
        return refuse("no case is in both runs")
    other = differences(before[0], after[0])
    if options.json:
        print(json.dumps(in_json(both, gone, new, other), indent=1))
    else:
        show(both, gone, new, other, before[0]["run"], after[0]["run"])
    return 1 if any(one.verdict is Verdict.WORSE for one in both) else 0


def refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 2


def in_json(both: list[Compared], gone: list[str], new: list[str], other: list[str]) -> dict[str, Any]:
    figures = ("median", "low", "high")
    cases = [
        {
            **{key: one.before[key] for key in ("experiment", "subject", "case", "unit")},
            "before": {key: one.before[key] for key in figures},
            "after": {key: one.after[key] for key in figures},
            "change": one.change,
            "verdict": one.verdict.name.lower(),
        }
        for one in both
    ]
    return {"cases": cases, "only_before": gone, "only_after": new, "other_conditions": other}


COLOURS = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.SAME: "dim"}


def show(both: list[Compared], gone: list[str], new: list[str], other: list[str], *runs: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else 170, highlight=False)
    table = Table("case", *(f"{run}\n(low to high)" for run in runs), "change", "verdict")
    for column in table.columns[1:4]:
        column.justify = "right"
    for one in both:
        spreads = (
            f"{number(x['median'])} ({number(x['low'])} to {number(x['high'])})" for x in (one.before, one.after)
        )
        colour = COLOURS[one.verdict]
        table.add_row(one.name, *spreads, f"{one.change:+.1%}", f"[{colour}]{one.verdict.value}[/]")
    console.print(table)
    for words, names in (("only in A", gone), ("only in B", new), ("not the same conditions", other)):
        for one_name in names:
            console.print(f"{words}: {one_name}", markup=False)
    counts = {verdict: sum(one.verdict is verdict for one in both) for verdict in Verdict}
    console.print(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
