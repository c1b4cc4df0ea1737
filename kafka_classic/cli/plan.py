"""Plans of where partitions shall live: read, written and made. Values only, in the JSON of Kafka's own tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kafka_classic.cli.failure import CommandFailed

TopicPartition = tuple[str, int]
Plan = dict[TopicPartition, tuple[int, ...]]

_SHAPE = '{"version":1,"partitions":[{"topic":"events","partition":0,"replicas":[1,2,3]}]}'


def read_plan(path: Path) -> Plan:
    """The plan in a file of the shape that kafka-reassign-partitions.sh takes."""
    try:
        told = json.loads(path.read_text())
    except FileNotFoundError:
        raise CommandFailed(f"there is no plan {path}", "another --plan FILE") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is not JSON: {error}", f"a plan like {_SHAPE}") from error
    plan: Plan = {}
    try:
        for one in told["partitions"]:
            topic, index, replicas = one["topic"], one["partition"], one["replicas"]
            if not isinstance(topic, str) or not all(type(each) is int for each in (index, *replicas)):
                raise TypeError
            if (topic, index) in plan:
                raise CommandFailed(f"{path} names {topic}-{index} twice", "a plan with one line for it")
            plan[topic, index] = check_replicas(replicas, f"{topic}-{index} in {path}")
    except (KeyError, TypeError, ValueError):
        raise CommandFailed(f"{path} is not a plan of partitions", f"a file like {_SHAPE}") from None
    if not plan:
        raise CommandFailed(f"{path} names no partition", f"a plan like {_SHAPE}")
    return plan


def as_plan(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """The plan as Kafka's JSON object."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": index, "replicas": list(replicas)}
            for (topic, index), replicas in sorted(plan.items())
        ],
    }


def read_brokers(text: str, option: str) -> tuple[int, ...]:
    """Reads `1,2,3`."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise CommandFailed(f"{option} {text!r} is not a list of broker ids", f"{option} 1,2,3")
    return check_replicas([int(word) for word in words], f"{option} {text}")


def check_replicas(replicas: Sequence[int], where: str) -> tuple[int, ...]:
    """Replicas of one partition are one or more brokers, each named once."""
    if not replicas or len(set(replicas)) < len(replicas):
        raise CommandFailed(f"{where} names {'a broker twice' if replicas else 'no broker'}", "each broker's id once")
    return tuple(replicas)


def spread(
    current: Mapping[int, Sequence[int]], brokers: Sequence[int], factor: int | None = None
) -> dict[int, tuple[int, ...]]:
    """Replicas for each partition of a topic, over these brokers evenly, with as many of them as there are now.

    Leaders go round robin. Followers come after their leader at a distance that grows with every round, so that the
    partitions of a broker that dies are led by many others and not by its neighbour alone. Of all brokers that the
    round may begin with, the one that moves the fewest replicas is taken.
    """

    def at(start: int) -> dict[int, tuple[int, ...]]:
        placed: dict[int, tuple[int, ...]] = {}
        for turn, index in enumerate(sorted(current)):
            wanted = factor or len(current[index])
            first = (start + turn) % len(brokers)
            shift = turn // len(brokers)
            others = [1 + (shift + i) % (len(brokers) - 1) for i in range(wanted - 1)]
            placed[index] = tuple(brokers[(first + step) % len(brokers)] for step in (0, *others))
        return placed

    most = factor or max((len(replicas) for replicas in current.values()), default=0)
    if most > len(brokers):
        raise CommandFailed(
            f"{most} replicas do not fit on {len(brokers)} broker{'s' * (len(brokers) != 1)}",
            "more --to-brokers, or a smaller --replication-factor",
        )
    return min((at(start) for start in range(len(brokers))), key=lambda plan: _moved(current, plan))


def _moved(current: Mapping[int, Sequence[int]], plan: Mapping[int, Sequence[int]]) -> tuple[int, int]:
    """How many replicas have to be copied, then how many leaders change."""
    return (
        sum(len(set(plan[index]) - set(replicas)) for index, replicas in current.items()),
        sum(list(plan[index])[:1] != list(replicas)[:1] for index, replicas in current.items()),
    )


def names(partitions: Iterable[TopicPartition], most: int = 5) -> str:
    """The first few of some partitions, as `events-0, events-1 …`."""
    every = [f"{topic}-{index}" for topic, index in sorted(partitions)]
    return ", ".join(every[:most]) + (f" … ({len(every)} in all)" if len(every) > most else "")
