"""The fence: while ZooKeeper may have given this broker up, it acknowledges nothing that others should hold too.

open -- SUSPENDED: nobody can tell whether the session lives --> closed
closed -- CONNECTED, the same session --> open
closed -- a new session: others may lead by now --> closed until the controller has spoken to the new registration
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_classic.zk.session import Session, SessionState


class Fence:
    """Closed as soon as the session is in doubt: kazoo says LOST only once it has reached ZooKeeper again."""

    def __init__(self, session: Session, opened: Callable[[], None]) -> None:
        self._session = session
        self._opened = opened
        self._lost = False
        self._epoch = -1  # of the registration that the controller last spoke to
        self.closed = False
        session.add_listener(self._on_state)

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._lost = True
        self.closed = state is not SessionState.CONNECTED or self._lost
        if not self.closed:
            self._opened()

    def recognised(self, broker_epoch: int) -> None:
        """The controller has spoken to the registration of this epoch: what it leads is what it was told."""
        if broker_epoch > self._epoch:
            self._epoch = broker_epoch
            self._lost = False
        if self.closed and self._session.state is SessionState.CONNECTED:
            self.closed = False
            self._opened()
