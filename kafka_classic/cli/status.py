"""`kafka-classic status`: the servers of this machine's cluster, and what the cluster says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.cluster import DEFAULT_DIR, server_rows
from kafka_classic.cli.describe import is_under_replicated
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import AsJson
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.metadata import Metadata, Partition

# So many partitions are named of each kind that is not well.
_SHOWN = 5


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic status --json[/bold]")(status)


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster in a few numbers; brokers that hold replicas and are not in the cluster are down."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[tuple[int, str], ...]
    brokers_down: tuple[int, ...]
    topics: int
    partitions: int
    offline_partitions: tuple[str, ...]
    under_min_isr_partitions: tuple[str, ...]
    under_replicated_partitions: tuple[str, ...]

    def troubles(self) -> list[str]:
        """What is not well, the worst first; nothing when all is."""
        return [
            *(["no controller"] if self.controller is None else []),
            *([f"{show.count(len(self.brokers_down), 'broker')} down"] if self.brokers_down else []),
            *(
                f"{show.count(len(partitions), 'partition')} {word}"
                for word, partitions in self.named().items()
                if partitions
            ),
        ]

    def named(self) -> dict[str, tuple[str, ...]]:
        """The partitions that are not well, by what is the matter with them."""
        return {
            "offline": self.offline_partitions,
            "under min ISR": self.under_min_isr_partitions,
            "under-replicated": self.under_replicated_partitions,
        }


def summarise(known: Metadata, min_isr: Mapping[str, int] | None = None) -> Summary:
    """Counts what the metadata lists, and names the partitions that are not well."""
    partitions = [
        (topic.name, f"{topic.name}-{partition.index}", partition)
        for topic in known.topics.values()
        for partition in topic.partitions
    ]

    def lacks(topic: str, partition: Partition) -> bool:
        # As Kafka: a partition cannot be asked for more in-sync replicas than it has replicas.
        return len(partition.isr) < min((min_isr or {}).get(topic, 1), len(partition.replicas))

    return Summary(
        known.cluster_id,
        known.controller if known.controller >= 0 else None,
        tuple((broker.id, broker.address) for broker in sorted(known.brokers.values())),
        tuple(sorted({id for *_, partition in partitions for id in partition.replicas} - known.brokers.keys())),
        len(known.topics),
        len(partitions),
        tuple(sorted(name for _, name, partition in partitions if partition.leader not in known.brokers)),
        tuple(sorted(name for topic, name, partition in partitions if lacks(topic, partition))),
        tuple(sorted(name for _, name, partition in partitions if is_under_replicated(partition))),
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
    """Show which servers run, who is the controller, and whether all is well.

    Exit code 1 when a server is down or a partition cannot be written to.
    """
    servers: list[dict[str, object]] = []
    down: list[str] = []
    if bootstrap is None:
        bootstrap, servers, down = _local(directory)
    with connect(bootstrap) as cluster:
        known = cluster.metadata()
        summary = summarise(known, _min_isr(cluster, known))
    down += [name for id in summary.brokers_down if (name := f"broker {id}") not in down]
    # A broker that was killed a moment ago is down for us who see its process, before its session has expired.
    well = not down and not summary.troubles()
    if json:
        show.as_json({"servers": servers, "cluster": asdict(summary), "down": down, "well": well})
    else:
        _print(servers, summary, down)
    if down:
        where = f" of {directory}" if servers else ""
        raise CommandFailed(f"{' and '.join(down)}{where} not running", _remedy(directory, bool(servers)))
    if summary.offline_partitions or summary.under_min_isr_partitions:
        stuck = {*summary.offline_partitions, *summary.under_min_isr_partitions}
        raise CommandFailed(
            f"{show.count(len(stuck), 'partition')} cannot be written with acks=all",
            "'kafka-classic topics describe --under-replicated'",
        )


def _min_isr(cluster: Cluster, known: Metadata) -> dict[str, int]:
    from kafka_classic.client.admin import describe_topic_configs

    found = describe_topic_configs(cluster, [topic.name for topic in known.topics.values()], ["min.insync.replicas"])
    return {name: int(setting.value) for name, settings in found.items() for setting in settings if setting.value}


def _remedy(directory: Path, local: bool) -> str:
    from kafka_classic.testing.state import read_state

    state = read_state(directory) if local else None
    if state is None or not state.detached:
        return "starting it again: its log says why it ended"
    where = "" if directory == DEFAULT_DIR else f" --dir {directory}"
    return f"'kafka-classic up --detach{where}', which starts it again; its log says why it ended"


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


def _print(servers: list[dict[str, object]], summary: Summary, down: list[str]) -> None:
    if servers:
        rows = [
            [
                row["server"],
                row["address"],
                row["pid"] or ("down" if row["log"] else "-"),
                _role(row, summary),
                row["log"],
            ]
            for row in servers
        ]
        show.table(["server", "address", "pid", "role", "log"], rows)
    else:
        live = [[id, address, "up", _role_of(id, summary)] for id, address in summary.brokers]
        show.table(
            ["broker", "address", "state", "role"], live + [[id, "-", "down", "-"] for id in summary.brokers_down]
        )
    topics, partitions = show.count(summary.topics, "topic"), show.count(summary.partitions, "partition")
    print(f"cluster {summary.cluster_id}: {topics}, {partitions}")
    for word, named in summary.named().items():
        if named:
            shown = ", ".join(named[:_SHOWN])
            print(f"{word}: {len(named)} ({shown}{' …' if len(named) > _SHOWN else ''})")
    troubles = summary.troubles()
    if down and not summary.brokers_down:
        troubles.insert(0, f"{show.count(len(down), 'server')} down")
    print(f"NOT well: {', '.join(troubles)}" if troubles else "all is well: every replica is in sync")


def _role(row: dict[str, object], summary: Summary) -> str | None:
    kind, _, id = str(row["server"]).partition(" ")
    return _role_of(int(id), summary) if kind == "broker" and row["pid"] is not None else None


def _role_of(id: int, summary: Summary) -> str | None:
    return "controller" if id == summary.controller else None
