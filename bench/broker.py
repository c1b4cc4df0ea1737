"""Measure one broker on one core: every case of the table of figures, side by side, with its own processor time.

python -P bench/broker.py [--quick] [--json] [--only CASE ...] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from bench.load import fetching, producing, results, standing
from bench.load.machine import CLIENT_CORE, describe, on_cores, prefer, yardstick_us
from bench.load.measure import Outcome
from bench.load.report import show
from bench.load.target import broker

CASES = (*standing.CASES[:1], *producing.CASES, *fetching.CASES, *standing.CASES[1:])


def main() -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter cases: two minutes in all")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--only", action="append", choices=names, help="this case; may be given several times")
    parser.add_argument("--repeat", type=int, help="so many runs of each case; the median is shown")
    parser.add_argument("--dir", type=Path, help="put the broker's data under this folder")
    parser.add_argument("--nice", type=int, default=0, help="priority on a shared machine; below 0 needs root")
    results.add_option(parser)
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.only or case.name in options.only]
    machine = describe()
    progress = Console(stderr=True)
    outcomes = []
    with on_cores(CLIENT_CORE), broker(options.quick, options.dir, options.nice) as target:
        prefer(os.getpid(), options.nice)
        target.restart()  # now on a core of its own
        for case in chosen:
            with progress.status(case.title):
                runs = [case.run(target) for _ in range(options.repeat or case.repeats)]
                outcomes.append(Outcome(case, runs, yardstick_us()))
    lines = [line for outcome in outcomes for line in outcome.lines()]
    results.keep_run(lines, options)
    if options.json:
        print(results.text(lines))
    else:
        show(outcomes, machine, Console(width=None if sys.stdout.isatty() else 140))
    progress.print(f"[dim]every run is in {options.results}[/dim]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
