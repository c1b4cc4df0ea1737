"""`kafka-classic load`: topics into a folder of Parquet files, each record once, with the progress on the terminal."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, name_values

if TYPE_CHECKING:
    from kafka_classic.audit.load import Batch

_TIMES = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


class Format(StrEnum):
    parquet = "parquet"
    orc = "orc"
    json = "json"


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic load events --to warehouse --once[/bold]")(load)


def load(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="The topics.", autocompletion=topic_names)],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder: new, empty, or of an earlier load.")],
    format: Annotated[Format, typer.Option("--format", help="What the files are.")] = Format.parquet,
    once: Annotated[bool, typer.Option("--once", help="Load what is there now, and end.")] = False,
    every: Annotated[str | None, typer.Option("--every", metavar="TIME", help="A batch every 30s, 5m …")] = None,
    largest: Annotated[
        int | None, typer.Option("--max-offsets", min=1, metavar="N", help="No more than N offsets in one batch.")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="A Spark cluster, spark://…; else this machine.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
    ] = None,
    ignore_loss: Annotated[
        bool, typer.Option("--ignore-data-loss", help="Go on without records that retention has deleted.")
    ] = False,
    json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Load topics into files by topic, date and hour, each record once, until Ctrl-C or with --once to their end.

    May be killed at any moment: the next start goes on where the last commit was. Read the folder with
    kafka_classic.audit.warehouse.read(spark, DIR), which knows which files count. --json: one object a batch.
    """
    if once and every is not None:
        raise CommandFailed("--once and --every exclude each other", "one of both")
    seconds = _seconds(every or "30s")
    settings = name_values(conf or (), "--conf")

    from kafka_classic.audit.load import Load, prepare

    prepare(bootstrap, topics, to, format.value)  # what is wrong is said before a JVM is started
    from kafka_classic.audit.session import spark_session

    if not json:
        print(f"starting Spark to load {', '.join(topics)} into {to} …", file=sys.stderr)
    spark = spark_session("kafka-classic load", master, settings, log_level="off")
    options = {
        **({"maxOffsetsPerTrigger": str(largest)} if largest else {}),
        **({"failOnDataLoss": "false"} if ignore_loss else {}),
    }
    total = 0
    try:
        with Load.start(
            spark, bootstrap, topics, to, format=format.value, once=once, every=seconds, options=options
        ) as running:
            for batch in running.batches():
                total += batch.records
                _tell(batch, json)
    finally:
        spark.stop()
    if not json:
        print(f"{show.count(total, 'record')} loaded into {to}")


def _tell(batch: Batch, json: bool) -> None:
    if json:
        print(show.as_line(batch.as_mapping()), flush=True)
        return
    rate = batch.records / max(batch.seconds, 0.001)
    line = (
        f"batch {batch.number}: {show.count(batch.records, 'record')} in {batch.seconds:.1f} s, "
        f"{rate:,.0f} a second, {batch.behind:,} offsets behind"
    )
    if not sys.stdout.isatty():
        print(line, flush=True)
        return
    from rich.console import Console

    Console(highlight=True).print(line)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", text.strip().lower())
    if not found:
        raise CommandFailed(f"--every {text!r} is no time", "--every 30s, 500ms, 5m or 1h")
    return float(found[1]) * _TIMES[found[2]]
