"""Waits for what must come true, and breaks sessions for real."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from kafka_classic.testing import waiting
from kafka_classic.zk.session import Session


def until(session: Session, condition: Callable[[], Any], what: str = "", limit: float = 60.0) -> None:
    """Waits for the condition in the way of the session's handler (other greenlets run meanwhile)."""
    waiting.until(condition, what or "the condition", limit, sleep=session.handler.sleep_func)


def expire(session: Session) -> None:
    """Ends the session for real: a second client takes it over by its id and password, and closes it.

    Its owner connects again at once, and may take it back before it is closed: then it is stolen once more.
    """
    stolen = session.client.client_id
    while session.client.client_id == stolen:
        thief = KazooClient(session.hosts.partition("/")[0], client_id=stolen)
        thief.start(30)
        thief.stop()
        thief.close()
        told = time.monotonic() + 2.0
        while session.client.client_id == stolen and time.monotonic() < told:
            session.handler.sleep_func(0.01)


def pid_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
