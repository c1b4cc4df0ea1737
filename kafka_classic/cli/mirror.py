"""`kafka-classic mirror`: topics of one cluster copied to another as they come, with the progress on the terminal."""

from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.member import called
from kafka_classic.cli.options import AsJson, ZooKeeper, name_values
from kafka_classic.cli.reach import zookeeper_address

if TYPE_CHECKING:
    from kafka_classic.mirror import Progress

TELL_EVERY_S = 5.0
LATEST_MS = 253_402_300_799_000  # of the year 9999; a producer may write what it likes


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic mirror page-views --to warehouse:9092[/bold]")(mirror)


def mirror(
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT,…", help="Brokers of the cluster to copy to.")],
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC…", help="The topics.", autocompletion=topic_names)
    ] = None,
    matching: Annotated[
        str, typer.Option("--matching", metavar="REGEX", help="All topics whose whole name matches, in place of names.")
    ] = "",
    group: Annotated[
        str, typer.Option("--group", "-g", help="Mirrors of one group share the partitions, and go on for each other.")
    ] = "mirror",
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="What goes before the names there.")] = "",
    audit: Annotated[bool, typer.Option("--audit", help="Count for the audits of both clusters.")] = False,
    idle_timeout: Annotated[
        float | None, typer.Option("--idle-timeout", min=0.0, metavar="S", help="Stop when nothing came for S seconds.")
    ] = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option("--consumer", metavar="NAME=VALUE", help="A setting of the consumer; may be repeated."),
    ] = None,
    producer: Annotated[
        list[str] | None,
        typer.Option("--producer", metavar="NAME=VALUE", help="A setting of the producer; may be repeated."),
    ] = None,
    json: AsJson = False,
    zookeeper: ZooKeeper = None,
) -> None:
    """Copy topics to another cluster as their messages come, until Ctrl-C or --idle-timeout; --json: one object a line.

    May be killed at any moment: the next one goes on from what the target has acknowledged, and may repeat a second's.
    A topic that is not there is created with the partitions and settings that it has here.
    """
    if bool(topics) == bool(matching):
        raise CommandFailed("mirror wants either topics or --matching", "'kafka-classic mirror page-views --to …'")

    from kafka_classic.mirror import Mirror

    ended = threading.Event()
    began = told = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= TELL_EVERY_S:
            told = time.monotonic()
            print(_line(progress, told - began, json), flush=True)

    with (
        called(ended.set, signal.SIGTERM),
        called(ended.set, signal.SIGINT),
        Mirror(
            zookeeper_address(zookeeper),
            to,
            topics=topics or (),
            matching=matching,
            group=group,
            prefix=prefix,
            audit=audit,
            consumer=name_values(consumer or (), "--consumer"),
            producer=name_values(producer or (), "--producer"),
        ) as running,
    ):
        print(_line(running.run(ended, idle_s=idle_timeout, told=tell), time.monotonic() - began, json))


def _line(progress: Progress, seconds: float, json: bool) -> str:
    messages, size, timestamp = progress
    if json:
        return show.as_line({"messages": messages, "bytes": size, "seconds": round(seconds, 3), "last": timestamp})
    last = f"; the last is of {_when(timestamp)}" if 0 <= timestamp <= LATEST_MS else ""
    return f"{show.count(messages, 'message')} copied in {seconds:.1f} s, {messages / seconds:,.0f} a second{last}"


def _when(timestamp: int) -> str:
    return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
