"""A large request: received straight into a buffer of its own, which grows as the bytes arrive."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_classic.broker.server import Server


class LargeRequest:
    """From its first bytes, which came into the shared buffer, to its last; give the buffer back in any case."""

    __slots__ = ("_have", "_server", "_size", "buffer")

    def __init__(self, server: Server, size: int, first: memoryview) -> None:
        self._server = server
        self._size = size + 4
        self._have = len(first) + 4
        self.buffer = server.borrow(size)
        self.buffer[:4] = size.to_bytes(4, "big")
        self.buffer[4 : self._have] = first

    @property
    def size(self) -> int:
        """Of the whole frame, its four size bytes included."""
        return self._size

    @property
    def whole(self) -> bool:
        return self._have == self._size

    def receive(self, sock: socket.socket) -> bool:
        """Take what has arrived; False at the end of the file."""
        if self._have == len(self.buffer):
            # Grown as bytes arrive, so that a length alone takes no memory.
            self.buffer = self._server.grow(self.buffer, self._size)
        with memoryview(self.buffer) as view, view[self._have : min(self._size, len(self.buffer))] as free:
            count = sock.recv_into(free)
        self._have += count
        return count > 0

    def give_back(self) -> None:
        self._server.give_back(self.buffer)
