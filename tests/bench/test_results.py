"""What is kept of a run: every value, ratios to others of the same case, and whether the goal was reached."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench.load import results
from bench.load.measure import Goal, Sample, lines_of
from bench.load.results import NotResults, ratios, read, read_run
from tests.bench.lines import MACHINE, kept, line


def test_a_ratio_is_that_of_the_medians_in_the_same_case() -> None:
    ours = line([900.0, 1000.0, 5000.0])
    rabbitmq = line([40.0, 50.0, 51.0], subject="rabbitmq")
    others = [
        ours,
        rabbitmq,
        line([1.0], subject="activemq", case={"batch": 1}),
        line([1.0], subject="activemq", experiment="consume"),
    ]
    assert ratios(ours, others) == {"rabbitmq": 20.0}
    assert ratios(rabbitmq, others) == {"kafka-classic": 0.05}


def test_a_subject_that_did_nothing_has_no_ratio() -> None:
    assert ratios(line([1.0]), [line([0.0], subject="rabbitmq")]) == {}


def test_a_ratio_is_taken_within_a_run_only(tmp_path: Path) -> None:
    path = kept(tmp_path / "r.jsonl", line([100.0]), line([10.0], subject="rabbitmq"))
    kept(path, line([500.0]), line([100.0], subject="rabbitmq"))
    assert [one["ratio"] for one in read(path) if one["subject"] == "kafka-classic"] == [
        {"rabbitmq": 10.0},
        {"rabbitmq": 5.0},
    ]


@pytest.mark.parametrize(
    ("more_is_better", "goal", "reached"),
    [(True, 10.0, True), (True, 10.1, False), (False, 10.0, True), (False, 9.9, False), (True, None, None)],
)
def test_a_goal_is_reached_by_the_median(more_is_better: bool, goal: float | None, reached: bool | None) -> None:
    assert line([1.0, 10.0, 99.0], more_is_better=more_is_better, goal=goal).reached is reached


def test_a_line_is_kept_with_all_its_runs_and_the_machine(tmp_path: Path) -> None:
    (found,) = read(kept(tmp_path / "new" / "r.jsonl", line([3.0, 1.0, 2.0], goal=2.0, server_cpu_us=[7.0, 8.0, 9.0])))
    assert found["runs"] == [3.0, 1.0, 2.0]
    assert (found["median"], found["low"], found["high"], found["reached"]) == (2.0, 1.0, 3.0, True)
    assert found["server_cpu_us"] == [7.0, 8.0, 9.0]
    assert found["machine"] == MACHINE


def test_a_programs_run_says_whether_it_was_the_quick_form(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    results.keep_run([line([1.0])], argparse.Namespace(results=path, quick=True))
    results.keep_run([line([1.0])], argparse.Namespace(results=path))
    assert [one["machine"]["quick"] for one in read(path)] == [True, False]
    assert read(path)[0]["machine"].keys() >= MACHINE.keys()


def test_an_indented_row_is_named_after_the_one_above_it() -> None:
    table = [("one", 1.0, "µs"), ("  bytes", 2.0, "MB/s of CPU"), ("other", 3.0, "µs"), ("  bytes", 4.0, "MB/s of CPU")]
    found = results.rows("log", table)
    assert [line.case["case"] for line in found] == ["one", "one: bytes", "other", "other: bytes"]
    assert [line.more_is_better for line in found] == [False, True, False, True]


def _with_run(path: Path, run: str) -> None:
    lines = read(path)
    lines[-1]["run"] = run
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def test_the_last_run_counts_unless_another_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for run, value in (("2026-01-01T00:00:00Z", 1.0), ("2026-01-02T00:00:00Z", 2.0)):
        kept(path, line([value]))
        _with_run(path, run)
    assert [one["median"] for one in read_run(str(path))] == [2.0]
    assert [one["median"] for one in read_run(f"{path}@2026-01-01T00:00:00Z")] == [1.0]
    assert [one["median"] for one in read_run(f"{path}@2026-01-01")] == [1.0]
    with pytest.raises(NotResults, match="no run 2025; there are 2026-01-01T00:00:00Z, 2026-01-02"):
        read_run(f"{path}@2025")


@pytest.mark.parametrize("content", ["", "not json\n", '{"experiment": "produce"}\n', "[1, 2]\n"])
def test_what_is_not_results_is_refused_by_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(content)
    with pytest.raises(NotResults, match=r"r\.jsonl"):
        read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotResults, match="No such file"):
        read_run(str(tmp_path / "nowhere.jsonl"))


def test_a_case_of_several_figures_becomes_a_line_for_each() -> None:
    goals = (Goal("p50", "ms", 1.0, False), Goal("p99", "ms", more_is_better=False))
    samples = [Sample({"p50": 0.5, "p99": 2.0}, cpu_s=2.0, wall_s=4.0, units=1e6, unit="message", client_cpu_s=3.0)] * 3
    p50, p99 = lines_of("latency", "kafka-classic", {"per_second": 100}, goals, samples)
    assert p50.case == {"per_second": 100, "figure": "p50"}
    assert p99.case == {"per_second": 100, "figure": "p99"}
    assert (p50.runs, p50.reached, p99.reached) == ([0.5] * 3, True, None)
    assert p50.server_cpu_us == [2.0] * 3
    assert p50.client_cpu_us == [3.0] * 3


def test_a_case_of_one_figure_does_not_name_it() -> None:
    sample = Sample({"rate": 5.0}, cpu_s=1.0, wall_s=1.0, units=1, unit="message")
    (found,) = lines_of("partitions", "kafka-classic", {"partitions": 1}, (Goal("rate", "msg/s"),), [sample])
    assert found.case == {"partitions": 1}
    assert found.client_cpu_us == []
