"""One operating-system process: told apart from a later one of the same pid, signalled, waited for, weighed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.01


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third (the state) on, or None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may itself hold spaces and brackets.
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Return when a live process started, in clock ticks since boot: with the pid it names one process for good."""
    fields = _stat(pid)
    # The first thread of a process that is ending may be a zombie while others still hold its files and locks.
    if fields is None or (fields[0] in "ZX" and int(fields[17]) <= 1):
        return None
    return int(fields[19])


class Process:
    """A server process that we started, or found again by its pid and start time.

    A pid alone is not enough: a pid written down yesterday may be somebody else's process today, so every
    signal is sent only while the start time is still the one we know.
    """

    def __init__(self, pid: int, started: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.started = started
        self._child = child

    @classmethod
    def spawn(cls, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Process:
        """Start a command in a session of its own, its output appended to `log`.

        The session keeps a terminal's Ctrl-C from reaching it: the parent alone gets it and stops all in order.
        """
        with open(log, "ab") as out:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, env=dict(env)
            )
        # A process that has already ended is a zombie until we reap it: it still has a start time.
        fields = _stat(child.pid)
        return cls(child.pid, int(fields[19]) if fields else 0, child)

    @classmethod
    def find(cls, pid: int, started: int) -> Process | None:
        """Return the process that once was written down as this pid and start time, if it still runs."""
        return cls(pid, started) if start_time(pid) == started else None

    def alive(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return start_time(self.pid) == self.started

    @property
    def exit_code(self) -> int | None:
        """The code it ended with: None while it runs, and of a process that is not our child."""
        return self._child.poll() if self._child is not None else None

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended; False when it still runs after `timeout` seconds."""
        if self._child is not None:
            try:
                self._child.wait(timeout)
            except subprocess.TimeoutExpired:
                return False
            return True
        deadline = time.monotonic() + timeout
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def terminate(self, timeout: float) -> bool:
        """End the process by SIGTERM, or by SIGKILL after `timeout` seconds; False when it had to be killed."""
        self.signal(signal.SIGTERM)
        # A paused process sees no SIGTERM before it runs again.
        self.signal(signal.SIGCONT)
        if self.wait(timeout):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def cpu_seconds(self) -> float:
        """Return the processor time used so far, user and system."""
        fields = _stat(self.pid)
        if fields is None:
            raise ProcessLookupError(f"process {self.pid} has ended")
        return (int(fields[11]) + int(fields[12])) / _TICK

    def rss_bytes(self) -> int:
        """Return the memory it holds in RAM."""
        fields = _stat(self.pid)
        if fields is None:
            raise ProcessLookupError(f"process {self.pid} has ended")
        return int(fields[21]) * _PAGE


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log file: what a person wants to see of a process that died."""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
