"""`kafka-classic topics reassign`: partitions to other brokers, without a stop and without a loss."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.elect import chosen_partitions
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from kafka_classic.cli.plan import Plan, TopicPartition, as_plan, names, read_brokers, read_plan, spread
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.controlling import Outcomes, Reassignment

_POLL_S = 0.25
_WAYS = "--replicas with --partition, --to-brokers, --plan, --list or --cancel"


def reassign(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The topic.", autocompletion=topic_names)] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    replicas: Annotated[
        str | None,
        typer.Option("--replicas", metavar="IDS", help="The brokers that shall hold it, the preferred leader first."),
    ] = None,
    to_brokers: Annotated[
        str | None, typer.Option("--to-brokers", metavar="IDS", help="Spread the topic over these brokers evenly.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="With --to-brokers: replicas; else as now.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="A plan in the JSON of kafka-reassign-partitions.sh.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan as such JSON and move nothing.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what is on its way.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Go back to where it was.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when all has arrived; progress on stderr.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, metavar="S", help="How long to --wait.")] = 300.0,
    json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Move partitions to other brokers while they are written and read."""
    ways = [replicas is not None, to_brokers is not None, plan is not None and not cancel, list_, cancel]
    if sum(ways) != 1:
        raise CommandFailed("what to do was not said" if not any(ways) else "that is more than one thing to do", _WAYS)
    if name is None and plan is None and not list_:
        raise CommandFailed("no topic was named", "'kafka-classic topics reassign NAME …', or --plan FILE")
    if name is not None and plan is not None:
        raise CommandFailed("a plan names its topics itself", "without NAME")
    if replicas is not None and not partition:
        raise CommandFailed("--replicas needs the partition that shall live there", "--partition N, or --to-brokers")
    given = read_plan(plan) if plan is not None else {}
    with connect(bootstrap) as cluster:
        if list_:
            _list(_moves(cluster, name, partition), json)
            return
        if cancel:
            chosen = list(given) or list(_moves(cluster, name, partition))
            _cancel(cluster, chosen, name, json)
            return
        if name is not None:
            given = _made(cluster, name, partition, replicas, to_brokers, replication_factor)
        before = _current(cluster, given)
        _check_brokers(cluster, given)
        if dry_run:
            print(show.as_line(as_plan(given)))
            return
        _begin(cluster, before, given, json)
        if wait:
            _wait(cluster, list(given), timeout)


def _made(
    cluster: Cluster,
    name: str,
    partition: list[int] | None,
    replicas: str | None,
    to_brokers: str | None,
    factor: int | None,
) -> Plan:
    """The plan that the options ask for."""
    chosen = chosen_partitions(cluster, name, partition)
    if replicas is not None:
        return dict.fromkeys(chosen, read_brokers(replicas, "--replicas"))
    brokers = read_brokers(to_brokers or "", "--to-brokers")
    current = {index: where for (_, index), where in _current(cluster, dict.fromkeys(chosen, ())).items()}
    return {(name, index): where for index, where in spread(current, brokers, factor).items()}


def _current(cluster: Cluster, wanted: Plan) -> Plan:
    """Where the partitions live now; each must be there."""
    from kafka_classic.client.admin import describe_topics

    topics = {topic.name: topic for topic in describe_topics(cluster, {topic for topic, _ in wanted})}
    found: Plan = {}
    for topic, index in wanted:
        partition = topics[topic].partition(index)
        if partition is None:
            raise CommandFailed(f"topic {topic} has no partition {index}", f"0 to {len(topics[topic].partitions) - 1}")
        found[topic, index] = partition.replicas
    return found


def _check_brokers(cluster: Cluster, plan: Plan) -> None:
    live = cluster.brokers()
    for (topic, index), replicas in plan.items():
        for broker in replicas:
            if broker not in live:
                known = ", ".join(map(str, sorted(live)))
                raise CommandFailed(
                    f"broker {broker}, meant for {topic}-{index}, is not in the cluster", f"one of {known}"
                )


def _begin(cluster: Cluster, before: Plan, after: Plan, json: bool) -> None:
    from kafka_classic.client.admin import alter_reassignments

    _raise_first(alter_reassignments(cluster, after))
    if json:
        # What was there before is the plan that takes it all back.
        show.as_json({"before": as_plan(before), "after": as_plan(after)})
        return
    rows = [[topic, index, before[topic, index], replicas] for (topic, index), replicas in sorted(after.items())]
    show.table(["topic", "partition", "from", "to"], rows)


def _wait(cluster: Cluster, partitions: list[TopicPartition], timeout: float) -> None:
    from kafka_classic.client.admin import list_reassignments

    end = time.monotonic() + timeout
    told = -1
    while moves := list_reassignments(cluster, partitions):
        if len(moves) != told:
            told = len(moves)
            print(f"{told} of {len(partitions)} on the way: {names(moves)}", file=sys.stderr, flush=True)
        if time.monotonic() > end:
            raise CommandFailed(
                f"{names(moves)} not there after {timeout:g} s, and still on the way",
                "'kafka-classic topics reassign --list', or a longer --timeout",
            )
        time.sleep(_POLL_S)
    print(f"{show.count(len(partitions), 'partition')} arrived", file=sys.stderr)


def _cancel(cluster: Cluster, partitions: list[TopicPartition], name: str | None, json: bool) -> None:
    from kafka_classic.client.admin import alter_reassignments

    if not partitions:
        raise CommandFailed(f"nothing of {name} is on its way", "'kafka-classic topics reassign --list'")
    _raise_first(alter_reassignments(cluster, dict.fromkeys(partitions)))
    if json:
        show.as_json([{"topic": topic, "partition": index} for topic, index in sorted(partitions)])
    else:
        print(f"cancelled: {names(partitions)}")


def _moves(cluster: Cluster, name: str | None, partition: list[int] | None) -> dict[TopicPartition, Reassignment]:
    from kafka_classic.client.admin import list_reassignments

    return list_reassignments(cluster, None if name is None else chosen_partitions(cluster, name, partition))


def _list(moves: Mapping[TopicPartition, Reassignment], json: bool) -> None:
    rows: list[dict[str, object]] = [
        {
            "topic": topic,
            "partition": index,
            "replicas": list(move.replicas),
            "adding": list(move.adding),
            "removing": list(move.removing),
        }
        for (topic, index), move in sorted(moves.items())
    ]
    if json:
        show.as_json(rows)
    elif rows:
        show.table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print("nothing is on its way")


def _raise_first(outcomes: Outcomes) -> None:
    failures = [failure for _, failure in sorted(outcomes.items()) if failure is not None]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise CommandFailed(f"{failures[0].code.name.upper()}: {failures[0].message}{more}")
