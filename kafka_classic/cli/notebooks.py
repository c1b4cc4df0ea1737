"""`kafka-classic notebooks`: put the walk through the paper where it can be read and run."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from kafka_classic.cli.failure import CommandFailed


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic notebooks --copy walk && jupyter lab walk[/bold]")(notebooks)


def notebooks(
    copy: Annotated[
        Path | None, typer.Option("--copy", metavar="DIR", help="Copy them into this folder; none is overwritten.")
    ] = None,
) -> None:
    """List the notebooks that walk through the paper, or copy them; to run them, install 'kafka-classic[notebooks]'."""
    found = sorted(
        (file for file in files("kafka_classic.notebooks").iterdir() if file.name.endswith(".ipynb")),
        key=lambda file: file.name,
    )
    if copy is None:
        for file in found:
            print(file.name)
        return
    there = [file.name for file in found if (copy / file.name).exists()]
    if there:
        raise CommandFailed(f"{copy} holds {', '.join(there)} already", "a new folder")
    copy.mkdir(parents=True, exist_ok=True)
    for file in found:
        (copy / file.name).write_bytes(file.read_bytes())
        print(copy / file.name)
