"""The options that several commands share, and how `name=value` is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from kafka_classic.cli.failure import CommandFailed

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        envvar="KAFKA_CLASSIC_BOOTSTRAP",
        help="Brokers to ask first; any one of the cluster is enough.",
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        "-z",
        metavar="HOST:PORT/…",
        envvar="KAFKA_CLASSIC_ZOOKEEPER",
        help="ZooKeeper, where groups live; else that of the cluster in ./kafka-classic-data, else 127.0.0.1:2181.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def name_values(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Reads repeated `name=value` options; the value may hold further equals signs or be empty."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise CommandFailed(f"{option} {pair!r} is not name=value", f"{option} retention.ms=60000")
        values[name.strip()] = value.strip()
    return values
