"""How fast a compaction may go: so many bytes a second, and never long without letting other threads run.

A thread that computes keeps the interpreter's lock for 5 ms at a time while others wait for it, and to the broker's
event loop that is an eternity. So a compaction works for a millisecond and then sleeps for long enough that the loop,
if it waits, gets the lock. Measured: see docs/performance.md.
"""

import threading
import time
from collections.abc import Callable

SLICE_S = 0.001
BREATH_S = 0.0005


class Pace:
    """Shared by all compactions of a broker; each calls `took` after a few kilobytes of work."""

    def __init__(self, bytes_per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = clock()
        self._began = threading.local()

    def took(self, count: int, wait: Callable[[float], object]) -> None:
        """So many bytes were read or written: wait until more may be; `wait` ends early where there is a reason."""
        now = self._clock()
        with self._lock:
            self._free_at = max(self._free_at, now) + count / self._rate if self._rate > 0 else now
            ahead = self._free_at - now
        if ahead > SLICE_S:
            wait(ahead)
            self._began.at = self._clock()
        elif now - getattr(self._began, "at", 0.0) > SLICE_S:
            wait(BREATH_S)
            self._began.at = self._clock()
