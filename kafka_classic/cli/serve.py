"""`kafka-classic broker` and `kafka-classic zookeeper`: one server in the foreground, each its own process."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import name_values


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic broker --set broker.id=1 --set log.dirs=data/1[/bold]")(broker)
    app.command(epilog="Example: [bold]kafka-classic zookeeper --port 2181 --dir data/zookeeper[/bold]")(zookeeper)


def broker(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A properties file with Kafka's setting names.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One setting, stronger than the file; may be repeated."),
    ] = None,
) -> None:
    """Run one broker until SIGTERM or Ctrl-C."""
    from kafka_classic.settings import BrokerSettings, read_properties

    properties: dict[str, str] = {}
    if config is not None:
        if not config.is_file():
            raise CommandFailed(f"there is no settings file {config}", "--set NAME=VALUE, or another --config FILE")
        properties.update(read_properties(config))
    properties.update(name_values(settings or (), "--set"))
    loaded = BrokerSettings.load(properties)

    # Only now: a misspelt setting is refused before the heavy imports are paid for. kio imports hypothesis where it is
    # installed, for tests of its own: 0.3 of the 0.7 s of CPU that a broker's imports take, for nothing.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from kafka_classic.broker.main import run

    run(loaded)


def zookeeper(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve on; 0 takes a free one.")] = 2181,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where its data and log are kept.")] = Path(
        "kafka-classic-data/zookeeper"
    ),
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run a ZooKeeper server alone, until SIGTERM or Ctrl-C."""
    from kafka_classic.cli.ports import require_free
    from kafka_classic.zk.server import EmbeddedZooKeeper

    if port:
        require_free([port], host, "ZooKeeper")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = EmbeddedZooKeeper(directory, port, host)
    server.start()
    try:
        typer.echo(f"zookeeper ready on {host}:{server.port}")
        while not stop.wait(1.0):
            if not server.running:
                raise CommandFailed("ZooKeeper ended by itself", f"reading {server.log_path}")
    finally:
        server.stop()
