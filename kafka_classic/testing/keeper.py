"""A tiny process that ends a cluster's servers when the process that started them dies, however it dies.

Run as a script of its own (`python -I -S keeper.py PARENT`), it reads lines on its standard input: `+PID START` adds a
process to look after, `-PID` takes it away. When the input ends, or the parent process is gone, what is still on the
list is ended: SIGTERM first, so that brokers close their logs, and SIGKILL after a few seconds.

Why not PR_SET_PDEATHSIG: it fires when the parent *thread* ends, and a fixture may well start a cluster from a thread
that does not live long. Why the pidfd beside the pipe: a fork of the parent holds the pipe's end open.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time

_GRACE_S = 5.0


def _started(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" and int(fields[17]) <= 1 else int(fields[19])


def _signal(processes: dict[int, int], number: int) -> None:
    for pid, started in processes.items():
        if _started(pid) == started:
            try:
                os.kill(pid, number)
            except OSError:
                pass


def _end(processes: dict[int, int]) -> None:
    _signal(processes, signal.SIGTERM)
    _signal(processes, signal.SIGCONT)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(_started(pid) == start for pid, start in processes.items()):
        time.sleep(0.05)
    _signal(processes, signal.SIGKILL)


def _wait(poll: select.poll, parent: int, commands: int) -> bool:
    """Wait for a command; False when there is none and the parent is gone."""
    while True:
        ready = [fd for fd, _ in poll.poll(5000 if os.getppid() == parent else 0)]
        if commands in ready:
            return True
        if ready or os.getppid() != parent:
            return False


def watch(parent: int, commands: int) -> None:
    """Follow the commands until the parent is gone and has left none unread, then end what is on the list."""
    processes: dict[int, int] = {}
    poll = select.poll()
    poll.register(commands, select.POLLIN)
    try:
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except OSError:
        pass  # an old kernel, or the parent is gone already: the pipe and the parent's pid still tell
    rest = b""
    while _wait(poll, parent, commands):
        chunk = os.read(commands, 4096)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"+"):
                pid, started = line[1:].split()
                processes[int(pid)] = int(started)
            elif line.startswith(b"-"):
                processes.pop(int(line[1:]), None)
    _end(processes)


class Keeper:
    """The parent's side: tells the keeper process which servers to look after."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(f"{line}\n".encode())
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # somebody ended the keeper: the servers live on, and stop() still ends them

    def keep(self, pid: int, started: int) -> None:
        self._tell(f"+{pid} {started}")

    def forget(self, pid: int) -> None:
        if self._process is not None:
            self._tell(f"-{pid}")

    def close(self) -> None:
        """End the keeper; whatever is still on its list ends with it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
            process.wait()


if __name__ == "__main__":
    # Pipes inherited by accident must not keep the parent's other children waiting, and Ctrl-C is the parent's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch(int(sys.argv[1]), 0)
