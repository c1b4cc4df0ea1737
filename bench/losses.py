"""How to lose messages: run the three faults of kafka_classic.testing.losses and print how many records each cell lost.

python -P bench/losses.py [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load import results
from kafka_classic.testing.losses import ACKS, FAULTS, Cell, measure

WORDS = {
    "lagging": "leader killed, followers behind but in sync",
    "alone": "leader killed, alone in sync",
    "partition": "leader cut off, not from its clients",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON line a cell")
    results.add_option(parser)
    options = parser.parse_args()
    progress = Console(stderr=True)
    cells: dict[tuple[str, str, bool], Cell] = {}
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            with progress.status(WORDS[fault]):
                cells.update({(c.fault, c.acks, c.unclean): c for c in measure(Path(folder) / fault, fault)})
    lines = [
        results.row("losses", f"{c.fault}, acks={c.acks}, unclean={c.unclean}", c.lost, "records lost")
        for c in cells.values()
    ]
    results.keep_run(lines, options)
    if options.json:
        print("\n".join(json.dumps(cell._asdict()) for cell in cells.values()))
        return 0
    table = Table(title="Acknowledged records that were lost, of those acknowledged")
    table.add_column("fault")
    table.add_column("unclean election")
    for acks in ACKS:
        table.add_column(f"acks={acks}", justify="right")
    for fault in FAULTS:
        for unclean in (False, True):
            row = [cells[fault, acks, unclean] for acks in ACKS]
            words = [f"[{'red' if c.lost else 'green'}]{c.lost}[/] of {c.acknowledged}" for c in row]
            table.add_row("" if unclean else WORDS[fault], "on" if unclean else "off", *words)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
