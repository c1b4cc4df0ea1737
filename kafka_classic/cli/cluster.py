"""`kafka-classic up` and `down`: a whole cluster of this machine, started and stopped together."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import name_values

if TYPE_CHECKING:
    from kafka_classic.testing.cluster import LocalCluster
    from kafka_classic.testing.state import ClusterState

DEFAULT_DIR = Path("kafka-classic-data")
DEFAULT_PORT = 9092
ZOOKEEPER_PORT = 2181
REVIVAL_S = 60.0
FACTOR = "default.replication.factor"
MIN_ISR = "min.insync.replicas"
OF_ONE_BROKER = {"broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "port", "zookeeper.connect"}

Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="Where the cluster's data, logs and addresses are kept.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic up --brokers 3 --detach[/bold]")(up)
    app.command(epilog="Example: [bold]kafka-classic down --dir kafka-classic-data[/bold]")(down)


def up(
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, max=100, help="How many brokers; as before in DIR, else 1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Port of the first broker, the next ones follow; as before, else 9092."
        ),
    ] = None,
    directory: Directory = DEFAULT_DIR,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper", metavar="HOSTS", help="A ZooKeeper that runs already; as before, else one is started."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of every broker, kept for the next `up`."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running and return; stop it with `down`.")] = False,
) -> None:
    """Start ZooKeeper and brokers, each its own process, and stay until Ctrl-C.

    Data is kept in DIR and found again by the next `up` there. New topics get 3 replicas, or as many as there are
    brokers; from 3 brokers on, a write with acks=all is in 2 of them at least before it is acknowledged. Where a
    detached cluster runs, `up --detach` starts again those of its servers that ended.
    """
    from kafka_classic.testing.cluster import AlreadyRunning, LocalCluster, PortTaken
    from kafka_classic.testing.state import read_state

    before = read_state(directory)
    if detach and not (port or zookeeper or settings) and _revive(directory, before, brokers):
        return
    brokers = brokers or (len(before.brokers) if before else 1)
    port = port or _former_port(before) or DEFAULT_PORT
    if zookeeper is None and before is not None and before.embedded is None:
        zookeeper = before.zookeeper
    if port + brokers - 1 > 65535:
        raise CommandFailed(f"{brokers} brokers from port {port} on do not fit below 65536", "a lower --port")
    chosen = _settings(brokers, before, name_values(settings or (), "--set"))
    cluster = LocalCluster(
        directory,
        brokers,
        zookeeper,
        chosen,
        base_port=port,
        zookeeper_port=0 if zookeeper else _zookeeper_port(range(port, port + brokers)),
        detach=detach,
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Before the start, so that Ctrl-C while it starts ends what has been started.
        signal.signal(number, _interrupt)
    began = time.monotonic()
    try:
        cluster.start()
    except PortTaken as error:
        raise CommandFailed(
            str(error), f"'kafka-classic up --port {port + 10000 if port < 50000 else 19092}'"
        ) from error
    except AlreadyRunning as error:
        raise CommandFailed(
            f"a cluster runs in {directory} already", f"'kafka-classic down --dir {directory}' first, or another --dir"
        ) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _print_addresses(cluster, time.monotonic() - began)
    if detach:
        return
    print("Ctrl-C stops all of it.", flush=True)
    try:
        _watch(cluster, stop)
    finally:
        print("stopping …", flush=True)
        cluster.stop()
    print(f"stopped; the data is kept in {directory}")


def _revive(directory: Path, before: ClusterState | None, brokers: int | None) -> bool:
    """Start again what ended of the detached cluster that runs here; False if there is none, or none of it ended."""
    from kafka_classic.testing.cluster import LocalCluster

    cluster = LocalCluster.find(directory)
    if cluster is None or before is None or not before.detached or brokers not in (None, len(cluster.brokers)):
        return False
    keeper = cluster.zookeeper_server
    keeper_ended = keeper is not None and not keeper.alive()
    ended = [broker for broker in cluster.brokers if not broker.alive()]
    if not (ended or keeper_ended) or not cluster.alive():
        return False
    began = time.monotonic()
    if keeper is not None and keeper_ended:
        keeper.start()
    for broker in ended:
        broker.start()
    for broker in ended:
        broker.wait_ready(REVIVAL_S)
    print(f"started again: {', '.join(['zookeeper'] * keeper_ended + [f'broker {broker.id}' for broker in ended])}")
    _print_addresses(cluster, time.monotonic() - began)
    return True


def down(directory: Directory = DEFAULT_DIR) -> None:
    """Stop the cluster that runs in DIR; its data is kept."""
    from kafka_classic.testing.cluster import LocalCluster

    cluster = LocalCluster.find(directory)
    if cluster is None:
        raise CommandFailed(f"there is no cluster in {directory}", "--dir with the folder given to 'kafka-classic up'")
    if not cluster.alive():
        print(f"the cluster in {directory} was stopped already")
        return
    running = sum(broker.alive() for broker in cluster.brokers)
    cluster.stop()
    print(f"stopped {show.count(running, 'broker')}; the data is kept in {directory}")


def server_rows(cluster: LocalCluster) -> list[dict[str, object]]:
    """The servers of a cluster of this machine, as rows of a listing."""
    rows: list[dict[str, object]] = []
    own = cluster.zookeeper_server
    if own is not None:
        log = own.data_dir / "zookeeper.log"
        rows.append({"server": "zookeeper", "address": own.address, "pid": own.pid, "log": str(log)})
    else:
        rows.append({"server": "zookeeper", "address": cluster.zookeeper, "pid": None, "log": None})
    for broker in cluster.brokers:
        name = f"broker {broker.id}"
        rows.append({"server": name, "address": broker.address, "pid": broker.pid, "log": str(broker.log_path)})
    return rows


def replication_settings(brokers: int) -> dict[str, str]:
    """Settings by which a cluster of so many brokers loses nothing when one of them dies."""
    if brokers == 1:
        return {}
    return {FACTOR: str(min(3, brokers)), **({MIN_ISR: "2"} if brokers >= 3 else {})}


def _settings(brokers: int, before: ClusterState | None, given: Mapping[str, str]) -> dict[str, str]:
    """What the user sets now, else what was set before, else what suits so many brokers."""
    from kafka_classic.settings import BrokerSettings

    suited = replication_settings(len(before.brokers)) if before else {}
    kept = {name: value for name, value in before.settings.items() if suited.get(name) != value} if before else {}
    chosen = {**replication_settings(brokers), **kept, **given}
    for name in OF_ONE_BROKER & given.keys():
        raise CommandFailed(f"{name} is each broker's own, and chosen by 'up'", "--port, --dir or --zookeeper")
    # A misspelt setting is refused here, before any process that would end of it.
    BrokerSettings.load(chosen)
    return chosen


def _print_addresses(cluster: LocalCluster, took: float) -> None:
    show.table(["server", "address", "pid", "log"], [list(row.values()) for row in server_rows(cluster)])
    print(f"ready in {took:.1f} s; clients connect to {cluster.bootstrap}")
    factor, least = int(cluster.settings.get(FACTOR, 1)), int(cluster.settings.get(MIN_ISR, 1))
    if factor > 1:
        safe = f", and acks=all waits for {least} of them at least" if least > 1 else ""
        print(f"new topics get {factor} replicas{safe} ({FACTOR}={factor}, {MIN_ISR}={least})")
    sys.stdout.flush()


def _watch(cluster: LocalCluster, stop: threading.Event) -> None:
    """Stays until told to stop; says so when a server ends by itself, and gives up when none is left."""
    alive = {row["server"] for row in server_rows(cluster) if row["pid"] is not None}
    while not stop.wait(0.5):
        for row in server_rows(cluster):
            if row["pid"] is None and row["server"] in alive:
                alive.discard(row["server"])
                print(f"{row['server']} on {row['address']} ended by itself; see {row['log']}", file=sys.stderr)
        if not any(broker.alive() for broker in cluster.brokers):
            raise CommandFailed("no broker is left", f"reading the logs in {cluster.dir}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _former_port(before: ClusterState | None) -> int | None:
    return before.brokers[0].port if before and before.brokers else None


def _zookeeper_port(taken: range) -> int:
    from kafka_classic.cli.ports import next_free

    port = next_free(ZOOKEEPER_PORT)
    while port in taken:
        port = next_free(port + 1)
    return port
