"""Server processes of the comparison: started with the bench, weighed with all their children, ended by process id."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG

from bench.peers.peer import PeerFailed
from kafka_classic.testing.keeper import Keeper
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.process import Process, start_time, tail
from kafka_classic.testing.waiting import until

_TICK = os.sysconf("SC_CLK_TCK")
HOST = "127.0.0.1"


class Servers:
    """The processes of one system. They end with the bench, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = PortLeases(HOST)
        self._keeper = Keeper()
        self._running: list[tuple[Process, Path]] = []

    def port(self) -> int:
        return self._ports.draw()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], port: int) -> Process:
        """Start a server and wait until its port answers."""
        log = self.folder / f"{name}.log"
        process = Process.spawn(command, log, env)
        self._keeper.keep(process.pid, process.started)
        self._running.append((process, log))

        def answers() -> bool:
            if not process.alive():
                raise PeerFailed(f"{name} ended with code {process.exit_code} before it served:\n{tail(log)}")
            with socket.socket() as probe:
                probe.settimeout(1.0)
                return probe.connect_ex((HOST, port)) == 0

        until(answers, f"{name} on port {port}", timeout=180, sight=lambda: tail(log), pause=0.05)
        return process

    def cpu_seconds(self) -> float:
        return cpu_seconds([process.pid for process, _ in self._running])

    def stop(self) -> None:
        """End the last one started first; those they started in turn must be gone too."""
        for process, _ in reversed(self._running):
            family = {pid: started for pid in tree(process.pid) if (started := start_time(pid)) is not None}
            process.terminate(60.0)
            self._keeper.forget(process.pid)
            _see_off(family)
        self._running.clear()
        self._keeper.close()
        self._ports.release_all()


def _see_off(family: Mapping[int, int]) -> None:
    """Wait until all of a family have ended; those that would outlive their parent are killed."""
    deadline = time.monotonic() + 5
    while left := [pid for pid, started in family.items() if start_time(pid) == started]:
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            deadline += 5
        time.sleep(0.02)


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found, ahead = [], [root]
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        ahead += children[pid]
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """User and system time of these processes and of all their descendants, of those that have ended too."""
    total = 0.0
    for root in roots:
        for pid in tree(root):
            fields = _stat(pid)
            if fields is None:
                continue
            # Time of its children that have ended counts in steps of a tick; its own clock is exact.
            total += (int(fields[13]) + int(fields[14])) / _TICK
            try:
                total += time.clock_gettime((~pid << 3) | 2)
            except OSError:
                total += (int(fields[11]) + int(fields[12])) / _TICK
    return total


def disk_bytes(folder: Path) -> int:
    """What the files below a folder take: neither the holes of files made larger in advance nor the rest of a block."""
    total = 0
    for path in folder.rglob("*"):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue  # it was deleted meanwhile
        if S_ISREG(found.st_mode):
            total += min(found.st_size, found.st_blocks * 512)
    return total


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()
