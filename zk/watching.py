"""Watches that never miss a change: a worker that reads again whatever ZooKeeper said has changed.

    idle -- a watch fired, or the session is CONNECTED again --> reading (watches armed by the same reads)
    reading -- done --> the callback, if anything is new --> idle
    reading -- connection lost --> idle (the reconnect wakes it, and everything is read again)

ZooKeeper's watches fire once, and are gone with the connection. Here they only wake the worker; the worker's read arms
the next one before it looks, so a change is either in what it read or fires again. Many changes that come while it
reads or calls back are one wake-up: bursts coalesce, and a callback always gets the newest whole value, in order,
outside ZooKeeper's own thread or greenlet: it may call ZooKeeper and may take its time.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.session import Session, SessionState

log = logging.getLogger(__name__)

# What a worker is told to read again: None is everything (the start, and after each reconnect), else changed paths.
Changed = set[str] | None


class Watching:
    """Runs `read_and_tell(changed)` on a worker of its own, once at the start and then whenever something changed."""

    def __init__(self, session: Session, read_and_tell: Callable[[Changed], None]) -> None:
        self._session = session
        self._read_and_tell = read_and_tell
        self._fired: deque[str | None] = deque([None])
        self._wake: Any = session.handler.event_object()
        self._first: Any = session.handler.event_object()
        self._stopped = False

    def start(self, *, wait: bool = True) -> "Watching":
        """Begins; returns after the first callback unless told not to wait."""
        self._session.add_listener(self._on_state)
        self._session.on_close(self.stop)
        self._wake.set()
        self._session.handler.spawn(self._run)
        if wait:
            while not self._first.wait(0.5):
                if self._session.closed or self._session.in_doubt_for() > self._session.timeout_s:
                    self.stop()
                    raise ZooKeeperUnreachable(f"ZooKeeper at {self._session.hosts} has not answered; is it running?")
        return self

    def stop(self) -> None:
        """No more callbacks; one that has just begun on another thread may still be under way."""
        self._stopped = True
        self._session.remove_listener(self._on_state)
        self._session.forget_on_close(self.stop)
        self._wake.set()

    def tell(self, callback: Callable[..., None], *values: object) -> None:
        """Calls back, unless the watch was stopped while its worker read."""
        if not self._stopped:
            callback(*values)

    def fired(self, event: Any) -> None:
        """Give this to ZooKeeper's reads as their watch. (An event without a path says the connection went.)"""
        if event.path is not None:
            self._fired.append(event.path)
            self._wake.set()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._fired.append(None)
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            fired: set[str | None] = set()
            while self._fired:
                fired.add(self._fired.popleft())
            if not fired:
                continue
            try:
                self._read_and_tell(None if None in fired else {path for path in fired if path is not None})
                self._first.set()
            except ZooKeeperUnreachable:
                self._fired.append(None)  # read everything once it is back: the reconnect wakes us
                if self._session.state is SessionState.CONNECTED and not self._session.closed:
                    self._wake.set()
            except Exception:
                log.exception("a watch's callback failed; it is called again at the next change")
                self._first.set()
