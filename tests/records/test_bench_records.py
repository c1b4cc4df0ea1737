"""The measuring script of the records runs, and prints both of its forms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "records.py"


def run(results: Path, *arguments: str) -> str:
    command = [sys.executable, "-P", str(SCRIPT), "--count", "10", "--size", "20", "--repeats", "1"]
    command += ["--results", str(results), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_figures_come_as_json_for_every_codec(tmp_path: Path) -> None:
    rows = json.loads(run(tmp_path / "kept.jsonl", "--json"))["rows"]
    assert {row["codec"] for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(row["encode"] > 0 and row["decode"] > 0 for row in rows)
    assert [row["count"] > 0 for row in rows if row["codec"] == "none"] == [True] * 4


def test_the_figures_come_as_a_table(tmp_path: Path) -> None:
    assert "all sizes  zstd" in run(tmp_path / "kept.jsonl")


def test_every_figure_is_kept_as_a_line_of_its_own(tmp_path: Path) -> None:
    run(tmp_path / "kept.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert {line["experiment"] for line in lines} == {"records"}
    assert {(line["case"]["codec"], line["case"]["work"]) for line in lines} >= {("zstd", "decode"), ("none", "count")}
