"""One worker for each live broker, which sends it the controller's requests in order, each until it is answered.

A broker that hangs or is cut off holds up nobody but itself: its requests wait here until it answers, or until it is
gone from the registry.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.brokers import BrokerInfo
from kafka_classic.zk.session import Session

log = logging.getLogger(__name__)

RETRY_S = 0.1
SILENT_S = 1.0  # a broker that is well answers in milliseconds


class Peer(Protocol):
    """One connection to a broker. A call waits for the answer, and may raise OSError or KafkaError."""

    def request(self, api: Api, body: Any, timeout_s: float) -> Any: ...

    def close(self) -> None: ...


Connect = Callable[[BrokerInfo], Peer]


class Sender:
    """Sends to one broker, of one registration; `refused()` is called when it knows a later controller."""

    def __init__(
        self, session: Session, broker: BrokerInfo, connect: Connect, timeout_s: float, refused: Callable[[], None]
    ) -> None:
        self.broker = broker
        self.greeted = False  # whether it was told everything; from then on it hears of changes alone
        self._connect = connect
        self._timeout_s = timeout_s
        self._refused = refused
        self._failed = False  # the last try was not answered
        self._asked_at: float | None = None  # when the try under way began
        self._queue: deque[tuple[Api, Any]] = deque()
        self._wake: Any = session.handler.event_object()
        self._ended: Any = session.handler.event_object()
        session.handler.spawn(self._run)

    def put(self, api: Api, body: Any) -> None:
        self._queue.append((api, body))
        self._wake.set()

    @property
    def silent(self) -> bool:
        """Whether something is not answered that should be: the broker hangs, or is cut off from this one."""
        asked_at = self._asked_at
        return self._failed or (asked_at is not None and time.monotonic() - asked_at > SILENT_S)

    def stop(self) -> None:
        """What was not sent yet never is; does not wait for a request under way."""
        self._ended.set()
        self._wake.set()

    def _run(self) -> None:
        peer: Peer | None = None
        while not self._ended.is_set():
            if not self._queue:
                self._wake.wait()
                self._wake.clear()
                continue
            api, body = self._queue[0]
            self._asked_at = time.monotonic()
            try:
                if peer is None:
                    peer = self._connect(self.broker)
                answer = peer.request(api, body, self._timeout_s)
            except (OSError, KafkaError) as error:
                if not self._failed:
                    log.warning("broker %d does not take %s, trying on: %s", self.broker.id, api.name, error)
                self._failed = True
                _close(peer)
                peer = None
                self._ended.wait(RETRY_S)
                continue
            except Exception:
                log.exception("%s to broker %d failed", api.name, self.broker.id)
                self._failed = True
                _close(peer)
                peer = None
                self._ended.wait(RETRY_S)
                continue
            self._failed, self._asked_at = False, None
            self._queue.popleft()
            self._look_at(api, answer.error_code)
        _close(peer)

    def _look_at(self, api: Api, code: Error) -> None:
        if code is Error.none or self._ended.is_set():
            return
        if code is Error.stale_controller_epoch:
            self._refused()
        elif code is Error.stale_broker_epoch:
            log.info("broker %d has a new registration, of which we shall hear", self.broker.id)
        else:
            log.warning("broker %d answers %s with %s", self.broker.id, api.name, code.name)


def _close(peer: Peer | None) -> None:
    if peer is not None:
        with suppress(OSError):
            peer.close()
