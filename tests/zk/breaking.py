"""Waits for what must come true, and breaks sessions for real."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from kafka_classic.zk.session import Session


def until(session: Session, condition: Callable[[], Any], what: str = "", limit: float = 60.0) -> None:
    """Waits for the condition in the way of the session's handler (other greenlets run meanwhile)."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"never came true: {what}"
        session.handler.sleep_func(0.01)


def expire(session: Session) -> None:
    """Ends the session for real: a second client takes it over by its id and password, and closes it."""
    thief = KazooClient(session.hosts.partition("/")[0], client_id=session.client.client_id)
    thief.start(30)
    thief.stop()
    thief.close()


def pid_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
