"""Draw the figures of measured results, the paper's numbers marked, each with a caption that names the machine.

    python -P bench/draw.py bench/results/paper.jsonl bench/results/experiments.jsonl --to figures

Of an experiment that a file has several times, the last run is drawn; FILE@RUN draws that one.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.load.results import NotResults, read, read_run

WITHOUT = "matplotlib, which draws, is not installed: pip install 'kafka-classic[notebooks]', in a clone '.[notebooks]'"
INCH_LETTERS = 15.5  # letters of a caption on an inch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="lines of results, or FILE@RUN")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the figures go")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    options = parser.parse_args()
    try:
        from kafka_classic.notebooks import results
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        return refuse(WITHOUT)
    try:
        lines = [
            line for name in options.files for line in (read(Path(name)) if Path(name).exists() else read_run(name))
        ]
    except NotResults as error:
        return refuse(str(error))
    options.to.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for figure in results.figures(lines):
        path = options.to / f"{figure.name}.{options.format}"
        save(figure, path)
        print(path)
        drawn += 1
    known = results.FIGURES.keys()
    others = sorted({line["experiment"] for line in lines} - known)
    if others:
        print(f"no figure for: {', '.join(others)}", file=sys.stderr)
    return 0 if drawn else refuse("nothing to draw")


def save(drawn: Any, path: Path) -> None:
    """The figure with its caption below, which is also told to those who cannot see it."""
    fig = drawn.figure
    width = int(fig.get_figwidth() * INCH_LETTERS)
    fig.supxlabel("\n".join(textwrap.wrap(drawn.caption, width)), x=0.01, fontsize=8, horizontalalignment="left")
    about = {"Description": drawn.caption, **({"Date": None} if path.suffix == ".svg" else {})}
    fig.savefig(path, dpi=150, facecolor="white", metadata=about)


def refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
