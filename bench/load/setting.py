"""What an experiment is told of its run, and the order of its work: cases take turns, so that noise meets all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.load.measure import Goal, Sample
from bench.load.target import Target, broker

# The subjects of most experiments: whose client it is.
LIBRDKAFKA, OWN = "kafka-classic (librdkafka)", "kafka-classic (its own client)"
RATE = (Goal("rate", "msg/s"),)

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """`tell` shows progress; the servers' data lies under `folder`, or where temporary files do."""

    quick: bool
    repeats: int
    folder: Path | None
    tell: Callable[[str], None]

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full

    @contextmanager
    def servers(self, brokers: int = 1) -> Iterator[Target]:
        """Servers and clients share all cores: three brokers and a client have no core of their own on two."""
        self.tell(f"starting ZooKeeper and {brokers} broker{'s' if brokers > 1 else ''}")
        with broker(self.quick, self.folder, 0, brokers) as target:
            yield target

    def in_turns(self, cases: Iterable[C], measure: Callable[[C], Sample]) -> dict[C, list[Sample]]:
        """The samples of each case: all cases once, then all again."""
        found: dict[C, list[Sample]] = {case: [] for case in cases}
        for turn in range(self.repeats):
            for number, case in enumerate(found, 1):
                words = " ".join(map(str, case)) if isinstance(case, tuple) else case
                self.tell(f"run {turn + 1} of {self.repeats}, case {number} of {len(found)}: {words}")
                found[case].append(measure(case))
        return found
