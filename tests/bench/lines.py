"""Lines of results, made up for the tests of what reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.load.results import Line, keep

MACHINE = {"cores": 2, "cpu": "a processor", "memory_gb": 8.0, "kernel": "6", "python": "3.11", "load_average": 0.5}


def line(runs: list[float], *, subject: str = "kafka-classic", **more: Any) -> Line:
    """A line of the experiment `produce`, batch 50."""
    about: dict[str, Any] = {"experiment": "produce", "case": {"batch": 50}, "unit": "msg/s"}
    return Line(subject=subject, runs=runs, **{**about, **more})


def kept(path: Path, *lines: Line) -> Path:
    """A file with a run of these lines appended."""
    keep(list(lines), MACHINE, path)
    return path
