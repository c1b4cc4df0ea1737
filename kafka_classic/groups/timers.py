"""All that a coordinator does at a time: one heap for all groups, whatever runs it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

WORTH_CLEANING = 1024


class Timer:
    """Something to be done at a time, unless it is cancelled before."""

    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action


class Timers:
    """`at()` adds, `fire(now)` does what is due; `sooner` is called when the first one is earlier than was known."""

    def __init__(self, sooner: Callable[[], None] = lambda: None) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._cancelled = 0
        self._sooner = sooner

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        timer = Timer(when, action)
        entry = (when, next(self._numbers), timer)
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            self._sooner()
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """It stays in the heap until its time, or until most of the heap is like it."""
        if timer is None or timer.action is None:
            return
        timer.action = None
        self._cancelled += 1
        if self._cancelled > WORTH_CLEANING and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """When something is to be done next."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def fire(self, now: float) -> None:
        """Do what is due, in the order of its times."""
        while (due := self.next()) is not None and due <= now:
            timer = heapq.heappop(self._heap)[2]
            action, timer.action = timer.action, None  # it is no more to be cancelled
            assert action is not None
            action()
