"""The sender: one lock over all that is on its way, and input and output by whoever has something to do.

A caller whose batch is full writes it, a caller who waits for a future reads the answers. Only what nobody waits for is
left to the producer's own thread. Handing every request over to another thread costs two switches each and, while the
application computes, up to the interpreter's switch interval: this is what makes small batches fast.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_classic.client.producer_id import ProducerId
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.decisions import Decisions
from kafka_classic.producer.delivery import Delivery
from kafka_classic.producer.errors import WindowShut, closed, exhausted
from kafka_classic.producer.gathering import Gathering
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.link import Link
from kafka_classic.producer.memory import Memory
from kafka_classic.producer.poller import Poller
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.encode import NewRecord
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.producer.auditing import Auditor

log = logging.getLogger(__name__)

_FOREVER = float("inf")
_NAP_S = 0.002
_FEW = 32  # messages in such a time: so few that the thread may wake for each answer
_LONGEST_S = 5.0
_LOOK_AGAIN_S = 0.05


class Sender:
    """Thread-safe. Methods with a leading underscore expect `lock` to be held, or say that they must not."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        find: Callable[[Lane], None],
        batch_closed: Callable[[str], None],
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        auditor: Auditor | None = None,
    ) -> None:
        self._clock = clock
        self._block = settings.max_block_ms / 1000
        self.lock = threading.Lock()
        self.memory = Memory(settings.buffer_memory)
        self._decisions = (auditor.decisions if auditor else Decisions)(self.lock, self.memory)
        self._poller = Poller()
        packer = auditor.packer(settings) if auditor else None
        self._delivery = Delivery(settings, self._poller, self._decisions, find, rng, clock, packer)
        gathering = auditor.gathering if auditor else Gathering
        self._gathering = gathering(settings, self, self._delivery.enqueue, batch_closed, clock)
        self._at_once = not settings.linger_ms
        # The thread is not told of what is sent at once: it must see in time that no answer comes.
        self._longest = min(_LONGEST_S, settings.request_timeout_ms / 1000)
        self.lanes = self._delivery.lanes
        self._changed = threading.Condition(self.lock)
        self._waiting = 0
        self._driving = threading.Lock()
        self._heard = False  # by one who drove: a bell that may have been for the thread
        self._activity = 0
        self._seen = 0  # of it, by the thread when it last looked
        self._asleep = False  # the thread waits for events
        self._watching = False  # and was not yet told of what has none
        self._closing = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="kafka-producer-sender", daemon=True)
        self._thread.start()

    # --- what callers do

    def lane(self, topic: str, partition: int) -> Lane:
        with self.lock:
            return self._delivery.lane(topic, partition)

    def append(self, lane: Lane, record: NewRecord, size: int) -> tuple[Batch, int]:
        """Gather one record, once there is memory for it; returns its batch and its place there."""
        with self.lock:
            if self._closing:
                raise closed()
            placed = self._gather(lane, record, size) if self.memory.take(size) else None
        if placed is None:
            self._wait_for_memory(size)
            with self.lock:
                self._check_still_open(size)
                placed = self._gather(lane, record, size)
        if self._decisions.calls and self._decisions.call_back():
            self._called_back()
        return placed

    def append_set(self, lane: Lane, records: list[NewRecord], size: int, *, at_once: bool) -> Batch:
        """Queue records as a batch of their own and write it if that is possible; `at_once` waits until it is."""
        with self.lock:
            if self._closing:
                raise closed()
            batch = self._queue_set(lane, records, size) if self.memory.take(size) else None
        if batch is None:
            self._wait_for_memory(size)
            with self.lock:
                self._check_still_open(size)
                batch = self._queue_set(lane, records, size)
        if self._decisions.call_back():
            self._called_back()
        if at_once and not batch.sent:
            self.wait_until(lambda: batch.sent or batch.done, _FOREVER)
        return batch

    def flush(self, deadline: float) -> bool:
        """Send all that is there now and wait until it is decided and told; False when that took too long."""
        with self.lock:
            self._send_all()
            waited_for = self._delivery.undecided()
            waited_for.reverse()

        def decided() -> bool:
            while waited_for and waited_for[-1].done:
                waited_for.pop()
            return not waited_for and not self._delivery.unwritten() and self._decisions.all_called()

        return self.wait_until(decided, deadline)

    def close(self) -> None:
        """Give up what is not decided, and end the thread."""
        with self.lock:
            if self._closing:
                return
            self._closing = True
            self._gathering.close_all()
            self._delivery.close()
            self._stopped = True
            self._poller.ring()
            self._changed.notify_all()
        self._decisions.call_back()
        # A callback may be called by one who drives, and the thread ends only after that one.
        if threading.current_thread() is not self._thread and not self._decisions.calling_here():
            self._thread.join()

    def forked(self) -> None:
        """In a child process: threads, answers and the poller's kernel side are the parent's, a lock may be held."""
        self._closing = self._stopped = True
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._driving = threading.Lock()

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> bool:
        """Drive input and output until `ready()`, which is called with the lock held; False after the deadline."""
        try:
            return self._drive_until(ready, deadline)
        finally:
            if self._heard:
                self._heard = False
                if self._asleep:
                    self._poller.ring()

    def _drive_until(self, ready: Callable[[], bool], deadline: float) -> bool:
        while True:
            with self.lock:
                if ready():
                    return True
                stopped = self._stopped
            left = deadline - self._clock()
            if left <= 0 or stopped:
                return False
            if self._driving.acquire(blocking=False):
                try:
                    if not self._stopped:
                        self._turn(left, ready)
                finally:
                    self._driving.release()
                if self._waiting:
                    with self.lock:
                        self._changed.notify_all()
            else:
                with self.lock:
                    if ready():
                        return True
                    self._waiting += 1
                    self._changed.wait(min(left, _LOOK_AGAIN_S))
                    self._waiting -= 1

    def when_done(self, batch: Batch, call: Callable[[], None]) -> None:
        with self.lock:
            waits = self._decisions.when_done(batch, call)
        if not waits:
            call()

    # --- what the scout tells

    def link(self, node: int) -> Link | None:
        with self.lock:
            return self._delivery.links.get(node)

    def add_link(self, link: Link) -> Link:
        with self.lock:
            return self._delivery.add_link(link)

    def found(self, lane: Lane, link: Link, producer: ProducerId | None) -> None:
        self._told(lambda: self._delivery.found(lane, link, producer))

    def not_found(self, lane: Lane, error: KafkaError) -> None:
        self._told(lambda: self._delivery.not_found(lane, error))

    def moved(self, lane: Lane, leader: int) -> None:
        self._told(lambda: self._delivery.moved(lane, leader))

    def _told(self, act: Callable[[], None]) -> None:
        """Callbacks are left to who is woken: one that waits for another message would wait for the scout in vain."""
        with self.lock:
            if not self._closing:
                act()
                self._wake()

    # --- gathering

    def _gather(self, lane: Lane, record: NewRecord, size: int) -> tuple[Batch, int]:
        self._activity += 1
        fresh = lane.open is None
        try:
            batch, index, full = self._gathering.append(lane, record, size)
        except WindowShut:
            self.memory.give(size)
            raise
        if fresh and self._at_once and self._activity - self._seen <= _FEW and self._delivery.idle(lane):
            # Messages come one by one, and nothing is on its way for which it could wait, to be joined by others.
            self._gathering.close(lane)
            full = True
        if full:
            self._delivery.pump(lane.link)
            if self._waiting:
                self._changed.notify_all()
        if (fresh or full) and self._watching and not batch.sent:
            self._wake()
        return batch, index

    def _queue_set(self, lane: Lane, records: list[NewRecord], size: int) -> Batch:
        self._activity += 1
        if lane.open is not None:
            self._gathering.close(lane)
        try:
            batch = self._gathering.new_batch(lane, records, size)
        except WindowShut:
            self.memory.give(size)
            raise
        self._delivery.enqueue(batch)
        self._delivery.pump(lane.link)
        if self._watching and not batch.sent:
            self._wake()
        if self._waiting:
            self._changed.notify_all()
        return batch

    def _send_all(self) -> None:
        self._gathering.close_all()
        for link in list(self._delivery.links.values()):
            self._delivery.pump(link)

    def _wait_for_memory(self, size: int) -> None:
        """Wait, without the lock, up to max.block.ms."""
        with self.lock:
            turn = self.memory.queue(size)

        def served() -> bool:
            if not turn.served and not self._closing:
                self._send_all()  # what lingers holds memory that somebody waits for
            return turn.served or self._closing

        kept = False
        try:
            kept = self.wait_until(served, self._clock() + self._block) and turn.served
        finally:
            if not kept:
                with self.lock:
                    self.memory.leave(turn)
        if not kept:
            raise closed() if self._closing else exhausted(size, self.memory.limit)

    def _check_still_open(self, size: int) -> None:
        if self._closing:
            self.memory.give(size)
            raise closed()

    # --- the thread, and turns

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._work()
            except BaseException:  # a callback may call sys.exit()
                # Without this thread nothing would ever be given up, and every future waited for in vain.
                log.exception("the producer's sender failed; it goes on")
                time.sleep(_LOOK_AGAIN_S)
        self._poller.ring()  # for a caller who waits for the sockets
        with self._driving, self.lock:
            self._poller.close()

    def _work(self) -> None:
        while True:
            with self.lock:
                if self._stopped:
                    return
                driven = self._driving.locked()
                came = self._activity - self._seen
                self._seen = self._activity
                timeout = self._keep_time()
                self._asleep = self._watching = not (came or driven)
            if self._decisions.call_back():
                self._called_back()
            if driven or came > _FEW:
                # Others are at it: to wake for every answer that they will read would only take time from them.
                time.sleep(min(timeout, _NAP_S))
                timeout = 0.0
            elif came:
                timeout = min(timeout, _NAP_S)
            bell = self._serve(timeout)
            self._asleep = self._watching = False
            if bell and self._driving.acquire(blocking=False):
                # While a caller drives it is for him: hushed here, it might not wake him.
                self._poller.hush()
                self._driving.release()
                with self.lock:
                    self._changed.notify_all()

    def _turn(self, longest: float, ready: Callable[[], bool]) -> None:
        """Do what is due and wait once for what comes; not if it is ready by now."""
        with self.lock:
            self._activity += 1
            timeout = self._keep_time()
            if ready():
                timeout = 0.0
        if self._decisions.call_back():
            self._called_back()
            timeout = 0.0  # what is waited for may be there
        if self._serve(min(longest, timeout)):
            self._poller.hush()
            self._heard = True

    def _serve(self, timeout: float) -> bool:
        """Wait, without the lock, for links that have something, and serve them; whether the bell rings."""
        events, bell = self._poller.wait(timeout)
        with self.lock:
            for link, writable in events:
                self._delivery.serve(link, writable)
            if self._waiting and events:
                self._changed.notify_all()
        if events and threading.current_thread() is self._thread and self._driving.locked():
            self._poller.ring()  # a caller waits for what he would have read himself
        if self._decisions.call_back():
            self._called_back()
        return bell

    def _keep_time(self) -> float:
        """Do what time asks for, and return the seconds until there is more of it."""
        now = self._clock()
        lingers = self._gathering.close_lingered(now, self._delivery.would_send)
        busy = self.memory.used or self._delivery.unwritten()
        soonest = min(lingers, self._delivery.keep_time(now)) if busy else _FOREVER
        if self._waiting:
            self._changed.notify_all()
        return min(self._longest, max(0.0, soonest - now))

    def _wake(self) -> None:
        self._watching = False
        self._poller.ring()

    def _called_back(self) -> None:
        """Tell, without the lock, a flush() that waits for the callbacks of another thread."""
        with self.lock:
            if self._driving.locked() and not self._stopped:
                self._poller.ring()
            self._changed.notify_all()
