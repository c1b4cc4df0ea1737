"""Until when a session surely lives, by this process's own clock.

ZooKeeper ends a session when it has heard nothing of it for the session timeout, and not before. So whoever knows when
he last said something that was heard knows for how long nobody else can hold what he holds by an ephemeral znode, even
if the connection is cut, or this very process is stopped and wakes up in another minute:

    (nothing held) -- hold(session) --> held -- heard again in time --> held
    held -- `until` is over --> in doubt -- heard again, same session --> held
                                in doubt -- another session: never held again, before hold() says so

A state that ZooKeeper's client tells comes too late for that: a process that was paused runs on for some milliseconds
before any of its threads learns that its session is long gone.
"""

import logging
import time
from typing import Any

from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.session import Session

log = logging.getLogger(__name__)

# Two clocks of two machines may run at different speeds.
_DRIFT = 0.98


class Lease:
    """Asks ZooKeeper a small question four times a session timeout; any thread may read `until`, at no cost.

    It is the lease of one session, the one that was named to `hold`: an answer to the session after it says nothing
    about what was owned before. `until` is 0 before the first answer and after close().
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: Any = session.handler.event_object()
        self._held: int | None = None
        self.until = 0.0

    def start(self) -> "Lease":
        self._session.on_close(self.close)
        self._session.handler.spawn(self._run)
        return self

    @property
    def _length(self) -> float:
        # A server may grant less than was asked for, and another one may after a reconnect.
        return min(self._session.timeout_s, self._session.granted_s) * _DRIFT

    def hold(self, session_id: int) -> None:
        """From now on things are owned by this session, and by none before; raises ZooKeeperUnreachable."""
        self._held = session_id
        self._renew()

    def close(self) -> None:
        self._session.forget_on_close(self.close)
        self._ended.set()
        self.until = 0.0

    def _run(self) -> None:
        while not self._ended.wait(self._length / 4):
            try:
                self._renew()
            except ZooKeeperUnreachable:
                pass  # `until` stands where it was: nobody has heard of us since
            except Exception:
                log.exception("the lease of the ZooKeeper session could not be renewed; it is tried again")

    def _renew(self) -> None:
        asked, held = time.monotonic(), self._held
        if held is None or self._session.session_id != held:
            return
        self._session.call(self._session.client.exists_async, "/")
        # Sessions do not come back: if it is the same one now, it was the one that answered.
        if self._session.session_id == held == self._held and not self._ended.is_set():
            self.until = asked + self._length
