"""The controller in each broker: a candidate that may be elected, and its reign when it is.

    candidate -- /controller is free, and ours was first --> elected: everything is read from ZooKeeper --> active
    active -- the session is in doubt, or another was elected, or an event failed --> candidate

One worker does it all: elections, events of the cluster, and what clients ask for, one after the other. When the
session is SUSPENDED the reign ends at once and what was queued is dropped: another may be elected at any moment. After
a reconnect the place is taken anew, in a new epoch, and everything is read again.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from kafka_classic.controller import leadership
from kafka_classic.controller.election import Election
from kafka_classic.controller.reassign import Reassignment
from kafka_classic.controller.reign import Reign
from kafka_classic.controller.senders import Connect, Peer
from kafka_classic.settings import BrokerSettings
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.controller import ControllerElection
from kafka_classic.zk.errors import ControllerFenced, ZooKeeperUnreachable
from kafka_classic.zk.partitions import At
from kafka_classic.zk.session import Session, SessionState
from kafka_classic.zk.watching import Watching

__all__ = ["Controller", "Election", "Peer", "Reassignment"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")
AFTER_FAILURE_S = 1.0


class Task:
    """Something for the worker to do under one reign; `done` is set in any case."""

    def __init__(self, reign: Reign | None, work: Callable[[Reign], Any] | None, done: Any) -> None:
        self.reign = reign
        self.work = work  # None: join the election
        self.done = done
        self.result: Any = None
        self.error: KafkaError | None = None

    def drop(self) -> None:
        self.error = KafkaError(Error.not_controller)
        self.done.set()


class Controller:
    """What `kafka_classic.broker` starts in every broker."""

    def __init__(self, session: Session, settings: BrokerSettings, connect: Connect) -> None:
        self.active = False
        self._session = session
        self._settings = settings
        self._connect = connect
        self._me = settings.broker_id
        self._election = ControllerElection(session)
        self._reign: Reign | None = None
        self._queue: deque[Task] = deque()
        self._wake: Any = session.handler.event_object()
        self._watch: Watching | None = None
        self._balance_at = 0.0
        self._elect_at: float | None = None
        self._stopped = False

    @property
    def epoch(self) -> int | None:
        """The epoch of this controller while it is active."""
        reign = self._reign
        return reign.mandate.epoch if self.active and reign is not None else None

    def start(self) -> None:
        """Joins the election; returns at once."""
        self._session.add_listener(self._on_state)
        self._session.handler.spawn(self._run)
        self._watch = self._election.watch(self._told, wait=False)

    def stop(self) -> None:
        """Resigns, so that another is elected at once, and ends the workers."""
        if self._stopped:
            return
        self._stopped = True
        self._session.remove_listener(self._on_state)
        if self._watch is not None:
            self._watch.stop()
        reign = self._reign
        self._step_down()
        self._wake.set()
        if reign is not None and self._session.state is SessionState.CONNECTED:
            with suppress(ZooKeeperUnreachable):
                self._election.resign(reign.mandate)

    # --- what clients ask for

    def elect_leaders(
        self, kind: Election, partitions: Collection[At] | None, timeout_s: float
    ) -> dict[At, KafkaError | None]:
        """Elects leaders for these partitions, or for all; returns why for each where it was not done."""
        return self._ask(lambda reign: leadership.elect_leaders(reign, kind, partitions), timeout_s)

    def alter_reassignments(
        self, targets: Mapping[At, tuple[int, ...] | None], timeout_s: float
    ) -> dict[At, KafkaError | None]:
        """Begins to move partitions to these replicas, or (None) cancels it; returns why for each that is refused."""
        return self._ask(lambda reign: reign.reassignments.alter(targets), timeout_s)

    def list_reassignments(self, partitions: Collection[At] | None = None) -> dict[At, Reassignment]:
        """What is under way, of these partitions or of all."""

        def look(reign: Reign) -> dict[At, Reassignment]:
            moving = {at: reign.reassignments.of(at) for at in reign.context.reassigning()}
            return moving if partitions is None else {at: moving[at] for at in partitions if at in moving}

        return self._ask(look, self._patience_s)

    def shut_down(self, broker_id: int, broker_epoch: int) -> list[At]:
        """Moves leadership away from a broker that is about to stop; returns what it still leads and others hold."""
        return self._ask(lambda reign: leadership.shut_down(reign, broker_id, broker_epoch), self._patience_s)

    @property
    def _patience_s(self) -> float:
        return self._settings.controller_socket_timeout_ms / 1000

    def _ask(self, work: Callable[[Reign], Result], timeout_s: float) -> Result:
        reign = self._reign
        if reign is None or not self.active:
            raise KafkaError(Error.not_controller)
        task = Task(reign, lambda reign: reign.do(work), self._session.handler.event_object())
        self._put(task)
        if not task.done.wait(timeout_s):
            raise KafkaError(Error.request_timed_out, "the controller is busy; what was asked may still be done")
        if task.error is not None:
            raise task.error
        result: Result = task.result
        return result

    # --- news, on others' threads or greenlets

    def _on_state(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            if self.active:
                log.warning("controller %d steps down: its session with ZooKeeper is in doubt", self._me)
            self._step_down()
        # The reconnect is told by the watch of /controller, which reads it anew.

    def _told(self, controller: int | None) -> None:
        if controller != self._me or not self.active:
            self._put(self._join())

    def _join(self) -> Task:
        return Task(None, None, self._session.handler.event_object())

    def _put(self, task: Task) -> None:
        self._queue.append(task)
        self._wake.set()

    def _step_down(self) -> None:
        self.active = False
        reign, self._reign = self._reign, None
        if reign is not None:
            reign.end()
        while self._queue:
            self._queue.popleft().drop()

    # --- the worker

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(self._time_left())
            self._wake.clear()
            if self._elect_at is not None and time.monotonic() >= self._elect_at:
                self._elect_at = None
                self._put(self._join())
            while self._queue and not self._stopped:
                self._do(self._queue.popleft())
            if self.active and time.monotonic() >= self._balance_at:
                self._balance_at = time.monotonic() + self._settings.leader_imbalance_check_interval_seconds
                if self._settings.auto_leader_rebalance_enable:
                    self._do(Task(self._reign, Reign.balance, self._session.handler.event_object()))

    def _time_left(self) -> float | None:
        ends = [end for end in (self._elect_at, self._balance_at if self.active else None) if end is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _do(self, task: Task) -> None:
        try:
            if task.work is None:
                self._elect()
            elif task.reign is not self._reign or self._reign is None:
                task.drop()
            else:
                task.result = task.work(self._reign)
        except KafkaError as error:
            task.error = error
        except ControllerFenced as error:
            log.warning("controller %d steps down: %s", self._me, error)
            self._begin_again(task, 0.0)
        except ZooKeeperUnreachable as error:
            log.warning("controller %d steps down: %s", self._me, error)
            self._begin_again(task, AFTER_FAILURE_S)
        except Exception:
            log.exception("controller %d failed, and reads everything anew", self._me)
            self._begin_again(task, AFTER_FAILURE_S)
        finally:
            task.done.set()

    def _begin_again(self, task: Task, pause_s: float) -> None:
        task.error = KafkaError(Error.not_controller)
        self._step_down()
        self._elect_at = time.monotonic() + pause_s

    def _elect(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            return  # the reconnect is told of
        if self.active:
            if self._election.current() == self._me:
                return
            log.warning("controller %d was put aside", self._me)
            self._step_down()
        mandate = self._election.elect(self._me)
        if mandate is None:
            return
        if self._stopped:
            self._election.resign(mandate)
            return
        began = time.monotonic()
        reign = Reign(self._session, self._settings, mandate, self._connect, self._refused)
        self._reign = reign
        reign.load()
        if self._reign is not reign:
            return  # the session was in doubt meanwhile: reign.end() was called
        reign.watch(lambda event: self._put(Task(reign, event, self._session.handler.event_object())))
        self._balance_at = time.monotonic() + self._settings.leader_imbalance_check_interval_seconds
        self.active = True
        log.info(
            "broker %d is the controller, epoch %d: %d brokers, %d partitions, read and told in %.0f ms",
            self._me,
            mandate.epoch,
            len(reign.context.brokers),
            len(reign.context.states),
            (time.monotonic() - began) * 1000,
        )

    def _refused(self) -> None:
        """A broker knows a later controller: look whether this one still is it."""
        reign = self._reign
        if reign is not None:
            mandate = reign.mandate
            self._put(Task(reign, lambda _: self._election.check(mandate), self._session.handler.event_object()))
