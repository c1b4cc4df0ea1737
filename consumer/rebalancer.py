"""Keeps what a consumer reads equal to the plan of its group (P13-P18), whatever changes, fails or comes late.

    NEW ---- start() ---------------------------> AWAY
    AWAY --- registered, ZooKeeper answers -----> SETTLING
    SETTLING ------ no more join for a moment --> REBALANCING -- all of the plan's is won --------> STEADY
                                                  REBALANCING -- another still owns some of it ---> BLOCKED
    BLOCKED ------- it gave some up, or the backoff is over --> REBALANCING
    STEADY, BLOCKED ------- members or topics changed --------> SETTLING
    any ---- ZooKeeper does not answer: what is held is kept, everything is tried again ----------> AWAY
    any ---- the session expired: all is dropped at once, and begins anew ------------------------> AWAY
    any ---- close() ---------------------------> CLOSED

It is level-triggered. Nothing is computed from *what* changed: an attempt looks at the registries as they are, makes
the plan, gives up what is no longer in it, claims what is newly in it and free, and starts that. What stays in the plan
is read all the time. A change that comes meanwhile only means one more attempt.

Why it ends well: a plan depends on the registries alone, so all who see the same ones agree; and giving up never waits
for a claim, so nobody waits in a circle. Why nobody reads what another reads: see holdings.py.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol

from kafka_classic.consumer.assign import plan, thread_of
from kafka_classic.consumer.history import RebalanceHistory
from kafka_classic.consumer.holdings import Group, Hands, Holdings
from kafka_classic.consumer.inbox import Inbox
from kafka_classic.wire.errors import KafkaError
from kafka_classic.zk.consumers import Registration, TopicPartition
from kafka_classic.zk.errors import ConsumerIdTaken, SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.session import SessionState
from kafka_classic.zk.subscriptions import Subscription

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Told of what is released, when reading has ended and all is committed, and before another may own it; and of what
    is acquired, before its first message is handed out.

    On the rebalancer's worker: it holds rebalancing up for as long as it takes. Of what an expired session took along
    it is told afterwards.
    """

    def __call__(self, released: frozenset[TopicPartition], acquired: frozenset[TopicPartition], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait for what; every wait is shortened by up to half at random, so that a herd spreads."""

    max_retries: int = 4  # rebalance.max.retries: backoffs that end in a conflict before everything is given up (P18)
    backoff_s: float = 2.0  # rebalance.backoff.ms: the wait for a release that nobody told of
    quiet_s: float = 0.2  # after a change, before looking
    longest_quiet_s: float = 1.0  # while others keep joining


class State(Enum):
    NEW = "NEW"
    AWAY = "AWAY"
    SETTLING = "SETTLING"
    REBALANCING = "REBALANCING"
    BLOCKED = "BLOCKED"
    STEADY = "STEADY"
    CLOSED = "CLOSED"


_MOVES: dict[State, set[State]] = {
    State.NEW: {State.AWAY, State.CLOSED},
    State.AWAY: {State.SETTLING, State.CLOSED},
    State.SETTLING: {State.REBALANCING, State.AWAY, State.CLOSED},
    State.REBALANCING: {State.STEADY, State.BLOCKED, State.AWAY, State.CLOSED},
    State.BLOCKED: {State.REBALANCING, State.SETTLING, State.AWAY, State.CLOSED},
    State.STEADY: {State.SETTLING, State.AWAY, State.CLOSED},
    State.CLOSED: set(),
}


class Rebalancer:
    """One consumer's part in its group: registers it, and keeps `hands` reading what is its own.

        rebalancer = Rebalancer(GroupRegistry(session, group), hands, topics, consumer, subscription)
        session.add_listener(rebalancer.on_session)  # expiry and reconnection
        rebalancer.start()
        rebalancer.trigger("topics changed")         # whenever topics() has something new to say
        rebalancer.close()                           # stop, commit, release, unregister: before the session closes

    `topics()` returns the partitions of every topic as they are known now; it is called on the worker, and never waits.
    `trigger`, `on_session`, `session_lost` and `session_renewed` may be called on any thread, ZooKeeper's own too: they
    only take note. `registered(registration)` is called in each session before anything is claimed in it: whoever hands
    messages out does so only while that session surely lives (`kafka_classic.zk.lease`), whatever this worker knows.

    `turn()` is all that the worker does, in a loop: it may be called in its stead, as the simulation does.
    """

    def __init__(
        self,
        group: Group,
        hands: Hands,
        topics: Callable[[], Mapping[str, Sequence[int]]],
        consumer: str,
        subscription: Subscription,
        *,
        pace: Pace | None = None,
        listener: Listener | None = None,
        registered: Callable[[Registration], None] | None = None,
        operations: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.consumer = consumer
        self.subscription = subscription
        self.history = RebalanceHistory()
        self.steady = threading.Event()  # set while STEADY
        self._group = group
        self._topics = topics
        self._pace = pace or Pace()
        self._listener = listener
        self._registered = registered or (lambda _: None)
        self._operations = operations or (lambda: group.operations)
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng
        self._state = State.NEW
        self._thread: threading.Thread | None = None

        self.inbox = Inbox()

        # What the worker alone knows.
        self._registration: Registration | None = None
        self._members: dict[str, Subscription] | None = None
        self._seen: set[str] = set()
        self._holdings = Holdings(group, hands)
        self._blocked: frozenset[TopicPartition] = frozenset()
        self._due = inf  # when the next attempt is to be made
        self._quiet_until = inf  # how long that may be put off
        self._backing_off = False  # it is due because a backoff is over, not because something was given up
        self._fruitless = 0  # backoffs in a row in which nothing was given up
        self._patience = self._pace.max_retries
        self._in_a_row = 0  # failures

    # --- from any thread

    @property
    def state(self) -> State:
        return self._state

    @property
    def registration(self) -> Registration | None:
        """What a commit of this consumer is fenced with; None while it is not registered in a session."""
        return self._registration

    @property
    def reading(self) -> frozenset[TopicPartition]:
        """What the hands read at this moment."""
        return self._holdings.reading

    @property
    def blocked(self) -> frozenset[TopicPartition]:
        """What the plan gives this consumer and another still owned at the last look."""
        return self._blocked

    def start(self) -> None:
        """Registers and begins, on a worker of its own; `steady.wait(…)` tells when it is first done."""
        self._thread = threading.Thread(target=self._run, name=f"rebalancer of {self.consumer}", daemon=True)
        self._thread.start()

    def trigger(self, why: str) -> None:
        """Something may have changed: look again."""
        self.inbox.look_again(why)

    def on_session(self, state: SessionState) -> None:
        """A listener for the session."""
        if state is SessionState.LOST:
            self.session_lost()
        elif state is SessionState.CONNECTED:
            self.session_renewed()

    def session_lost(self) -> None:
        """The session has expired: every claim is gone."""
        self.inbox.lost()

    def session_renewed(self) -> None:
        """ZooKeeper is connected again, in this session or in a new one: all watches are gone."""
        self.inbox.look_again("ZooKeeper is connected again", stale=True)

    def leave(self) -> None:
        """Ask for what `close` does, and do not wait."""
        self.inbox.close()

    def close(self, timeout: float | None = None) -> bool:
        """Stops reading, commits, releases everything and leaves the group; False if that takes longer than `timeout`.

        Without ZooKeeper nothing can be committed or released: reading stops, and the end of the session does the rest.
        """
        self.leave()
        if self._thread is None:
            self.turn()
        elif self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return self._state is State.CLOSED

    def _members_changed(self) -> None:
        self.inbox.look_again("the members changed", stale=True)

    # --- the worker

    def _run(self) -> None:
        while True:
            wait = self.turn()
            if self._state is State.CLOSED:
                return
            self.inbox.woken.wait(wait)

    def turn(self) -> float | None:
        """Does what is due. Returns in how many seconds to call again unless the inbox wakes before; None is never."""
        news = self.inbox.take()
        if self._state is State.CLOSED:
            return None
        if self._state is State.NEW:
            self._move(State.AWAY)
            self._due = self._clock()
            self._begin(["it starts"])
        if news.stale:
            self._members = None
        if news.why:
            self._begin(news.why)
        try:
            if news.lost:
                self._forget()
            if self.inbox.closing:
                self._leave()
            else:
                self._take_up(news.freed, changed=bool(news.why))
                if self._clock() >= self._due:
                    self._go_on()
        except SessionReplaced as error:
            log.warning("consumer %s: %s; everything it read is dropped, and claimed anew", self.consumer, error)
            self.session_lost()
            self._failed(error, wait=0.0)
        except (ZooKeeperUnreachable, ConsumerIdTaken, KafkaError) as error:
            self._failed(error)
        except Exception as error:
            log.exception("consumer %s: the rebalance failed", self.consumer)
            self._failed(error)
        self._tell()
        return None if self._due == inf else max(0.0, self._due - self._clock())

    def _take_up(self, freed: set[TopicPartition], *, changed: bool) -> None:
        """What was told sets when the next attempt is made."""
        if self._state is State.BLOCKED and freed & self._blocked:
            self._look_again_at_once()
        if changed:
            if self._state in (State.STEADY, State.BLOCKED):
                self._settle()
            elif self._state is State.AWAY:
                self._due = self._clock()  # it may be back

    def _settle(self) -> None:
        """Wait a moment for more of the same: 64 that join at once should not be 64 rebalances."""
        self._move(State.SETTLING)
        now = self._clock()
        self._due = now + self._jitter(self._pace.quiet_s)
        self._quiet_until = now + self._pace.longest_quiet_s

    def _go_on(self) -> None:
        if self._registration is None:
            self._members = None
            registration = self._group.register(self.consumer, self.subscription)
            self._registered(registration)
            self._registration = registration
        if self._state is State.AWAY:
            self._settle()
            return
        if self._state is State.BLOCKED and self._backing_off and not self._has_patience():
            self._surrender(self._registration)
            return
        if self._members is None:
            self._members = self._group.members(self._members_changed)
            joined = self._members.keys() - self._seen - {self.consumer}
            self._seen = set(self._members)
            now = self._clock()
            if self._state is State.SETTLING and joined and now < self._quiet_until:
                self._due = min(now + self._jitter(self._pace.quiet_s), self._quiet_until)
                return
        self._attempt(self._registration, self._members)

    def _attempt(self, registration: Registration, members: Mapping[str, Subscription]) -> None:
        self._move(State.REBALANCING)
        self.history.attempted()
        holdings = self._holdings
        holdings.look_up(registration)
        planned = plan(self._topics(), members)
        mine = {at: thread for at, thread in planned.items() if thread_of(thread)[0] == self.consumer}
        self._give_up(registration, [at for at, thread in holdings.owned.items() if mine.get(at) != thread])
        holdings.claim(registration, {at: thread for at, thread in mine.items() if at not in holdings.owned})
        holdings.announce()
        self._tell()
        holdings.start()
        self._blocked = frozenset(mine.keys() - holdings.owned.keys())
        self._in_a_row = 0
        if not self._blocked:
            self._due = inf
            self._move(State.STEADY)
            self._end()
        else:
            self._move(State.BLOCKED)
            self._await_release()

    def _give_up(self, registration: Registration, partitions: Collection[TopicPartition]) -> None:
        """Stop reading, commit, tell the application, and only then delete the owner znodes."""
        if partitions:
            self._holdings.stop(partitions)
            self._tell()
            self._holdings.release(registration, partitions)

    # --- conflicts

    def _await_release(self) -> None:
        """Hear of the owners' znodes going, and look again after a while in any case."""
        self._backing_off = True
        self._due = self._clock() + self._jitter(self._pace.backoff_s)
        if self._group.await_release(self._blocked, self.inbox.freed):
            self._look_again_at_once()

    def _look_again_at_once(self) -> None:
        self._backing_off = False
        self._fruitless = 0
        self._due = self._clock()

    def _has_patience(self) -> bool:
        """A backoff is over in which nobody gave anything up; false when there were too many of them."""
        self._fruitless += 1
        self.history.conflicts += 1
        self._holdings.doubtful |= self._blocked  # should a znode in the way be our own, this finds it
        return self._fruitless <= self._patience

    def _surrender(self, registration: Registration) -> None:
        """P18 in full: release all, wait a bit, read all anew. Ever more rarely: it stops what does go well."""
        log.warning(
            "consumer %s: cannot rebalance after %d retries: %d partitions are still owned by others, the first is %s; "
            "it releases all %d of its own and goes on trying",
            *(self.consumer, self._fruitless - 1, len(self._blocked), min(self._blocked), len(self._holdings.owned)),
        )
        self._fruitless = 0
        self._patience *= 2
        self.history.surrenders += 1
        self._holdings.look_up(registration)
        self._give_up(registration, [*self._holdings.owned])
        self._members = None
        self._settle()

    # --- failures, and the end

    def _failed(self, error: Exception, wait: float | None = None) -> None:
        self.history.failures += 1
        level = logging.WARNING if self._in_a_row % 10 == 0 else logging.DEBUG
        log.log(level, "consumer %s: the rebalance cannot go on and is tried again: %s", self.consumer, error)
        if self._state is State.CLOSED:
            return
        if self._state is not State.AWAY:
            self._move(State.AWAY)
        if wait is None:
            wait = min(self._pace.backoff_s, self._pace.quiet_s * 2.0 ** min(self._in_a_row, 10))
        self._in_a_row += 1
        self._due = self._clock() + self._jitter(wait)

    def _forget(self) -> None:
        """The session expired: begin anew."""
        self._registration = None
        self._members = None
        try:
            self._holdings.forget()
        except Exception:
            self.session_lost()  # first of all once more
            raise
        self._blocked = frozenset()
        self.history.expirations += 1
        self._begin(["the session expired"])
        if self._state is not State.AWAY:
            self._move(State.AWAY)
        self._due = self._clock()

    def _leave(self) -> None:
        try:
            if self._registration is not None:
                self._holdings.look_up(self._registration)
                self._give_up(self._registration, [*self._holdings.owned])
                self._group.unregister(self._registration)
        except Exception as error:
            log.warning(
                "consumer %s leaves without a commit; its session's end does the rest: %s", self.consumer, error
            )
        finally:
            self._registration = None
            self._blocked = frozenset()
            self._due = inf
            self._holdings.forget()
            self._move(State.CLOSED)

    # --- small things

    def _move(self, state: State) -> None:
        if state not in _MOVES[self._state]:
            raise RuntimeError(f"consumer {self.consumer}: a rebalancer cannot go from {self._state} to {state}")
        self._state = state
        if state is State.STEADY:
            self.steady.set()
        else:
            self.steady.clear()

    def _jitter(self, seconds: float) -> float:
        return seconds * (0.5 + self._rng() / 2)

    def _begin(self, why: Sequence[str]) -> None:
        self.history.begin(why, self._wall_clock(), self._clock(), self._operations())

    def _end(self) -> None:
        self._fruitless = 0
        self._patience = self._pace.max_retries
        self.history.moved(self._holdings.released, self._holdings.acquired)
        record = self.history.end(self._clock(), self._operations())
        if record is not None and (record.released or record.acquired):
            log.info(
                "consumer %s reads %d partitions: %d released, %d acquired in %.3f s and %d attempts (%s)",
                *(self.consumer, len(self.reading), len(record.released), len(record.acquired)),
                *(record.seconds, record.attempts, record.why),
            )

    def _tell(self) -> None:
        released, acquired = self._holdings.moved()
        if not released and not acquired:
            return
        self.history.moved(released, acquired)
        if self._listener is not None:
            try:
                self._listener(released, acquired)
            except Exception:
                log.exception("consumer %s: the rebalance listener failed", self.consumer)
