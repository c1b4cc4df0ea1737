"""The fence: while ZooKeeper may have given this broker up, it acknowledges nothing that others should hold too.

open -- SUSPENDED: nobody can tell whether the session lives --> closed
closed -- CONNECTED, the same session --> open
closed -- a new session: others may lead by now --> closed until the controller has spoken to the new registration
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_classic.replication.replica import Replica
from kafka_classic.zk.session import Session, SessionState


class Fence:
    """Closed as soon as the session is in doubt: kazoo says LOST only once it has reached ZooKeeper again."""

    def __init__(self, session: Session, opened: Callable[[], None], patience_s: float) -> None:
        self._session = session
        self._opened = opened
        self._patience_s = patience_s  # for how long a follower that still follows may be silent
        # Epochs of registrations, which grow: the last whose session is over, the last that was made, and the last that
        # the controller has spoken to, which it may do before this broker knows that it was made.
        self._over, self._registered, self._recognised = -2, -1, -1
        self.closed = False
        session.add_listener(self._on_state)

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._over = self._registered
        self._look()

    def registered(self, broker_epoch: int) -> None:
        """This broker stands in the registry, in the session that it has now."""
        self._registered = max(self._registered, broker_epoch)
        self._look()

    def recognised(self, broker_epoch: int) -> None:
        """The controller has spoken to the registration of this epoch: what it leads is what it was told."""
        self._recognised = max(self._recognised, broker_epoch)
        self._look()

    def deserted(self, partition: Replica) -> bool:
        """Whether another leads this partition by now, for all that can be seen from here.

        ZooKeeper may have given this broker up, and one of those who could lead instead fetches from it no more. While
        ZooKeeper is away for everybody they do fetch. To be wrong costs a client a question.
        """
        return self.closed and partition.leading and partition.silence(time.monotonic()) > self._patience_s

    def _look(self) -> None:
        was, known = self.closed, self._recognised >= self._registered > self._over
        self.closed = not known or self._session.state is not SessionState.CONNECTED
        if was and not self.closed:
            self._opened()
