"""The machine a figure was measured on, and which processor runs what: a figure without these says nothing."""

from __future__ import annotations

import math
import os
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Taken once, before anything is pinned: one core is the broker's, another the clients'; a lone core is shared.
ALL_CORES = os.sched_getaffinity(0)
BROKER_CORE = {min(ALL_CORES)}
CLIENT_CORE = {max(ALL_CORES)}


def describe() -> dict[str, Any]:
    """Return what one must know to compare two runs."""
    return {
        "cores": len(ALL_CORES),
        "cpu": _cpu_model(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Keep this thread, and the processes and threads it starts meanwhile, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
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


def yardstick_us() -> float:
    """Return the processor time of one send and recv of 60 bytes over loopback, in µs, as it is right now.

    It is what the kernel alone takes of a request and its answer. On a shared machine it doubles while neighbours are
    busy, and everything else that is measured with it.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            best = math.inf
            buffer, message = bytearray(4096), bytes(60)
            for _ in range(20):
                begin = time.process_time_ns()
                for _ in range(500):
                    here.send(message)
                    there.recv_into(buffer)
                best = min(best, (time.process_time_ns() - begin) / 500_000)
    return best


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
