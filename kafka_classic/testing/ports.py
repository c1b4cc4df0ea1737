"""Free TCP ports for servers, kept from collisions with other clusters on this machine.

A port from `bind(0)` lies in the range the kernel gives to outgoing connections: between our choice and the broker's
bind any connection may take it, and a broker that restarts may find its own port gone. So ports are drawn from below
that range, and each is leased by a lock on a small file as long as its cluster lives: two test runs side by side
never draw the same one. The kernel drops the lock when the process dies, however it dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_LOWEST = 15000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class NoFreePort(OSError):
    """No port could be leased: every one tried is taken."""


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether a server could listen on this port now, as a broker does: with SO_REUSEADDR."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def _range() -> range:
    try:
        first_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError):
        first_ephemeral = 32768
    if first_ephemeral - _LOWEST < 1000:
        return range(20000, 32768)
    return range(_LOWEST, first_ephemeral)


def _lock_directory() -> Path:
    directory = Path(tempfile.gettempdir()) / f"kafka-classic-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


class PortLeases:
    """The ports that one cluster holds."""

    def __init__(self, host: str = "127.0.0.1", rng: random.Random | None = None) -> None:
        self._host = host
        # Not the seeded global generator: two test runs with one seed would draw the same ports in the same order.
        self._rng = rng or random.SystemRandom()
        self._locks: dict[int, int] = {}

    def lease(self, port: int) -> bool:
        """Take this very port; False when another holds it or listens on it."""
        if port in self._locks:
            return is_free(port, self._host)
        # The file stays when the lease ends: removing it would let two processes lock two files of one name.
        lock = os.open(_lock_directory() / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        if not is_free(port, self._host):
            os.close(lock)
            return False
        self._locks[port] = lock
        return True

    def draw(self) -> int:
        """Take any free port."""
        candidates = _range()
        for _ in range(1000):
            port = self._rng.choice(candidates)
            if port not in self._locks and self.lease(port):
                return port
        raise NoFreePort(errno.EADDRINUSE, f"no free port found between {candidates.start} and {candidates.stop}")

    def release(self, port: int) -> None:
        lock = self._locks.pop(port, None)
        if lock is not None:
            os.close(lock)

    def release_all(self) -> None:
        for port in list(self._locks):
            self.release(port)
