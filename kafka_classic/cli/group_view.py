"""What is known of a group: by ZooKeeper's registries, by the coordinator among the brokers, or by both, in one shape.

A group's kind says who shares its partitions out: its members themselves, through ZooKeeper, or the brokers. One of the
first kind may keep its offsets in the brokers too (`offsets.storage=kafka`). There it never has members, so what they
keep under its name is taken for its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.reach import brokers_of, connect, connect_zookeeper

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.groups import DescribedGroup
    from kafka_classic.zk.session import Session

TopicPartition = tuple[str, int]


class Kind(StrEnum):
    """Who shares the partitions of a group out."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


OfKind = Annotated[
    Kind | None, typer.Option("--kind", help="Only groups that are balanced through ZooKeeper, or by the brokers.")
]
OnlyBrokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        help="Ask these brokers and no ZooKeeper. Else ZooKeeper is asked, and the brokers that it names.",
    ),
]


class Reach(NamedTuple):
    """The way to both: no session if only brokers were named, no cluster if none is registered."""

    session: Session | None
    cluster: Cluster | None

    def brokers(self) -> Cluster:
        """The brokers; raises if there is none."""
        if self.cluster is None:
            assert self.session is not None
            brokers_of(self.session)
            raise AssertionError("a broker has come meanwhile")
        return self.cluster


@contextmanager
def reach(zookeeper: str | None, bootstrap: str | None) -> Iterator[Reach]:
    """Connects to ZooKeeper and the brokers registered there, or to the brokers that were named alone."""
    with ExitStack() as stack:
        if bootstrap is not None:
            yield Reach(None, stack.enter_context(connect(bootstrap)))
            return
        session = stack.enter_context(connect_zookeeper(zookeeper))
        try:
            cluster = stack.enter_context(connect(brokers_of(session)))
        except CommandFailed as error:
            print(f"warning: groups of the brokers are not shown: {error.message}", file=sys.stderr)
            yield Reach(session, None)
            return
        yield Reach(session, cluster)


@dataclass(frozen=True, slots=True)
class Group:
    """A group as one of the two tells of it. An owner is a consumer's thread, or the id of a member."""

    name: str
    kind: Kind
    state: str
    members: Sequence[str] = ()
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    unowned: frozenset[TopicPartition] = frozenset()  # what its members want, and nobody owns yet
    stores: tuple[Kind, ...] = ()  # who keeps its offsets

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset({*self.owners, *self.offsets, *self.unowned})


def names(there: Reach, kind: Kind | None) -> list[str]:
    """The names of all groups of that kind, or of both."""
    from kafka_classic.client.groups import list_groups
    from kafka_classic.zk.offsets import OffsetRegistry

    found: set[str] = set()
    if there.session is not None and kind is not Kind.KAFKA:
        found |= set(OffsetRegistry(there.session).groups())
    if there.cluster is not None and kind is not Kind.ZOOKEEPER:
        found |= {group.name for group in list_groups(there.cluster)}
    return sorted(found)


def look(there: Reach, name: str, kind: Kind | None) -> list[Group]:
    """The group of this name; two if both kinds have one; none if nobody knows it."""
    from kafka_classic.client.coordinator import Coordinator
    from kafka_classic.client.group_offsets import fetch_offsets
    from kafka_classic.client.groups import describe_group
    from kafka_classic.zk.paths import can_be_a_name

    described, kept = None, {}
    if there.cluster is not None:
        coordinator = Coordinator(there.cluster, name)
        described = describe_group(coordinator)
        kept = fetch_offsets(coordinator) if described is not None else {}
    in_zookeeper = None
    if there.session is not None and can_be_a_name(name):
        in_zookeeper = _of_zookeeper(there.session, name)
    found = merged(in_zookeeper, described and _of_brokers(described, kept))
    return [group for group in found if kind in (None, group.kind)]


def merged(in_zookeeper: Group | None, in_brokers: Group | None) -> list[Group]:
    """One group where the brokers only keep the offsets of one that ZooKeeper knows; the larger offset counts."""
    if in_zookeeper is None or in_brokers is None:
        return [group for group in (in_zookeeper, in_brokers) if group is not None]
    if in_brokers.state != _ONLY_OFFSETS:
        return [in_zookeeper, in_brokers]
    offsets = dict(in_zookeeper.offsets)
    for at, offset in in_brokers.offsets.items():
        offsets[at] = max(offset, offsets.get(at, offset))
    return [
        Group(
            in_zookeeper.name,
            Kind.ZOOKEEPER,
            in_zookeeper.state,
            in_zookeeper.members,
            in_zookeeper.owners,
            offsets,
            in_zookeeper.unowned,
            (*in_zookeeper.stores, *in_brokers.stores),
        )
    ]


_ONLY_OFFSETS = "OnlyOffsets"
_STATES = {_ONLY_OFFSETS: "Empty"}


def state_of(group: Group) -> str:
    """The state by Kafka's word."""
    return _STATES.get(group.state, group.state)


def _of_zookeeper(session: Session, name: str) -> Group | None:
    from kafka_classic.consumer.assign import plan
    from kafka_classic.zk.consumers import GroupRegistry
    from kafka_classic.zk.offsets import OffsetRegistry
    from kafka_classic.zk.topics import TopicRegistry

    registry = GroupRegistry(session, name)
    members, owners, offsets = registry.members(), registry.owners(), OffsetRegistry(session).all(name)
    if not members and not owners and not offsets and name not in OffsetRegistry(session).groups():
        return None
    planned: dict[TopicPartition, str] = {}
    if members:
        topics = TopicRegistry(session).all()
        planned = plan({topic: tuple(one.assignment) for topic, one in topics.items()}, members)
    return Group(
        name,
        Kind.ZOOKEEPER,
        "Empty" if not members else "Stable" if owners == planned else "Rebalancing",
        sorted(members),
        owners,
        offsets,
        frozenset(planned.keys() - owners.keys()),
        (Kind.ZOOKEEPER,) if offsets else (),
    )


def _of_brokers(described: DescribedGroup, offsets: Mapping[TopicPartition, int]) -> Group:
    only_offsets = not described.members and not described.protocol_type
    return Group(
        described.name,
        Kind.KAFKA,
        _ONLY_OFFSETS if only_offsets else described.state,
        sorted(member.id for member in described.members),
        {at: member.id for member in described.members for at in member.partitions},
        offsets,
        stores=(Kind.KAFKA,),
    )


def ends_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The end of each log; of topics that are gone, or partitions without a leader, there is none."""
    from kafka_classic.client.admin import LATEST, list_offsets

    wanted = set(partitions)
    known = cluster.metadata(sorted({topic for topic, _ in wanted})).topics
    led = {
        (topic.name, partition.index)
        for topic in known.values()
        if not topic.error
        for partition in topic.partitions
        if partition.leader >= 0
    }
    return {at: found.offset for at, found in list_offsets(cluster, dict.fromkeys(wanted & led, LATEST)).items()}
