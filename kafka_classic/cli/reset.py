"""`kafka-classic groups reset-offsets`: a group goes on from another place: rewind and replay (P11), or skip."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import group_names, topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.group_view import Group, Kind, OfKind, OnlyBrokers, Reach, look, reach
from kafka_classic.cli.options import AsJson, ZooKeeper
from kafka_classic.cli.position import AtOffset, Earliest, FromTime, Latest, Position, read_time, since

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster

TopicPartition = tuple[str, int]
_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"P(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?")


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on from the committed offset, or back if it is negative."""

    records: int


class Move(NamedTuple):
    """From which offset to which; `old` is None where nothing was committed."""

    topic: str
    partition: int
    old: int | None
    new: int


def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.", autocompletion=group_names)],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="The topic; may be repeated.", autocompletion=topic_names)
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics that it has offsets of.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The oldest record that is kept.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Only what is written from now on.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="This offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="The first record at or after an ISO time.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="DURATION", help="So long ago, as in PT90M, PT1H30M or P7D.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="N records on from the committed offset; -N back.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    kind: OfKind = None,
    zookeeper: ZooKeeper = None,
    bootstrap: OnlyBrokers = None,
    json: AsJson = False,
) -> None:
    """Let a group go on from elsewhere. Its consumers must be stopped: a live one would write over it.

    A group that is not there yet is one of ZooKeeper's, unless --kind or --bootstrap say otherwise.
    """
    where = _where(to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by)
    if bool(topic) == all_topics:
        raise CommandFailed("which topics were meant was not said", "--topic TOPIC or --all-topics, one of both")
    with reach(zookeeper, bootstrap) as there:
        cluster = there.brokers()
        found = chosen_group(there, group, kind)
        if not dry_run:
            check_stopped([found])
        chosen = _partitions(cluster, topic or sorted({name for name, _ in found.offsets}), partition)
        moves = plan(where, chosen, found.offsets, *_bounds(cluster, chosen), _at_time(cluster, chosen, where))
        if not dry_run:
            keep(there, found, {(move.topic, move.partition): move.new for move in moves})
    if json:
        show.as_json(
            {
                "group": group,
                "kind": found.kind.value,
                "dry_run": dry_run,
                "offsets": [move._asdict() for move in moves],
            }
        )
        return
    show.table(["topic", "partition", "old offset", "new offset"], moves)
    print("nothing was changed (--dry-run)" if dry_run else f"{group} goes on from there")


def plan(
    where: Position | ShiftBy,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> list[Move]:
    """Where each partition goes on: always within the log, else the next consumer would start by its own reset."""
    moves = []
    for at in partitions:
        match where:
            case Earliest():
                new = first[at]
            case Latest():
                new = end[at]
            case AtOffset(offset):
                new = offset
            case FromTime():
                new = at_time[at] if at_time[at] >= 0 else end[at]
            case ShiftBy(records):
                new = committed.get(at, end[at]) + records
        moves.append(Move(*at, committed.get(at), min(max(new, first[at]), end[at])))
    return moves


def chosen_group(there: Reach, name: str, kind: Kind | None) -> Group:
    """The one group that is meant; one that is not there yet if nobody knows it."""
    from kafka_classic.zk.paths import can_be_a_name

    found = look(there, name, kind)
    if len(found) > 1:
        raise CommandFailed(f"there are two groups {name}", "--kind zookeeper or --kind kafka, one of both")
    if found:
        return found[0]
    new = kind or (Kind.ZOOKEEPER if there.session is not None else Kind.KAFKA)
    if not name or (new is Kind.ZOOKEEPER and not can_be_a_name(name)):
        raise CommandFailed(f"{name!r} cannot be a group's name: letters, digits, '.', '_' and '-' only")
    return Group(name, new, "Empty", stores=(new,))


def keep(there: Reach, group: Group, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit wherever the group's offsets are kept: of two stores the larger offset would count."""
    from kafka_classic.client.coordinator import Coordinator
    from kafka_classic.client.group_offsets import commit_offsets
    from kafka_classic.zk.offsets import OffsetRegistry

    stores = group.stores or (group.kind,)
    if Kind.KAFKA in stores:
        commit_offsets(Coordinator(there.brokers(), group.name), offsets)
    if Kind.ZOOKEEPER in stores:
        assert there.session is not None
        OffsetRegistry(there.session).commit(group.name, offsets)


def _where(
    earliest: bool, latest: bool, offset: int | None, moment: str | None, ago: str | None, shift: int | None
) -> Position | ShiftBy:
    said: list[Position | ShiftBy] = [
        *([Earliest()] if earliest else []),
        *([Latest()] if latest else []),
        *([AtOffset(offset)] if offset is not None else []),
        *([_time(moment)] if moment is not None else []),
        *([since(int(time.time() * 1000) - duration_ms(ago))] if ago is not None else []),
        *([ShiftBy(shift)] if shift is not None else []),
    ]
    if len(said) != 1:
        raise CommandFailed(
            "where to go on was not said" if not said else "where to go on was said twice",
            "one of --to-earliest, --to-latest, --to-offset N, --to-datetime TIME, --by-duration PT1H, --shift-by N",
        )
    return said[0]


def _time(text: str) -> FromTime:
    moment = read_time(text)
    if moment is None:
        raise CommandFailed(f"--to-datetime {text!r} is not an ISO time", "--to-datetime 2026-01-31T12:00:00+00:00")
    return moment


def duration_ms(text: str) -> int:
    """Reads an ISO duration of days, hours, minutes and seconds, as kafka-consumer-groups.sh takes it."""
    found = _DURATION.fullmatch(text.strip().upper())
    if found is None or not any(found.groups()):
        raise CommandFailed(f"--by-duration {text!r} is not an ISO duration", "--by-duration PT1H30M, PT90M or P7D")
    days, hours, minutes, seconds = (float(number or 0) for number in found.groups())
    return int(1000 * (((days * 24 + hours) * 60 + minutes) * 60 + seconds))


def check_stopped(groups: Iterable[Group]) -> None:
    """Refuse where a live member would write over what is done, or go on as if it was not."""
    for group in groups:
        if group.members:
            more = " …" if len(group.members) > 1 else ""
            raise CommandFailed(
                f"group {group.name} has {show.count(len(group.members), 'live member')}: {group.members[0]}{more}",
                "again when they are stopped",
            )


def _partitions(cluster: Cluster, topics: list[str], wanted: list[int] | None) -> list[TopicPartition]:
    found = []
    for topic in dict.fromkeys(topics):
        known = [each.index for each in cluster.topic(topic).partitions]
        for index in known if wanted is None else wanted:
            if index not in known:
                raise CommandFailed(f"topic {topic} has no partition {index}", f"--partition 0 to {len(known) - 1}")
            found.append((topic, index))
    return sorted(found)


def _bounds(
    cluster: Cluster, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    from kafka_classic.client.admin import EARLIEST, LATEST, list_offsets

    first, end = (list_offsets(cluster, dict.fromkeys(partitions, when)) for when in (EARLIEST, LATEST))
    return {at: found.offset for at, found in first.items()}, {at: found.offset for at, found in end.items()}


def _at_time(
    cluster: Cluster, partitions: list[TopicPartition], where: Position | ShiftBy
) -> dict[TopicPartition, int]:
    from kafka_classic.client.admin import list_offsets

    if not isinstance(where, FromTime):
        return {}
    found = list_offsets(cluster, dict.fromkeys(partitions, where.timestamp))
    return {at: one.offset for at, one in found.items()}
