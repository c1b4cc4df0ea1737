"""`kafka-classic audit`: is everything there? Once, again and again, or as a page to look at."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from kafka_classic.cli import show
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap

if TYPE_CHECKING:
    from kafka_classic.audit.pipeline import Audit, Question

P = ParamSpec("P")

_COLUMNS = [
    "topic",
    "tier",
    "verdict",
    "cells",
    "unknown",
    "expected",
    "counted",
    "missing",
    "doubled",
    "altered",
    "other",
]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Topics = Annotated[
    str, typer.Option("--topics", "-t", metavar="NAME,…", help="Only these topics; else all but Kafka's own.")
]
From = Annotated[
    str,
    typer.Option("--from", metavar="TIME", help="Only windows that begin then or later: an ISO time, or 2h ago as 2h."),
]
To = Annotated[
    str, typer.Option("--to", metavar="TIME", help="Only windows that begin earlier: an ISO time, or 5m ago as 5m.")
]
Groups = Annotated[
    str,
    typer.Option(
        "--groups",
        "-g",
        metavar="NAME,…",
        help="These groups too, by the offsets they committed to the brokers: groups of any client.",
    ),
]
Warehouse = Annotated[
    Path | None,
    typer.Option("--warehouse", "-w", metavar="DIR", help="Count this too: what `kafka-classic load` filled."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="The load's checkpoint, if it is not in the warehouse."),
]
Deep = Annotated[bool, typer.Option("--deep", help="Decode the log and compare contents there too: slower by far.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master, as spark://host:7077; else this machine's cores."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this file to the command line."""
    group = typer.Typer(help="Is everything there? Counts at every tier, compared by name.", no_args_is_help=True)
    for command, example in (
        (run, "run --topics events --to 5m"),
        (watch, "watch --every 30"),
        (report, "report --html audit.html"),
    ):
        epilog = f"Example: [bold]kafka-classic audit {example}[/bold]"
        group.command(command.__name__, epilog=epilog)(_or_undecided(command))
    app.add_typer(group, name="audit")


def _or_undecided(command: Callable[P, None]) -> Callable[P, None]:
    """Whoever could not be asked has not said that something is lost: exit code 2, and not 1."""

    @wraps(command)
    def decided(*given: P.args, **named: P.kwargs) -> None:
        try:
            command(*given, **named)
        except typer.Exit:
            raise
        except Exception as failure:
            failure.undecided = True  # type: ignore[attr-defined]  # read where exit codes are chosen
            raise

    return decided


def run(
    topics: Topics = "",
    begin: From = "",
    end: To = "",
    groups: Groups = "",
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    deep: Deep = False,
    master: Master = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    json: AsJson = False,
) -> None:
    """Audit once. Exit code 0: complete; 1: loss or damage found; 2: not decidable, or not done, and why."""
    found = _audit(_question(bootstrap, topics, begin, end, groups, warehouse, checkpoint, deep), master)
    _print(found, json)
    raise typer.Exit(found.exit_code)


def report(
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Write the page here.")],
    topics: Topics = "",
    begin: From = "",
    end: To = "",
    groups: Groups = "",
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    deep: Deep = False,
    master: Master = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Audit once and write one self-contained page. Exit codes as of `audit run`."""
    from kafka_classic.audit.report import page
    from kafka_classic.audit.summary import sentence

    if not html.absolute().parent.is_dir():
        raise CommandFailed(f"there is no folder {html.absolute().parent}", "an existing one")
    found = _audit(_question(bootstrap, topics, begin, end, groups, warehouse, checkpoint, deep), master)
    html.write_text(page(found))
    print(sentence(found))
    print(f"report: {html.absolute()}")
    raise typer.Exit(found.exit_code)


def watch(
    topics: Topics = "",
    begin: From = "1h",
    groups: Groups = "",
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    master: Master = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="How long to wait between audits.", min=1)
    ] = 10,
    count: Annotated[int, typer.Option("--count", help="End after so many audits; 0 is never.", min=0)] = 0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    json: AsJson = False,
) -> None:
    """Audit again and again until Ctrl-C, and keep the table of the last windows up to date."""
    from kafka_classic.audit.watching import Watch

    def question() -> Question:
        return _question(bootstrap, topics, begin, "", groups, warehouse, checkpoint, False)

    watched = Watch(_session(master), question)
    done = 0
    code = 2
    while not count or done < count:
        if done:
            time.sleep(every)
        found = watched.look()
        if json:
            from kafka_classic.audit.summary import as_json

            print(show.as_line(as_json(found)), flush=True)
        else:
            if not count or count > 1:
                print("\033[2J\033[H" if show.on_terminal() else "", end="")
            _print(found, False)
        code = found.exit_code
        done += 1
    raise typer.Exit(code)


def read_time(text: str, option: str, now: float) -> int | None:
    """An ISO time, or how long ago (`90s`, `5m`, `2h`, `1d`), in milliseconds since 1970; None for nothing."""
    word = text.strip()
    if not word:
        return None
    ago = re.fullmatch(r"(\d+)([smhd])", word)
    if ago:
        return int((now - int(ago[1]) * _UNITS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(word).astimezone().timestamp() * 1000)
    except ValueError:
        raise CommandFailed(
            f"{option} {text!r} is neither an ISO time nor how long ago",
            f"{option} 2026-01-31T12:00:00+00:00 or {option} 10m",
        ) from None


def _question(
    bootstrap: str,
    topics: str,
    begin: str,
    end: str,
    groups: str,
    warehouse: Path | None,
    checkpoint: Path | None,
    deep: bool,
) -> Question:
    from kafka_classic.audit.pipeline import Question
    from kafka_classic.cli.reach import connect

    now = time.time()
    first, last = read_time(begin, "--from", now), read_time(end, "--to", now)
    if first is not None and last is not None and first >= last:
        raise CommandFailed(f"--from {begin} is not before --to {end}", "an earlier --from")
    if warehouse is not None and not (warehouse / "_spark_metadata").is_dir():
        raise CommandFailed(
            f"{warehouse} is no warehouse: it has no commit log (_spark_metadata)", "`kafka-classic load` first"
        )
    with connect(bootstrap):
        pass  # a misspelt address is said before Spark is started
    return Question(bootstrap, _names(topics), first, last, warehouse, checkpoint, deep, _names(groups))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.split(",") if name))


def _session(master: str | None):  # type: ignore[no-untyped-def]  # pyspark stays in its room
    from kafka_classic.audit.session import spark_session

    return spark_session("kafka-classic audit", master)


def _audit(question: Question, master: str | None) -> Audit:
    from kafka_classic.audit.pipeline import audit

    return audit(_session(master), question)


def _print(found: Audit, json: bool) -> None:
    from kafka_classic.audit.summary import PAPER_OVERHEAD, as_json, details, overhead, rows, sentence

    if json:
        show.as_json(as_json(found))
        return
    table = [[getattr(one, name) for name in _COLUMNS] for one in rows(found.cells)]
    show.table(_COLUMNS, table)
    for line in details(found.cells):
        print(line)
    extra = overhead(found.cells)
    if extra is not None:
        print(
            f"on disk a message takes {extra:.1f} bytes beyond key and value, of these 0 for the audit "
            f"(paper: {PAPER_OVERHEAD})"
        )
    print(sentence(found))
