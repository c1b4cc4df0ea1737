"""Which ports are free to listen on, asked before anything is started so that the answer can name the port."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_classic.cli.failure import CommandFailed
from kafka_classic.testing.ports import is_free


def require_free(ports: Iterable[int], host: str, what: str) -> None:
    """Fails with a line that names the first port already taken."""
    for port in ports:
        if not is_free(port, host):
            raise CommandFailed(
                f"port {port} of {host}, wanted for {what}, is in use by another program",
                f"--port with another number, or 'ss -ltnp sport = :{port}' to see which program",
            )


def next_free(port: int, host: str = "127.0.0.1") -> int:
    """The first port from here on that is free."""
    while not is_free(port, host):
        port += 1
    return port
