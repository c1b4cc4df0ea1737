"""Bounded memory for messages that are not decided (buffer.memory): first come, first served."""

from __future__ import annotations

from collections import deque


class Turn:
    """One who waits for memory."""

    __slots__ = ("served", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.served = False


class Memory:
    """Counts bytes. A large message is not overtaken for ever by small ones: behind it, all wait."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[Turn] = deque()

    def take(self, size: int) -> bool:
        """Take it now, if it is there and nobody waits."""
        if self._waiting or self.used + size > self.limit:
            return False
        self.used += size
        return True

    def queue(self, size: int) -> Turn:
        turn = Turn(size)
        self._waiting.append(turn)
        self._serve()
        return turn

    def leave(self, turn: Turn) -> None:
        """Wait no longer; what was served is given back."""
        if turn.served:
            self.give(turn.size)
        else:
            self._waiting.remove(turn)
            self._serve()

    def give(self, size: int) -> None:
        self.used -= size
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting and self.used + self._waiting[0].size <= self.limit:
            turn = self._waiting.popleft()
            self.used += turn.size
            turn.served = True
