"""`kafka-classic topics elect-leaders`: leadership back to where it belongs, or to whoever is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.controlling import Outcomes

TopicPartition = tuple[str, int]
# The controller has elected before it answers; the brokers hear of it a moment later.
_HEARSAY_S = 5.0


def elect_leaders(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The topic.", autocompletion=topic_names)] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All partitions of all topics.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Where nobody in sync is left, let any live replica lead: loses what it has not got."
        ),
    ] = False,
    json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Make the first replica of each partition its leader, if it is in sync: the preferred one, which spreads the load.

    With --unclean only partitions without a leader are touched.
    """
    from kafka_classic.client.admin import Election
    from kafka_classic.client.admin import elect_leaders as elect

    if (name is None) != everything:
        raise CommandFailed(
            "which partitions was not said" if name is None else "NAME and --all exclude each other",
            "'kafka-classic topics elect-leaders NAME', or --all",
        )
    if partition and name is None:
        raise CommandFailed("--partition needs the name of its topic", "'kafka-classic topics elect-leaders NAME …'")
    with connect(bootstrap) as cluster:
        chosen = None if name is None else chosen_partitions(cluster, name, partition)
        outcomes = elect(cluster, Election.UNCLEAN if unclean else Election.PREFERRED, chosen)
        leaders = _leaders(cluster, [at for at, failure in outcomes.items() if failure is None], unclean)
    elected, fine, failed = sorted_outcomes(outcomes)
    if json:
        show.as_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "elected": failure is None,
                    "leader": leaders.get((topic, index)),
                    "error": None if failure is None else failure.code.name.upper(),
                }
                for (topic, index), failure in sorted(outcomes.items())
            ]
        )
    else:
        for at in elected:
            print(f"{_name(at)} is led by broker {leaders.get(at, 'unknown')} now")
        if fine:
            print(f"{show.count(len(fine), 'partition')} needed no election")
        if not outcomes:
            print("no partition needed an election")
    if failed:
        at = failed[0]
        more = f", and {len(failed) - 1} more like it" if len(failed) > 1 else ""
        failure = outcomes[at]
        assert failure is not None
        raise CommandFailed(f"{failure.code.name.upper()}: {failure.message}{more}", _advice(failure.code.name))


def chosen_partitions(cluster: Cluster, name: str, wanted: list[int] | None) -> list[TopicPartition]:
    """The partitions of a topic that a command is about: those named, which must be there, or all."""
    known = [each.index for each in cluster.topic(name).partitions]
    for index in wanted or ():
        if index not in known:
            raise CommandFailed(f"topic {name} has no partition {index}", f"--partition 0 to {len(known) - 1}")
    return [(name, index) for index in wanted or known]


def sorted_outcomes(
    outcomes: Outcomes,
) -> tuple[list[TopicPartition], list[TopicPartition], list[TopicPartition]]:
    """The partitions whose leader was elected, those that needed none, and those that failed."""
    from kafka_classic.wire.errors import Error

    elected, fine, failed = [], [], []
    for at, failure in sorted(outcomes.items()):
        if failure is None:
            elected.append(at)
        elif failure.code == Error.election_not_needed:
            fine.append(at)
        else:
            failed.append(at)
    return elected, fine, failed


def _leaders(cluster: Cluster, elected: list[TopicPartition], unclean: bool) -> dict[TopicPartition, int]:
    """Who leads the elected partitions, as soon as the brokers say so."""
    names = {topic for topic, _ in elected}
    end = time.monotonic() + _HEARSAY_S
    while elected:
        topics = cluster.metadata(names).topics
        found: dict[TopicPartition, int] = {}
        for topic, index in elected:
            partition = topics[topic].partition(index) if topic in topics else None
            if partition and partition.leader >= 0 and (unclean or partition.leader == partition.replicas[0]):
                found[topic, index] = partition.leader
        if len(found) == len(elected) or time.monotonic() > end:
            return found
        time.sleep(0.05)
    return {}


def _advice(error: str) -> str:
    return {
        "preferred_leader_not_available": "again when 'kafka-classic topics describe' shows it in Isr",
        "eligible_leaders_not_available": "'kafka-classic status', which shows what is down",
    }.get(error, "'kafka-classic topics describe' to see how it is")


def _name(at: TopicPartition) -> str:
    return f"{at[0]}-{at[1]}"
