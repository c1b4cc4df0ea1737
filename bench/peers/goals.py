"""How many times as fast as its rivals kafka-classic is to be, and how often it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bench.load.results import Case, Line
from bench.peers.comparison import Comparison

OURS = "classic-librdkafka"


class Times(NamedTuple):
    """`batch` is None for reading. Our client is librdkafka: theirs are compiled too."""

    batch: int | None
    against: str
    reach: float | None


TIMES = (
    Times(50, "rabbitmq", 20),
    Times(50, "activemq", 25),
    Times(1, "rabbitmq", 1.5),
    Times(1, "activemq", None),
    Times(50, "rabbitmq-transient", None),
    Times(50, "apache-kafka", None),
    Times(1, "apache-kafka", None),
    Times(None, "rabbitmq", 15),
    Times(None, "activemq", 15),
    Times(None, "apache-kafka", None),
)


def lines(comparison: Comparison, wanted: Sequence[str]) -> list[Line]:
    """A ratio a line, taken within each round."""
    found = []
    for times in TIMES:
        experiment = "consume" if times.batch is None else "produce"
        runs = comparison.ratios(OURS, times.against, times.batch)
        if not runs or experiment not in wanted:
            continue
        case: Case = {"experiment": experiment, "against": times.against}
        if times.batch is not None:
            case["batch"] = times.batch
        found.append(Line("times", OURS, case, "times", runs, goal=times.reach))
    return found
