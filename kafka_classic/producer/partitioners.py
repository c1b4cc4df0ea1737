"""Which partition a message goes to: at random, or semantically by its key (P12), or as a callable says.

The named ones decide for messages without a key, among the partitions that have a leader now; a message with a key
goes where the Java client would send it, leader or not, for else its order would be lost.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from kafka_classic.producer.murmur2 import partition_for_key
from kafka_classic.settings import SettingsError, nearest

# (topic, key, number of partitions) -> partition
PartitionFunction: TypeAlias = Callable[[str, bytes | None, int], int]


class Keyless(Protocol):
    """Chooses for a message without a key."""

    def choose(self, topic: str, available: Sequence[int]) -> int: ...

    def batch_closed(self, topic: str) -> None: ...


class Random:
    """The paper's (P12): each message, or set of messages, anywhere."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return available[int(self._rng.random() * len(available))]

    def batch_closed(self, topic: str) -> None:
        pass


class RoundRobin:
    """One after the other, from a place that differs from producer to producer."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._turns: dict[str, itertools.count[int]] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns.setdefault(topic, itertools.count(self._rng.randrange(len(available))))
        return available[next(turn) % len(available)]

    def batch_closed(self, topic: str) -> None:
        pass


class Sticky:
    """Stays with a partition until its batch is full or sent: larger batches, and as even in the long run."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        now = self._now.get(topic)
        if now is None or now not in available:
            now = self._now[topic] = available[int(self._rng.random() * len(available))]
        return now

    def batch_closed(self, topic: str) -> None:
        self._now.pop(topic, None)


NAMED: dict[str, Callable[[random.Random], Keyless]] = {
    "sticky": Sticky,
    "random": Random,
    "round_robin": RoundRobin,
}


class Partitioner:
    """The choice as a whole: `partitioner` is a name of NAMED or a function of (topic, key, partitions)."""

    def __init__(self, partitioner: str | PartitionFunction, ignore_keys: bool, rng: random.Random) -> None:
        self.function: PartitionFunction | None = None
        self._ignore_keys = ignore_keys
        if callable(partitioner):
            self.function = partitioner
            partitioner = "random"
        if partitioner not in NAMED:
            raise SettingsError(
                f"unknown partitioner {partitioner!r}: one of {', '.join(NAMED)} or a function of "
                f"(topic, key, partitions){nearest(str(partitioner), NAMED)}"
            )
        self._keyless = NAMED[partitioner](rng)
        self.batch_closed = self._keyless.batch_closed

    def partition(self, topic: str, key: bytes | None, partitions: int, available: Sequence[int]) -> int:
        """Return where the message goes; ValueError if a function of the user's names no partition."""
        if self.function is not None:
            chosen = self.function(topic, key, partitions)
            if not 0 <= chosen < partitions:
                raise ValueError(
                    f"the partitioner chose {chosen} for {topic!r}, which has partitions 0 to {partitions - 1}"
                )
            return chosen
        if key is None or self._ignore_keys:
            return self._keyless.choose(topic, available)
        return partition_for_key(key, partitions)
