"""`kafka-classic topics describe`: topics and their partitions, in the words of kafka-topics.sh or as JSON."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.complete import topic_names
from kafka_classic.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from kafka_classic.cli.reach import connect

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.controlling import Reassignment
    from kafka_classic.client.metadata import Partition, Topic

# What a description can do without is not waited for longer: a partition's leader may be away, the controller too.
_PATIENCE_S = 3.0


@dataclass(frozen=True, slots=True)
class Described:
    """A partition with what the metadata does not tell; the offsets are None where nobody could be asked."""

    partition: Partition
    live: bool
    start: int | None = None
    end: int | None = None
    move: Reassignment | None = None

    @property
    def under_replicated(self) -> bool:
        return is_under_replicated(self.partition)


def is_under_replicated(partition: Partition) -> bool:
    """Tell whether a replica is not in sync."""
    return len(partition.isr) < len(partition.replicas)


def describe(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The topic; else all.", autocompletion=topic_names)
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica that is not in sync.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only partitions without a live leader.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Add the first offset and the next one; --json always has them.")
    ] = False,
    json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show topics as kafka-topics.sh does: leaders, replicas, who is in sync, settings that are not the defaults."""
    from kafka_classic.client.admin import describe_topics

    with connect(bootstrap) as cluster:
        topics = describe_topics(cluster, None if name is None else [name])
        found = {
            topic.name: [
                one
                for one in partitions
                if (not under_replicated or one.under_replicated) and (not unavailable or not one.live)
            ]
            for topic, partitions in zip(topics, _described(cluster, topics, offsets or json), strict=True)
        }
        settings = _settings(cluster, [topic.name for topic in topics])
    filtered = under_replicated or unavailable
    if json:
        told = [_as_mapping(topic, found[topic.name], settings[topic.name]) for topic in topics]
        show.as_json(told[0] if name is not None else [each for each in told if each["partitions"] or not filtered])
        return
    for topic in topics:
        # As kafka-topics.sh: a search for partitions lists partitions alone.
        if not filtered:
            print(topic_line(topic, settings[topic.name]))
        for one in found[topic.name]:
            print(partition_line(topic.name, one, offsets))


def topic_line(topic: Topic, settings: Mapping[str, str | None]) -> str:
    """The line of a topic, as kafka-topics.sh prints it."""
    factor = max((len(partition.replicas) for partition in topic.partitions), default=0)
    configs = ",".join(f"{name}={value}" for name, value in settings.items())
    id = f"\tTopicId: {_short(topic.id)}" if topic.id else ""
    return (
        f"Topic: {topic.name}{id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {configs}"
    )


def partition_line(topic: str, one: Described, offsets: bool = False) -> str:
    """The line of a partition, as kafka-topics.sh prints it; the offsets, which that does not tell, come last."""
    partition = one.partition
    line = (
        f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {partition.leader if one.live else 'none'}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
    )
    if one.move is not None:
        line += f"\tAdding Replicas: {_ids(one.move.adding)}\tRemoving Replicas: {_ids(one.move.removing)}"
    if offsets:
        line += "".join(
            f"\t{word}: {'unknown' if offset is None else offset}"
            for word, offset in (("StartOffset", one.start), ("EndOffset", one.end))
        )
    return line


def _as_mapping(topic: Topic, partitions: list[Described], settings: Mapping[str, str | None]) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": str(topic.id),
        "partitions": [
            {
                "partition": one.partition.index,
                "leader": one.partition.leader if one.live else None,
                "leader_epoch": one.partition.leader_epoch if one.partition.leader_epoch >= 0 else None,
                "replicas": list(one.partition.replicas),
                "isr": list(one.partition.isr),
                "offline": list(one.partition.offline),
                "adding": list(one.move.adding) if one.move else [],
                "removing": list(one.move.removing) if one.move else [],
                "start": one.start,
                "end": one.end,
            }
            for one in partitions
        ],
        "configs": dict(settings),
    }


def _described(cluster: Cluster, topics: list[Topic], with_offsets: bool) -> list[list[Described]]:
    """The topics' partitions, with what else can be learned of them now."""
    from kafka_classic.client.admin import EARLIEST, LATEST

    live = cluster.brokers()
    led = [(topic.name, one.index) for topic in topics for one in topic.partitions if one.leader in live]
    start = _offsets(cluster, led, EARLIEST) if with_offsets else {}
    end = _offsets(cluster, led, LATEST) if with_offsets else {}
    moves = _moves(cluster)
    return [
        [
            Described(
                one,
                one.leader in live,
                start.get((topic.name, one.index)),
                end.get((topic.name, one.index)),
                moves.get((topic.name, one.index)),
            )
            for one in topic.partitions
        ]
        for topic in topics
    ]


def _offsets(cluster: Cluster, led: list[tuple[str, int]], when: int) -> dict[tuple[str, int], int]:
    """Offsets of partitions that have a leader to ask; all stay unknown while one of those does not answer."""
    from kafka_classic.client.admin import list_offsets
    from kafka_classic.wire.errors import KafkaError

    try:
        found = list_offsets(cluster, dict.fromkeys(led, when), deadline=_PATIENCE_S)
    except KafkaError as error:
        if not error.retriable:
            raise
        return {}
    return {at: one.offset for at, one in found.items()}


def _moves(cluster: Cluster) -> dict[tuple[str, int], Reassignment]:
    """The partitions that are on their way to other brokers; none are shown while no controller answers."""
    from kafka_classic.client.admin import list_reassignments
    from kafka_classic.wire.errors import KafkaError

    try:
        return list_reassignments(cluster, timeout=_PATIENCE_S)
    except KafkaError:
        return {}


def _settings(cluster: Cluster, names: list[str]) -> dict[str, dict[str, str | None]]:
    from kafka_classic.client.admin import describe_topic_configs

    found = describe_topic_configs(cluster, names)
    return {
        name: {setting.name: setting.value for setting in found.get(name, ()) if not setting.is_default}
        for name in names
    }


def _short(id: uuid.UUID) -> str:
    """A topic's id as Kafka's tools write it."""
    return base64.urlsafe_b64encode(id.bytes).rstrip(b"=").decode()


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
