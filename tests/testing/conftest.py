"""Waiting for a condition, shared by the tests of this room."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def _until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    return _until
