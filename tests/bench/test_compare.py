"""Comparing two runs: what counts as better or worse, and what the program prints and returns."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.compare import Verdict, change, compare, verdict
from bench.load.results import Line, read, whole
from tests.bench.lines import MACHINE, kept, line

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "compare.py"


def one(runs: list[float], **more: Any) -> dict[str, Any]:
    return {"run": "now", "machine": MACHINE, **whole(line(runs, **more), [])}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([100.0, 101.0, 102.0], [110.0, 111.0, 112.0], Verdict.BETTER),
        ([110.0, 111.0, 112.0], [100.0, 101.0, 102.0], Verdict.WORSE),
        ([100.0, 101.0, 102.0], [103.0, 104.0, 105.0], Verdict.SAME),  # apart, but by 3 % only
        ([80.0, 100.0, 130.0], [125.0, 150.0, 170.0], Verdict.SAME),  # by half, but the intervals overlap
        ([100.0, 101.0, 102.0], [102.0, 120.0, 130.0], Verdict.SAME),  # they touch
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], Verdict.SAME),
        ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], Verdict.BETTER),
    ],
)
def test_a_case_changed_if_intervals_and_medians_are_apart(
    before: list[float], after: list[float], expected: Verdict
) -> None:
    assert verdict(one(before), one(after)) is expected


def test_where_less_is_better_more_is_worse() -> None:
    fast, slow = [1.0, 1.1, 1.2], [2.0, 2.1, 2.2]
    assert verdict(one(fast, more_is_better=False), one(slow, more_is_better=False)) is Verdict.WORSE
    assert verdict(one(slow, more_is_better=False), one(fast, more_is_better=False)) is Verdict.BETTER


def test_of_fewer_than_three_runs_a_quarter_is_asked_for() -> None:
    assert verdict(one([100.0]), one([120.0])) is Verdict.SAME
    assert verdict(one([100.0]), one([130.0])) is Verdict.BETTER
    assert verdict(one([99.0, 100.0, 101.0]), one([120.0, 121.0])) is Verdict.SAME


def test_the_change_is_a_share_of_what_was() -> None:
    assert change(one([200.0]), one([150.0])) == -0.25


def test_cases_of_one_run_only_are_named_and_not_compared() -> None:
    same = one([1.0] * 3)
    gone = one([1.0] * 3, subject="rabbitmq")
    new = one([1.0] * 3, case={"batch": 1})
    both, only_before, only_after = compare([same, gone], [new, same])
    assert [compared.before["subject"] for compared in both] == ["kafka-classic"]
    assert only_before == ["produce: batch 50; rabbitmq, msg/s"]
    assert only_after == ["produce: batch 1; kafka-classic, msg/s"]


def test_the_same_case_in_another_unit_is_another_case() -> None:
    both, only_before, only_after = compare([one([1.0])], [one([1.0], unit="MB/s")])
    assert (both, len(only_before), len(only_after)) == ([], 1, 1)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


FAST = line([100.0, 101.0, 102.0])
SLOW = line([50.0, 51.0, 52.0])
OTHER = Line(**{**asdict(FAST), "subject": "rabbitmq"})


def test_the_exit_code_is_1_if_something_got_worse(tmp_path: Path) -> None:
    a, b = kept(tmp_path / "a.jsonl", FAST, OTHER), kept(tmp_path / "b.jsonl", SLOW, OTHER)
    done = run(a, b)
    assert done.returncode == 1, done.stderr
    assert "-49.5%" in done.stdout
    assert "0 better, 1 worse, 1 within the noise" in done.stdout


def test_the_exit_code_is_0_if_nothing_got_worse(tmp_path: Path) -> None:
    a, b = kept(tmp_path / "a.jsonl", SLOW, OTHER), kept(tmp_path / "b.jsonl", FAST)
    done = run(a, b)
    assert done.returncode == 0, done.stderr
    assert "only in A: produce: batch 50; rabbitmq, msg/s" in done.stdout


def test_json_has_the_same(tmp_path: Path) -> None:
    a, b = kept(tmp_path / "a.jsonl", FAST), kept(tmp_path / "b.jsonl", SLOW, OTHER)
    done = run(a, b, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [(case["verdict"], case["before"]["median"], case["after"]["median"]) for case in told["cases"]] == [
        ("worse", 101.0, 51.0)
    ]
    assert told["only_after"] == ["produce: batch 50; rabbitmq, msg/s"]


def test_other_conditions_are_named(tmp_path: Path) -> None:
    a, b = kept(tmp_path / "a.jsonl", FAST), kept(tmp_path / "b.jsonl", FAST)
    lines = [{**found, "machine": {**MACHINE, "cores": 64}} for found in read(b)]
    b.write_text("".join(json.dumps(found) + "\n" for found in lines))
    assert "not the same conditions: cores: 2 before, 64 after" in run(a, b).stdout


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    a, b = kept(tmp_path / "a.jsonl", FAST), kept(tmp_path / "b.jsonl", OTHER)
    for arguments, words in (
        ((a, tmp_path / "nowhere.jsonl"), "No such file"),
        ((f"{a}@1999", b), "no run 1999"),
        ((a, b), "no case is in both runs"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
