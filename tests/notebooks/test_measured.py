"""What `bench/` measured and the notebooks draw: all that they need is kept with them, and the last run counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.load.results import Line, read
from kafka_classic.notebooks import measured
from tests.bench.lines import kept

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "notebooks" / measured.NAME
LARGEST = 300 << 10


def test_what_is_kept_is_small_and_has_each_experiment_once() -> None:
    lines = read(KEPT)  # which looks at each for what every line has
    assert KEPT.stat().st_size <= LARGEST
    assert sum(map(len, measured.last_runs(lines).values())) == len(lines)


def test_what_is_kept_has_all_that_the_notebooks_draw() -> None:
    found = measured.read(KEPT)
    for subject in (measured.OURS, measured.OWN, "rabbitmq", "activemq"):
        assert measured.one(found, "consume", subject)["series"]
        for batch in (1, 50):
            assert measured.one(found, "produce", subject, batch=batch)["series"]
            assert measured.one(found, "overhead", subject, batch=batch, of="disk")["runs"]
    assert {(row.experiment, row.batch, row.against) for row in measured.times(found)} >= measured.PAPER_TIMES.keys()
    assert {line["case"]["consumer"] for line in found["lagging"]} == {"none", "at the end", "lagging"}
    assert {line["subject"] for line in found["rebalance"]} == {"zookeeper", "coordinator"}
    assert {line["case"]["figure"] for line in found["rebalance"]} == {"time", "requests"}
    assert found.keys() >= {"stored", "replicas", "latency", "partitions"}


def test_what_is_installed_is_what_is_kept() -> None:
    assert measured.read() == measured.read(KEPT)


def line(experiment: str, subject: str, /, *runs: float, **case: str | int | float) -> Line:
    return Line(experiment, subject, case, "msg/s", list(runs))


def test_of_an_experiment_that_was_measured_twice_the_last_run_counts(tmp_path: Path) -> None:
    path = kept(tmp_path / "r.jsonl", line("produce", "rabbitmq", 1.0, batch=1), line("consume", "rabbitmq", 5.0))
    later = kept(tmp_path / "later.jsonl", line("produce", "rabbitmq", 2.0, batch=1)).read_text()
    with open(path, "a") as file:
        file.write(later.replace('"run": "', '"run": "9'))
    found = measured.read(path)
    assert [each["median"] for each in found["produce"]] == [2.0]
    assert [each["median"] for each in found["consume"]] == [5.0]


def test_ratios_stand_beside_the_papers(tmp_path: Path) -> None:
    path = kept(
        tmp_path / "r.jsonl",
        line("times", measured.OURS, 30.0, 40.0, 60.0, experiment="consume", against="rabbitmq"),
        line("times", measured.OURS, 3.0, experiment="produce", against="rabbitmq", batch=1),
        line("produce", measured.OWN, 30.0, batch=1),
        line("produce", "rabbitmq", 20.0, batch=1),
        line("consume", "rabbitmq", 20.0),
    )
    assert measured.times(measured.read(path)) == [
        ("produce", 1, "rabbitmq", 3.0, 3.0, 3.0, 1.5, "at least 2"),
        ("consume", None, "rabbitmq", 40.0, 30.0, 60.0, None, "more than 4"),
    ]


def test_a_line_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = measured.read(kept(tmp_path / "r.jsonl", line("produce", "rabbitmq", 1.0, batch=1)))
    assert measured.one(found, "produce", "rabbitmq", batch=1)["median"] == 1.0
    with pytest.raises(LookupError, match="produce was not measured of rabbitmq"):
        measured.one(found, "produce", "rabbitmq", batch=50)
