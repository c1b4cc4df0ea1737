"""`kafka-classic topics`: create, list, alter and delete topics; the longer commands have files of their own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kafka_classic.cli import describe, elect, reassign, show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, name_values
from kafka_classic.cli.reach import connect

app = typer.Typer(help="Create, list, describe, alter, move and delete topics.")

Topic = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", autocompletion=topic_names)]
Config = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic; may be repeated.")
]


def add_to(root: typer.Typer) -> None:
    """Adds the commands on topics to the command line."""
    app.command(epilog="Example: [bold]kafka-classic topics describe events --offsets[/bold]")(describe.describe)
    app.command("elect-leaders", epilog="Example: [bold]kafka-classic topics elect-leaders events[/bold]")(
        elect.elect_leaders
    )
    app.command(epilog="Example: [bold]kafka-classic topics reassign events --to-brokers 0,1,2 --wait[/bold]")(
        reassign.reassign
    )
    root.add_typer(app, name="topics", epilog="Example: [bold]kafka-classic topics list[/bold]")


@app.command(
    epilog="Example: [bold]kafka-classic topics create events --partitions 3 --config retention.ms=60000[/bold]"
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="How many; else the broker's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="How many brokers hold each partition.")
    ] = None,
    config: Config = None,
    classic: Annotated[
        bool, typer.Option("--classic", help="As in the paper: an offset is a byte position, exposed once flushed.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    from kafka_classic.client.admin import NewTopic, create_topics, describe_topics

    configs = name_values(config or (), "--config")
    if classic:
        configs["classic"] = "true"
    with connect(bootstrap) as cluster:
        create_topics(cluster, [NewTopic(name, partitions or -1, replication_factor or -1, configs)])
        (made,) = describe_topics(cluster, [name])
    print(f"created {'classic ' * classic}topic {name} with {show.count(len(made.partitions), 'partition')}")


@app.command("list", epilog="Example: [bold]kafka-classic topics list --json[/bold]")
def list_(json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the topics with their partitions and replicas."""
    from kafka_classic.client.admin import describe_topics

    with connect(bootstrap) as cluster:
        topics = describe_topics(cluster)
    rows: list[dict[str, object]] = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(partition.replicas) for partition in topic.partitions), default=0),
            "offline": sum(partition.leader < 0 for partition in topic.partitions),
        }
        for topic in topics
    ]
    if json:
        show.as_json(rows)
    elif rows:
        show.table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("no topics yet; create one with 'kafka-classic topics create NAME'")


@app.command(
    epilog="Example: [bold]kafka-classic topics alter events --partitions 6 --delete-config retention.ms[/bold]"
)
def alter(
    name: Topic,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="Grow to so many partitions.")] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Back to the default; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a topic's settings or add partitions."""
    from kafka_classic.client.admin import Resource, alter_configs, create_partitions

    settings = name_values(config or (), "--config")
    dropped = delete_config or []
    if partitions is None and not settings and not dropped:
        raise CommandFailed(
            "nothing to change was named", "--partitions N, --config NAME=VALUE or --delete-config NAME"
        )
    with connect(bootstrap) as cluster:
        if settings or dropped:
            alter_configs(cluster, Resource.TOPIC, name, {**settings, **dict.fromkeys(dropped)})
        if partitions is not None:
            create_partitions(cluster, {name: partitions})
    changes = [f"{setting}={value}" for setting, value in settings.items()]
    changes += [f"{setting} back to its default" for setting in dropped]
    changes += [show.count(partitions, "partition")] if partitions is not None else []
    print(f"altered topic {name}: {', '.join(changes)}")


@app.command(epilog="Example: [bold]kafka-classic topics delete events --yes[/bold]")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The topics.", autocompletion=topic_names)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and everything in them."""
    from kafka_classic.client.admin import delete_topics

    what = f"topic{'s' if len(names) > 1 else ''} {', '.join(names)}"
    if not yes:
        if not sys.stdin.isatty():
            raise CommandFailed(f"nobody is at the terminal to confirm that {what} may go", "again with --yes")
        typer.confirm(f"Delete {what} with all messages?", abort=True)
    with connect(bootstrap) as cluster:
        delete_topics(cluster, names)
    print(f"deleted {what}")
