"""Waiting for any of the links at once, and a bell that ends the wait."""

from __future__ import annotations

import selectors
import socket
from selectors import EVENT_READ, EVENT_WRITE

from kafka_classic.producer.link import Link


class Poller:
    """Several threads may wait at once; whoever adds, drops or closes does so under the sender's lock.

    What happens wakes one of those who wait, and another may have seen to it before that one runs.
    """

    def __init__(self) -> None:
        self._ear, self._hand = socket.socketpair()
        self._ear.setblocking(False)
        self._hand.setblocking(False)
        self._all = selectors.DefaultSelector()
        self._all.register(self._ear, EVENT_READ)

    def add(self, link: Link) -> None:
        self._all.register(link.socket, EVENT_READ, link)

    def drop(self, link: Link) -> None:
        try:
            self._all.unregister(link.socket)
        except (KeyError, ValueError):
            pass

    def watch_writing(self, link: Link) -> None:
        """Wake for room in the socket exactly while there is something left to write."""
        self._all.modify(link.socket, EVENT_READ | EVENT_WRITE if link.backlog else EVENT_READ, link)

    def wait(self, timeout: float) -> tuple[list[tuple[Link, bool]], bool]:
        """The links that have something to read or, if the second is True, room to write; and whether a bell rings."""
        found, rings = [], False
        for key, events in self._all.select(timeout):
            if key.data is not None:
                found.append((key.data, bool(events & EVENT_WRITE)))
            else:
                rings = True
        return found, rings

    def ring(self) -> None:
        """End a wait, one that is just about to begin, too; it rings until somebody hushes it."""
        try:
            self._hand.send(b"\0")
        except OSError:
            pass  # it rings already, or is closed

    def hush(self) -> None:
        try:
            self._ear.recv(4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._all.close()
        self._ear.close()
        self._hand.close()
