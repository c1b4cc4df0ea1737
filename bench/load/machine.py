"""The machine a figure was measured on, and which processor runs what: a figure without these says nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROKER_CORE = 0
CLIENT_CORE = 1


def describe() -> dict[str, Any]:
    """Return what one must know to compare two runs."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this thread, and the processes and threads it starts meanwhile, on one core; a lone core is left alone."""
    before = os.sched_getaffinity(0)
    if core in before and len(before) > 1:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def unpinned() -> Iterator[None]:
    """Let this thread, and the threads it starts meanwhile, run on every core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def prefer(pid: int, nice: int) -> None:
    """Give a process's session (broker or clients) more of a shared machine than others get; below 0 needs root."""
    # The scheduler weighs sessions against each other, and `nice` only within one.
    group = Path(f"/proc/{pid}/autogroup")
    if nice and group.exists():
        group.write_text(str(nice))


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
