"""`kafka-classic produce`: lines of a stream, or random values, as records of a topic."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.lines import ToSend, live_lines, random_values, read_lines
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, name_values
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.metadata import Topic


class Acks(StrEnum):
    """Who must have a record before it counts as written."""

    none = "0"
    leader = "1"
    all = "all"


class Compression(StrEnum):
    """The codecs, by Kafka's names."""

    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]seq 10 | kafka-classic produce events[/bold]")(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)],
    file: Annotated[Path | None, typer.Option("--file", help="Read lines from here, not from standard input.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="What stands between key and value of a line.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header for every record.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Where to; else by the key, or in turns without one.")
    ] = None,
    acks: Annotated[
        Acks, typer.Option("--acks", help="Wait for nobody, the leader, or all in-sync replicas.")
    ] = Acks.all,
    compression: Annotated[Compression, typer.Option("--compression", help="The codec.")] = Compression.none,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="At most so many records a batch.")] = None,
    idempotent: Annotated[bool, typer.Option("--idempotent", help="No duplicates when a batch is sent again.")] = False,
    generate: Annotated[
        int | None, typer.Option("--random", metavar="N", min=1, help="Send N random values and read nothing.")
    ] = None,
    size: Annotated[int, typer.Option("--size", min=1, help="Bytes of a random value.")] = 200,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Write lines of standard input to a topic and say how many were acknowledged."""
    from kafka_classic.client.writer import Acknowledged, Writer
    from kafka_classic.records.codecs import Codec

    if idempotent and acks is not Acks.all:
        raise CommandFailed(f"--idempotent does not go with --acks {acks.value}", "--acks all")
    headers = tuple((name, value.encode()) for name, value in name_values(header or (), "--header").items())
    acknowledged: list[int] = []
    size_sent = 0

    def count(share: Acknowledged) -> None:
        acknowledged.append(share.records)

    began = time.monotonic()
    with connect(bootstrap) as cluster:
        choose = chooser(_partitions(cluster, topic, partition), batch)
        with Writer(
            cluster,
            acks={Acks.none: 0, Acks.leader: 1, Acks.all: -1}[acks],
            codec=Codec[compression.name.upper()],
            idempotent=idempotent,
            on_acknowledged=count,
        ) as writer:
            for sent, record in enumerate(_records(file, key_separator, generate, size, writer.flush), 1):
                writer.write(topic, choose(record), (record.key, record.value, headers, int(time.time() * 1000)))
                size_sent += len(record.value)
                if batch is not None and sent % batch == 0:
                    writer.send()
    print(report(sum(acknowledged), size_sent, time.monotonic() - began, acknowledged=acks is not Acks.none))


def chooser(partitions: list[int], batch: int | None) -> Callable[[ToSend], int]:
    """Which partition a record goes to: by its key as librdkafka does, else whole batches in turns (P12)."""
    turns = itertools.cycle(partitions)
    # Whole runs go to one partition: a batch that is spread over all of them would be many small ones.
    runs = itertools.chain.from_iterable(itertools.repeat(index, batch or 500) for index in turns)

    def choose(record: ToSend) -> int:
        if record.key is None or len(partitions) == 1:
            return next(runs)
        return partitions[zlib.crc32(record.key) % len(partitions)]

    return choose


def report(records: int, size: int, seconds: float, *, acknowledged: bool) -> str:
    """What was sent, in one line, with the rate of this very run."""
    what = "acknowledged" if acknowledged else "sent, acknowledged by nobody (acks=0)"
    rate = f": {records / seconds:,.0f} a second, {size / seconds / 1000:,.0f} kB/s" if records > 1 and seconds else ""
    return f"{records} {what} in {seconds:.2f} s{rate}"


def _records(
    file: Path | None, separator: str | None, generate: int | None, size: int, quiet: Callable[[], None]
) -> Iterator[ToSend]:
    if generate is not None:
        yield from random_values(generate, size, random.Random())
        return
    if separator == "":
        raise CommandFailed("--key-separator is empty", "--key-separator :")
    between = separator.encode() if separator is not None else None
    if file is None:
        if sys.stdin.isatty():
            print("one record a line; Ctrl-D ends", file=sys.stderr)
        yield from read_lines(live_lines(sys.stdin.fileno(), quiet), between)
        return
    descriptor = os.open(file, os.O_RDONLY)
    try:
        yield from read_lines(live_lines(descriptor, quiet), between)
    finally:
        os.close(descriptor)


def _partitions(cluster: Cluster, name: str, partition: int | None) -> list[int]:
    from kafka_classic.wire.errors import Error

    def ask() -> Topic:
        return cluster.topic(name, auto_create=True)

    there = cluster.metadata([name]).topics[name].error != Error.unknown_topic_or_partition
    found = cluster.retrying(ask)
    if not there:
        print(f"topic {name} was created", file=sys.stderr)
    known = [each.index for each in found.partitions]
    if partition is not None and partition not in known:
        raise CommandFailed(f"topic {name} has no partition {partition}", f"--partition 0 to {len(known) - 1}")
    return known if partition is None else [partition]
