"""Waiting for what must come true: the one loop that does it, for the harness and for all tests.

until(lambda: cluster.controller() is not None, "a controller", sight=cluster.sight)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NeverCame(AssertionError):
    """What was waited for did not come in time."""


def until(
    condition: Callable[[], T],
    what: str = "the condition",
    timeout: float = 60.0,
    *,
    sight: Callable[[], str] = str,
    pause: float = 0.01,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Wait until the condition holds and return what it returned; raises NeverCame with all that `sight` sees.

    A condition that cannot come true any more may raise, which ends the wait at once. In greenlets take their `sleep`.
    """
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise NeverCame(f"{what} did not come in {timeout:g} s\n{sight()}".rstrip())
        sleep(pause)
    return found
