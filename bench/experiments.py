"""The experiments that concern our own brokers alone: latency, partitions, clients, codecs, replicas, sendfile, idle.

    python -P bench/experiments.py --quick --only replicas --only codecs
    python -P bench/draw.py bench/results/experiments.jsonl --to figures

Servers and clients share all cores. The cases of an experiment take turns; a figure is the median of its runs, with the
lowest and the highest. Everything is appended to --results as JSON lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load import results
from bench.load.report import number
from bench.load.results import Line
from bench.load.setting import Setting
from bench.ours import clients, codecs, idle, latency, partitions, replicas, transfer

EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Line]]] = {
    "latency": latency.run,
    "partitions": partitions.run,
    "clients": clients.run,
    "codecs": codecs.run,
    "replicas": replicas.run,
    "transfer": transfer.run,
    "idle": idle.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quick", action="store_true", help="short runs: under three minutes in all")
    form.add_argument("--full", action="store_true", help="the long form, which is the default")
    parser.add_argument("--only", action="append", choices=EXPERIMENTS, help="this one; may be given several times")
    parser.add_argument("--repeats", type=int, help="runs of each case: 3 if quick, else 5")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--dir", type=Path, help="put the servers' data under this folder")
    results.add_option(parser)
    options = parser.parse_args()
    progress = Console(stderr=True, highlight=False)
    found: list[Line] = []
    try:
        for name in options.only or EXPERIMENTS:
            began = time.monotonic()

            def tell(words: str, name: str = name, began: float = began) -> None:
                progress.print(f"[dim]{time.monotonic() - began:5.0f} s  {name}: {words}[/dim]")

            repeats = options.repeats or (3 if options.quick else 5)
            found += EXPERIMENTS[name](Setting(options.quick, repeats, options.dir, tell))
    finally:
        if found:  # also when a later one failed: the long form takes long
            results.keep_run(found, options)
    if options.json:
        print(results.text(found))
    else:
        Console(width=None if sys.stdout.isatty() else 170).print(table(found))
    progress.print(f"[dim]every run is in {options.results}[/dim]")
    return 0


def table(lines: list[Line]) -> Table:
    columns = ("experiment", "case", "subject", "median", "low to high", "goal", "µs of servers", "of clients")
    shown = Table(*columns)
    for column in shown.columns[3:]:
        column.justify = "right"
    for line in lines:
        goal = "" if line.goal is None else f"{number(line.goal)} {'reached' if line.reached else 'missed'}"
        shown.add_row(
            line.experiment,
            ", ".join(f"{name} {value}" for name, value in line.case.items() if name != "messages"),
            line.subject,
            f"{number(line.median)} {line.unit}",
            f"{number(min(line.runs))} to {number(max(line.runs))}",
            goal,
            *(number(median(cpu)) if cpu else "" for cpu in (line.server_cpu_us, line.client_cpu_us)),
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
