"""One ZooKeeper session: says at once when the connection is in doubt, and lives on in a new one after expiry.

    LOST -- start() --> CONNECTED -- no answer, connection cut --> SUSPENDED
                        CONNECTED <-- same session in time ------- SUSPENDED
                        CONNECTED <-- new session; renewal hooks - LOST <-- too late: ephemeral znodes are gone

Listeners hear every change at once, on ZooKeeper's own thread or greenlet, and must not block or call ZooKeeper.
Renewal hooks run after an expiry on a worker of their own, once the new session stands, and may do both.

While SUSPENDED nobody can tell whether the session still lives: ZooKeeper ends it when `timeout_s` has gone by. A
broker that holds something by an ephemeral znode must stop relying on it then (`in_doubt_for`).

The handler is kazoo's: "threading" for clients, "gevent" for the broker, whose hub then is never blocked (nothing is
monkey-patched; the session must be used on the thread of that hub).
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.retry import KazooRetry

from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.handlers import (
    HandlerName,
    make_handler,
    resolve_names_beside_the_loop,
    tell_granted_timeout,
    try_again_soon,
)

log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger("kafka_classic.zk.kazoo")
_kazoo_log.setLevel(logging.ERROR)  # it warns at every try to reconnect; this file says what the state is, once

SESSION_TIMEOUT_S = 18.0  # Kafka's zookeeper.session.timeout.ms
# Under load kazoo has called closed what was away only, and came back.
TRANSIENT = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError)
RENEWAL_PAUSE_S = 0.2


class SessionState(Enum):
    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


class Session:
    """A kazoo client with the manners that brokers and consumers need."""

    def __init__(self, hosts: str, *, timeout_s: float = SESSION_TIMEOUT_S, handler: HandlerName = "threading") -> None:
        self.hosts = hosts
        self.timeout_s = timeout_s
        self.handler: Any = make_handler(handler)
        # kazoo's own delay grows to a minute: a cluster would stand still that long after ZooKeeper is back.
        reconnect = KazooRetry(
            max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, max_jitter=0.2, sleep_func=self.handler.sleep_func
        )
        self.client: Any = KazooClient(
            hosts=hosts.rstrip("/"),
            timeout=timeout_s,
            handler=self.handler,
            connection_retry=reconnect,
            logger=_kazoo_log,
        )
        resolve_names_beside_the_loop(self.client, handler)
        try_again_soon(self.client, timeout_s)
        # ZooKeeper's own bounds (maxSessionTimeout) may cut what was asked for.
        self.granted_s = timeout_s
        tell_granted_timeout(self.client, self._granted)
        self.client.add_listener(self._on_kazoo_state)
        self._state = SessionState.LOST
        self._in_doubt_since: float | None = None
        self._listeners: list[Callable[[SessionState], None]] = []
        self._renewal_hooks: list[Callable[[], None]] = []
        self._known_session: int | None = None
        self._renewed: Any = self.handler.event_object()
        self._closing = False
        self._at_close: list[Callable[[], None]] = []

    # --- life

    def start(self, timeout: float | None = None) -> Self:
        """Connects within `timeout` seconds (of none: the session timeout), and creates the chroot if there is one."""
        limit = self.timeout_s if timeout is None else timeout
        connected = self.client.start_async()
        connected.wait(limit)
        if not self.client.connected:
            self.close(timeout=1.0)
            raise ZooKeeperUnreachable(
                f"cannot reach ZooKeeper at {self.hosts} within {limit:g} s; is it running? "
                "`kafka-classic zookeeper` starts one, `kafka-classic up` starts one with brokers"
            )
        self._create_chroot()
        self.handler.spawn(self._run_renewals)
        return self

    def close(self, timeout: float = 5.0) -> None:
        """Ends the session: its ephemeral znodes vanish at once. A ZooKeeper that hangs is not waited for longer."""
        if self._closing:
            return
        self._closing = True
        self._renewed.set()
        for end in list(self._at_close):
            end()
        closed = self.handler.event_object()

        def stop() -> None:
            try:
                self.client.stop()
                self.client.close()
            except Exception as error:  # a hung ZooKeeper: the session ends there by its timeout
                log.warning("ZooKeeper session did not close cleanly: %s", error)
            finally:
                closed.set()

        self.handler.spawn(stop)
        closed.wait(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- state

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def closed(self) -> bool:
        return self._closing

    @property
    def session_id(self) -> int | None:
        """The id of the session while connected; ephemeral znodes name it as their owner."""
        return self.client.client_id[0] if self.client.client_id else None

    def in_doubt_for(self) -> float:
        """Seconds since the connection was last good; 0 while CONNECTED. Above `timeout_s` the session is gone."""
        since = self._in_doubt_since
        return 0.0 if since is None else time.monotonic() - since

    def add_listener(self, listener: Callable[[SessionState], None]) -> None:
        """`listener(state)` is called at once on every change, and must not block or call ZooKeeper."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[SessionState], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def on_renewal(self, hook: Callable[[], None]) -> None:
        """`hook()` is called after every expiry, once a new session stands: what was ephemeral is made again there."""
        self._renewal_hooks.append(hook)

    def on_close(self, end: Callable[[], None]) -> None:
        """`end()` is called when the session is about to close."""
        self._at_close.append(end)

    def forget_on_close(self, end: Callable[[], None]) -> None:
        if end in self._at_close:
            self._at_close.remove(end)

    def _granted(self, seconds: float) -> None:
        if seconds < self.timeout_s and seconds != self.granted_s:
            log.warning(
                "ZooKeeper at %s grants a session timeout of %g s in place of %g s", self.hosts, seconds, self.timeout_s
            )
        self.granted_s = seconds

    def _on_kazoo_state(self, kazoo_state: str) -> None:
        state = SessionState(kazoo_state)
        self._state = state
        if not self._closing:
            level = logging.INFO if state is SessionState.CONNECTED else logging.WARNING
            log.log(level, "the session with ZooKeeper at %s is %s", self.hosts, state.name)
        if state is SessionState.CONNECTED:
            self._in_doubt_since = None
            session = self.session_id
            if self._known_session not in (None, session):
                self._renewed.set()
            self._known_session = session
        elif self._in_doubt_since is None:
            self._in_doubt_since = time.monotonic()
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("a listener of the ZooKeeper session failed on %s", state.name)

    def _run_renewals(self) -> None:
        while True:
            self._renewed.wait()
            if self._closing:
                return
            self._renewed.clear()
            for hook in list(self._renewal_hooks):
                try:
                    hook()
                except ZooKeeperUnreachable as error:
                    log.warning("ZooKeeper went away during a renewal, trying again: %s", error)
                    self.handler.sleep_func(RENEWAL_PAUSE_S)
                    self._renewed.set()
                    break
                except Exception:
                    log.exception("a renewal hook of the ZooKeeper session failed")

    # --- calls

    def call(self, begin: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """The result of kazoo's asynchronous call, tried again through short losses of the connection.

        kazoo's own retries never look at the clock while the connection is away; here a caller waits at most one
        session timeout. A call that is tried again may have been done the first time: callers of writes must bear it.
        """
        deadline = time.monotonic() + self.timeout_s
        pause = 0.02
        while True:
            result = begin(*args, **named)
            self.await_results((result,), deadline)
            try:
                return result.get_nowait()
            except TRANSIENT as error:
                if self._closing:
                    raise ZooKeeperUnreachable(f"the session with ZooKeeper at {self.hosts} is closed") from None
                if time.monotonic() + pause > deadline:
                    raise self._unreachable() from error
            self.handler.sleep_func(pause)
            pause = min(pause * 2, 0.5)

    def await_results(self, results: Iterable[Any], deadline: float) -> None:
        """Waits until every one of kazoo's asynchronous results is there, or raises ZooKeeperUnreachable."""
        for result in results:
            while not result.ready():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unreachable()
                if self._closing:
                    raise ZooKeeperUnreachable(f"the session with ZooKeeper at {self.hosts} is closed")
                result.wait(min(left, 1.0))

    def _unreachable(self) -> ZooKeeperUnreachable:
        return ZooKeeperUnreachable(
            f"ZooKeeper at {self.hosts} has not answered for {self.timeout_s:g} s; is it running?"
        )

    def _create_chroot(self) -> None:
        chroot = self.client.chroot
        if not chroot:
            return
        self.client.chroot = ""  # nobody else uses the client yet
        try:
            for depth in range(2, chroot.count("/") + 2):
                with contextlib.suppress(NodeExistsError):
                    self.call(self.client.create_async, "/".join(chroot.split("/")[:depth]))
        finally:
            self.client.chroot = chroot
