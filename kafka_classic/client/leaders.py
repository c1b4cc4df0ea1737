"""One question about many partitions: each leader asked once, all at the same time, the failed ones asked again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import Connection, Pending
from kafka_classic.wire.errors import Error, KafkaError, default_message

W = TypeVar("W")
R = TypeVar("R")
TopicPartition: TypeAlias = tuple[str, int]


class Outcome(NamedTuple, Generic[R]):
    """What a leader answered for one partition."""

    error: int
    value: R


class Question(NamedTuple, Generic[W, R]):
    """How to ask a leader about some of its partitions, and how to read what it answers."""

    send: Callable[[Connection, Mapping[TopicPartition, W]], Pending[object]]
    read: Callable[[object], Mapping[TopicPartition, Outcome[R]]]


def ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, W], question: Question[W, R], deadline: float | None = None
) -> dict[TopicPartition, R]:
    """Return an answer for every partition, or raise the error of one that has none within the deadline."""
    answered: dict[TopicPartition, R] = {}

    def attempt() -> None:
        by_leader: dict[int, dict[TopicPartition, W]] = defaultdict(dict)
        for partition, what in wanted.items():
            if partition not in answered:
                by_leader[cluster.leader_now(*partition)][partition] = what
        failures: list[KafkaError] = []
        pending = []
        for leader, share in by_leader.items():
            try:
                pending.append((share, question.send(cluster.connection(leader), share)))
            except KafkaError as error:
                failures.append(error)
        for share, one in pending:
            try:
                outcomes = question.read(one.result())
            except KafkaError as error:
                failures.append(error)
                continue
            for topic, index in share:
                outcome = outcomes.get((topic, index))
                code = Error.unknown_server_error if outcome is None else outcome.error
                if outcome is None or code:
                    failures.append(partition_error(code, topic, index))
                else:
                    answered[topic, index] = outcome.value
        # What another attempt cannot mend is told first.
        if failures:
            raise min(failures, key=lambda failure: failure.retriable)

    cluster.retrying(attempt, deadline)
    return answered


def partition_error(code: int, topic: str, index: int, message: str | None = None) -> KafkaError:
    """Return the error of one partition, with its name and what to do."""
    plain = KafkaError(code, message)
    return KafkaError(code, f"partition {index} of {topic!r}: {message or default_message(plain.code)}")
