"""`kafka-classic consume`: the records of a topic from any position on, alone or in a group, as text or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import member, show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.format import FIELDS_HELP, Consumed, as_mapping, compile_format
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, ZooKeeper
from kafka_classic.cli.position import AtOffset, Earliest, FromTime, Latest, Position, read_position
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic consume events --from earliest --count 10[/bold]")(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)],
    start: Annotated[
        str, typer.Option("--from", metavar="POSITION", help="earliest, latest, an offset, or an ISO time.")
    ] = "latest",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many records.")] = None,
    idle_timeout: Annotated[
        float | None, typer.Option("--idle-timeout", min=0.0, metavar="S", help="Stop when nothing came for S seconds.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Share the topic with this group's other consumers, through ZooKeeper."),
    ] = None,
    streams: Annotated[int, typer.Option("--streams", min=1, help="So many streams, each a thread (--group).")] = 1,
    json: AsJson = False,
    template: Annotated[
        str, typer.Option("--format", metavar="TEXT", help=f"How to print a record: {FIELDS_HELP}.")
    ] = "%v",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    zookeeper: ZooKeeper = None,
) -> None:
    """Print the records of a topic as they come, until Ctrl-C, --count or --idle-timeout; --json: one object a line.

    With --group it goes on from where the group has come to; --from then says where a new group begins.
    """
    position = read_position(start)
    as_text = compile_format(template)
    out = sys.stdout.buffer

    def show_one(read: Consumed) -> None:
        out.write((show.as_line(as_mapping(read)) + "\n").encode() if json else as_text(read))
        # Whoever watches sees each record when it comes, also through a pipe.
        out.flush()

    if group is not None:
        if partition:
            raise CommandFailed("--partition does not go with --group, which shares them out", "one of both")
        member.consume_in_group(zookeeper, group, topic, streams, position, count, idle_timeout, show_one)
        return

    from kafka_classic.client import simple

    with connect(bootstrap) as cluster:
        offsets = _start_offsets(cluster, topic, partition, position)
        for name, index, record in simple.consume(cluster, offsets, count=count, idle=idle_timeout):
            show_one(Consumed(name, index, *record))


def _start_offsets(
    cluster: Cluster, topic: str, wanted: list[int] | None, position: Position
) -> dict[tuple[str, int], int]:
    from kafka_classic.client.admin import EARLIEST, LATEST, list_offsets

    known = [each.index for each in cluster.topic(topic).partitions]
    chosen = known if wanted is None else wanted
    for index in chosen:
        if index not in known:
            raise CommandFailed(f"topic {topic} has no partition {index}", f"--partition 0 to {len(known) - 1}")
    places = [(topic, index) for index in chosen]
    match position:
        case AtOffset(offset):
            return dict.fromkeys(places, offset)
        case Earliest():
            return {at: found.offset for at, found in list_offsets(cluster, dict.fromkeys(places, EARLIEST)).items()}
        case Latest():
            return {at: found.offset for at, found in list_offsets(cluster, dict.fromkeys(places, LATEST)).items()}
        case FromTime(timestamp):
            # A partition whose records are all older has no such offset: its end is where later ones will come.
            end = list_offsets(cluster, dict.fromkeys(places, LATEST))
            found = list_offsets(cluster, dict.fromkeys(places, timestamp))
            return {at: found[at].offset if found[at].offset >= 0 else end[at].offset for at in places}
