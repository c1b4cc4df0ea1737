"""The measuring script of the records runs, and prints both of its forms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "records.py"


def run(*arguments: str) -> str:
    command = [sys.executable, "-P", str(SCRIPT), "--count", "10", "--size", "20", "--repeats", "1", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_figures_come_as_json_for_every_codec() -> None:
    rows = json.loads(run("--json"))["rows"]
    assert {row["codec"] for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(row["encode"] > 0 and row["decode"] > 0 for row in rows)
    assert [row["count"] > 0 for row in rows if row["codec"] == "none"] == [True] * 4


def test_the_figures_come_as_a_table() -> None:
    assert "all sizes  zstd" in run()
