"""Waiting for a condition, with a generous limit in place of a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.clients.parties import DEADLINE_S

T = TypeVar("T")


def until(attempt: Callable[[], T], what: str) -> T:
    """Call `attempt` until it returns something true, and return that."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := attempt()):
        assert time.monotonic() < deadline, f"{what} did not come true in time"
        time.sleep(0.02)
    return found
