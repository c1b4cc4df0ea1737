"""`kafka-classic status`: the servers of this machine's cluster, and what the cluster says of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.cluster import DEFAULT_DIR, server_rows
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import AsJson
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.metadata import Metadata


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic status --json[/bold]")(status)


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster in a few numbers."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[tuple[int, str], ...]
    topics: int
    partitions: int
    offline_partitions: tuple[str, ...]
    under_replicated_partitions: tuple[str, ...]


def summarise(known: Metadata) -> Summary:
    """Counts what the metadata lists, and names the partitions that are not well."""
    partitions = [
        (f"{topic.name}-{partition.index}", partition)
        for topic in known.topics.values()
        for partition in topic.partitions
    ]
    return Summary(
        known.cluster_id,
        known.controller if known.controller >= 0 else None,
        tuple((broker.id, broker.address) for broker in sorted(known.brokers.values())),
        len(known.topics),
        len(partitions),
        tuple(sorted(name for name, partition in partitions if partition.leader < 0)),
        tuple(sorted(name for name, partition in partitions if len(partition.isr) < len(partition.replicas))),
    )


def status(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The folder of a cluster started with `up`.")
    ] = DEFAULT_DIR,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", "-b", metavar="HOST:PORT,…", help="Ask this cluster instead, wherever it runs."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show which servers run and how the cluster is; exit code 1 if one is down."""
    servers: list[dict[str, object]] = []
    down: list[str] = []
    if bootstrap is None:
        bootstrap, servers, down = _local(directory)
    with connect(bootstrap) as cluster:
        summary = summarise(cluster.metadata())
    if json:
        show.as_json({"servers": servers, "cluster": asdict(summary), "down": down})
    else:
        _print(servers, summary)
    if down:
        raise CommandFailed(f"{' and '.join(down)} of {directory} not running", f"'kafka-classic up --dir {directory}'")


def _local(directory: Path) -> tuple[str, list[dict[str, object]], list[str]]:
    """The bootstrap list of the folder's live brokers, all its servers, and the names of those that are down."""
    from kafka_classic.testing.cluster import LocalCluster

    cluster = LocalCluster.find(directory)
    if cluster is None:
        raise CommandFailed(
            f"there is no cluster in {directory}",
            "'kafka-classic up' to start one, or --bootstrap HOST:PORT to ask one",
        )
    alive = [broker.address for broker in cluster.brokers if broker.alive()]
    if not alive:
        raise CommandFailed(f"the cluster in {directory} is stopped", f"'kafka-classic up --dir {directory}'")
    rows = server_rows(cluster)
    # A ZooKeeper that was named by the user has no process of ours to look at.
    down = [str(row["server"]) for row in rows if row["pid"] is None and row["log"] is not None]
    return ",".join(alive), rows, down


def _print(servers: list[dict[str, object]], summary: Summary) -> None:
    if servers:
        rows = [
            [row["server"], row["address"], row["pid"] or ("down" if row["log"] else "-"), row["log"]]
            for row in servers
        ]
        show.table(["server", "address", "pid", "log"], rows)
    else:
        show.table(["broker", "address"], list(summary.brokers))
    print(f"cluster {summary.cluster_id}, controller {'none' if summary.controller is None else summary.controller}")
    topics, partitions = show.count(summary.topics, "topic"), show.count(summary.partitions, "partition")
    print(f"{topics}, {partitions}, {len(summary.offline_partitions)} offline")
    if summary.offline_partitions:
        shown = summary.offline_partitions[:10]
        print(f"offline: {', '.join(shown)}{' …' if len(summary.offline_partitions) > len(shown) else ''}")
