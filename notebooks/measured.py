"""What `bench/` measured, kept in measured.jsonl: a notebook reads it where there is no RabbitMQ to measure.

    found = measured.read()                         # or read(Path("bench/results/paper.jsonl")): a run of one's own
    measured.one(found, "produce", "rabbitmq", batch=1)["median"]

A notebook says nothing in numbers that it did not take from such a line: the file can be measured anew at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kafka_classic.notebooks.charts import Line

Found = dict[str, list[Any]]  # by experiment, the lines of its last run

NAME = "measured.jsonl"
OURS, OWN = "classic-librdkafka", "classic-own"
# How many times its rivals the paper's Kafka was, in its own words (P28, P29). Its rivals had no batches.
PAPER_TIMES = {
    ("produce", 1, "rabbitmq"): "at least 2",
    ("produce", 1, "activemq"): "orders of magnitude",
    ("produce", 50, "rabbitmq"): "at least 16",
    ("produce", 50, "activemq"): "orders of magnitude",
    ("consume", None, "rabbitmq"): "more than 4",
    ("consume", None, "activemq"): "more than 4",
}


def read(path: Path | None = None) -> Found:
    """The lines kept with the notebooks, or those of a file."""
    text = (path or files("kafka_classic.notebooks") / NAME).read_text(encoding="utf-8")
    return last_runs(json.loads(line) for line in text.splitlines())


def last_runs(lines: Iterable[Line]) -> Found:
    """The lines by experiment; of one that was measured several times, the last run."""
    last: Found = {}
    for line in lines:
        found = last.setdefault(line["experiment"], [])
        if found and found[0]["run"] != line["run"]:
            found.clear()
        found.append(line)
    return last


def one(found: Found, experiment: str, subject: str, **case: object) -> Line:
    """The line of a subject whose case has these values."""
    for line in found[experiment]:
        if line["subject"] == subject and case.items() <= line["case"].items():
            return dict(line)
    raise LookupError(f"{experiment} was not measured of {subject} with {case}")


class Times(NamedTuple):
    """How many times as many messages a second as a rival: by librdkafka, by our own clients, and the paper's Kafka."""

    experiment: str
    batch: int | None
    against: str
    median: float  # of librdkafka's, round by round
    low: float
    high: float
    own: float | None  # of the medians
    paper: str


def times(found: Found) -> list[Times]:
    """Each ratio to a rival that was measured, in the order of the experiments."""
    rows = []
    for line in found["times"]:
        experiment, batch, against = (line["case"].get(key) for key in ("experiment", "batch", "against"))
        own = [
            each["ratio"].get(against)
            for each in found[experiment]
            if each["subject"] == OWN and each["case"].get("batch") == batch
        ]
        rows.append(
            Times(
                *(experiment, batch, against, line["median"], line["low"], line["high"]),
                *(own[0] if own else None, PAPER_TIMES.get((experiment, batch, against), "")),
            )
        )
    return sorted(rows, key=lambda row: (row.experiment == "consume", row.batch or 0))


def machine(line: Line) -> str:
    """What a line was measured on, and when."""
    about = line["machine"]
    return (
        f"{about['cores']} cores, {about['cpu']}, {about['memory_gb']:g} GB, Linux {about['kernel']}, "
        f"Python {about['python']}; {line['run'].partition('T')[0]}"
    )
