"""What a client knows of a cluster: its brokers, its topics, who leads what. Values only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_classic.wire.errors import Error


class Broker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the metadata tells it; `leader` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: Error


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, or the reason why it cannot be told of; its partitions in order of their numbers."""

    name: str
    id: uuid.UUID | None
    partitions: tuple[Partition, ...]
    internal: bool = False
    error: Error = Error.none

    def partition(self, index: int) -> Partition | None:
        # Numbers run from 0 without a gap in any sound answer; an unsound one is searched.
        if index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((partition for partition in self.partitions if partition.index == index), None)


@dataclass(frozen=True, slots=True)
class Metadata:
    """One broker's view of the cluster at one moment."""

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]


NOTHING_KNOWN = Metadata(None, -1, {}, {})


def read_metadata(answer: Any) -> Metadata:
    """Turn a Metadata response (the newest version's class) into values of ours."""
    return Metadata(
        answer.cluster_id,
        int(answer.controller_id),
        {int(b.node_id): Broker(int(b.node_id), str(b.host), int(b.port), b.rack) for b in answer.brokers},
        {
            str(topic.name): Topic(
                str(topic.name),
                topic.topic_id,
                tuple(sorted(map(_read_partition, topic.partitions), key=lambda partition: partition.index)),
                topic.is_internal,
                topic.error_code,
            )
            for topic in answer.topics
        },
    )


def _read_partition(partition: Any) -> Partition:
    return Partition(
        int(partition.partition_index),
        int(partition.leader_id),
        int(partition.leader_epoch),
        tuple(map(int, partition.replica_nodes)),
        tuple(map(int, partition.isr_nodes)),
        tuple(map(int, partition.offline_replicas)),
        partition.error_code,
    )


def updated(known: Metadata, answer: Metadata) -> Metadata:
    """Put a newer answer about some topics into what is known: brokers are told whole, topics only as asked."""
    return Metadata(answer.cluster_id, answer.controller, answer.brokers, {**known.topics, **answer.topics})
