"""`kafka-classic groups`: who reads what in a group, how far it has come, and where it shall go on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import typer

from kafka_classic.cli import reset, show
from kafka_classic.cli.complete import group_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.group_view import Group, Kind, OfKind, OnlyBrokers, ends_of, look, names, reach, state_of
from kafka_classic.cli.options import AsJson, ZooKeeper

TopicPartition = tuple[str, int]
app = typer.Typer(help="The groups of consumers, in ZooKeeper and in the brokers: members, offsets and lag.")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=group_names)]


def add_to(root: typer.Typer) -> None:
    """Adds the commands on groups to the command line."""
    app.command(
        "reset-offsets",
        epilog="Example: [bold]kafka-classic groups reset-offsets readers --topic events --to-earliest[/bold]",
    )(reset.reset_offsets)
    root.add_typer(app, name="groups", epilog="Example: [bold]kafka-classic groups describe readers[/bold]")


class Row(NamedTuple):
    """One partition as a group sees it; None where nobody owns it, nothing is committed, or it has no leader."""

    kind: str
    topic: str
    partition: int
    offset: int | None
    end: int | None
    lag: int | None
    owner: str | None


@app.command("list", epilog="Example: [bold]kafka-classic groups list --json[/bold]")
def list_groups(
    kind: OfKind = None, zookeeper: ZooKeeper = None, bootstrap: OnlyBrokers = None, json: AsJson = False
) -> None:
    """List all groups, of both kinds, with their states, their live members and the partitions that those own."""
    with reach(zookeeper, bootstrap) as there:
        found = [
            {
                "group": group.name,
                "kind": group.kind.value,
                "state": state_of(group),
                "members": len(group.members),
                "partitions": len(group.owners),
            }
            for name in names(there, kind)
            for group in look(there, name, kind)
        ]
    if json:
        show.as_json(found)
    else:
        show.table(["group", "kind", "state", "members", "partitions"], [list(row.values()) for row in found])


@app.command(epilog="Example: [bold]kafka-classic groups describe readers --json[/bold]")
def describe(
    group: GroupName,
    kind: OfKind = None,
    zookeeper: ZooKeeper = None,
    bootstrap: OnlyBrokers = None,
    json: AsJson = False,
) -> None:
    """Show owner, offset, end of the log and lag of each partition that the group reads or has read."""
    with reach(zookeeper, bootstrap) as there:
        found = look(there, group, kind)
        if not found:
            raise _unknown(group, kind)
        ends = ends_of(there.brokers(), {at for one in found for at in one.partitions})
    rows = [row for one in found for row in lags(one, ends)]
    if json:
        show.as_json(
            {
                "group": group,
                "kinds": [
                    {"kind": one.kind.value, "state": state_of(one), "members": list(one.members)} for one in found
                ],
                "partitions": [row._asdict() for row in rows],
            }
        )
        return
    show.table(list(Row._fields), rows)
    for one in found:
        print(_summary(one, lags(one, ends)))


def lags(group: Group, ends: Mapping[TopicPartition, int]) -> list[Row]:
    """One row a partition, in order; the lag is what is left to read from the committed offset on."""
    return [
        Row(
            group.kind.value,
            *at,
            group.offsets.get(at),
            ends.get(at),
            max(0, ends[at] - group.offsets[at]) if at in ends and at in group.offsets else None,
            group.owners.get(at),
        )
        for at in sorted(group.partitions)
    ]


def _summary(group: Group, rows: list[Row]) -> str:
    lag = sum(row.lag or 0 for row in rows)
    nobodys = sum(row.owner is None for row in rows)
    return (
        f"{group.name} ({group.kind.value}): {state_of(group)}, {show.count(len(group.members), 'member')}, "
        f"{show.count(len(rows), 'partition')}, lag {lag:,}" + (f"; {nobodys} owned by nobody" if nobodys else "")
    )


@app.command(epilog="Example: [bold]kafka-classic groups delete readers --yes[/bold]")
def delete(
    group: GroupName,
    kind: OfKind = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    zookeeper: ZooKeeper = None,
    bootstrap: OnlyBrokers = None,
) -> None:
    """Forget a group without members, and its offsets: the next one of this name begins as a new group does."""
    from kafka_classic.client.coordinator import Coordinator
    from kafka_classic.client.groups import delete_group
    from kafka_classic.zk.consumers import GroupRegistry

    with reach(zookeeper, bootstrap) as there:
        found = look(there, group, kind)
        if not found:
            raise _unknown(group, kind)
        reset.check_stopped(found)
        if not yes:
            if not sys.stdin.isatty():
                raise CommandFailed(
                    f"nobody is at the terminal to confirm that group {group} may go", "again with --yes"
                )
            typer.confirm(f"Delete group {group} with its offsets?", abort=True)
        for one in found:
            if Kind.KAFKA in one.stores:
                delete_group(Coordinator(there.brokers(), group))
            if one.kind is Kind.ZOOKEEPER and there.session is not None:
                GroupRegistry(there.session, group).delete()
    print(f"deleted group {group}")


def _unknown(group: str, kind: Kind | None) -> CommandFailed:
    return CommandFailed(f"there is no {f'{kind.value} ' if kind else ''}group {group}", "'kafka-classic groups list'")
