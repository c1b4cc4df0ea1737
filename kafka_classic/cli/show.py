"""How a listing is printed: a rich table on a terminal, plain columns into a pipe, JSON when asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence


def as_json(value: object) -> None:
    """Prints a value as JSON that people and programs can read."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def as_line(value: Mapping[str, object]) -> str:
    """One JSON value on one line, for streams of them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Prints rows under column names; numbers stand at the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    numbers = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    if on_terminal():
        _rich_table(columns, cells, numbers, title)
        return
    # rich would fold long lines at 80 columns into a pipe, where grep and awk want one row a line.
    if title:
        print(title)
    for line in plain_lines(columns, cells, numbers):
        print(line)


def plain_lines(columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[str]:
    """The rows as aligned columns of plain text, the names first."""
    every = [list(columns), *[list(row) for row in cells]]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ).rstrip()
        for row in every
    ]


def count(number: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def on_terminal() -> bool:
    """Whether somebody looks at what is printed."""
    return sys.stdout.isatty()


def _rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name, number in zip(columns, numbers, strict=True):
        drawn.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*[Text(cell) for cell in row])
    Console(highlight=False).print(drawn)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ",".join(str(item) for item in cell)
    return str(cell)
