"""The sender: queued batches out, answers in, failures back into their order. Nothing here waits but its callers.

One lock guards all of it, and whoever has something to do does the input and output himself, without waiting: a caller
whose batch is full writes it, a caller who waits for a future reads the answers. Only what nobody waits for is left
to the producer's own thread. Handing every request over to another thread costs two switches each and, while the
application computes, up to the interpreter's switch interval: this is what makes small batches fast.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from collections.abc import Callable, Iterable

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import OUT_OF_DATE
from kafka_classic.client.errors import ConnectionLost, RequestTimedOut
from kafka_classic.client.leaders import partition_error
from kafka_classic.client.produce_packed import Produced, pack_produce, read_produced
from kafka_classic.client.producer_id import ProducerId
from kafka_classic.producer.batch import Batch, Lane
from kafka_classic.producer.errors import BufferExhausted, DeliveryTimedOut, ProducerClosed
from kafka_classic.producer.link import Link, Request
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.producer.verdict import Verdict, judge
from kafka_classic.records.batch import seal
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.wire.errors import Error, KafkaError

log = logging.getLogger(__name__)

_NAP_S = 0.002
_LONGEST_S = 5.0
_LONGEST_SCAN_S = 0.1


class Sender:
    """Guarded by `lock`; methods with a leading underscore expect it held."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        find: Callable[[Lane], None],
        batch_closed: Callable[[str], None],
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._batch_closed = batch_closed
        self._rng = rng
        self._clock = clock
        self._acks = settings.required_acks
        self._codec = settings.codec
        self._level = settings.level
        self._idempotent = settings.enable_idempotence
        self._batch_size = settings.batch_size
        self._linger = settings.linger_ms / 1000
        self._max_request = settings.max_request_size
        self._most_in_flight = settings.max_in_flight_requests_per_connection
        self._retries = settings.retries
        self._request_timeout_ms = settings.request_timeout_ms
        self._request_timeout = settings.request_timeout_ms / 1000
        self._delivery_timeout = settings.delivery_timeout_ms / 1000
        self._scan_every = min(_LONGEST_SCAN_S, max(0.005, settings.delivery_timeout_ms / 10_000))
        self._backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._memory = settings.buffer_memory
        self._memory_waiters = 0
        self.memory_used = 0

        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._waiting = 0
        self._driving = threading.Lock()
        self._activity = 0
        self._watching = False
        self._stopped = False
        self._closing = False
        self.lanes: dict[tuple[str, int], Lane] = {}
        self._links: dict[int, Link] = {}
        self._gathering: dict[Lane, None] = {}  # lanes with an open batch, the oldest first
        self._retrying: dict[Lane, None] = {}
        self._decided: list[Callable[[], None]] = []
        self._next_scan = 0.0
        self._unfinished = 0
        self._epoll = select.epoll()
        self._by_fd: dict[int, Link] = {}
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._nap = select.poll()
        self._nap.register(self._wake_fd, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="kafka-producer-sender", daemon=True)
        self._thread.start()

    # --- what callers do

    def lane(self, topic: str, partition: int) -> Lane:
        with self.lock:
            return self.lanes.setdefault((topic, partition), Lane((topic, partition)))

    def reserve(self, size: int, block: float) -> None:
        """Take memory for `size` bytes, waiting up to `block` seconds for it."""

        def free() -> bool:
            if self._closing:
                raise _closed()
            if self.memory_used + size > self._memory:
                self._close_all()  # what lingers holds memory that somebody waits for
                return False
            self.memory_used += size
            return True

        with self.lock:
            if free():
                return
        if not self.wait_until(free, self._clock() + block):
            raise BufferExhausted(
                Error.request_timed_out,
                f"no {size} bytes of buffer.memory ({self._memory}) became free within max.block.ms: "
                "brokers take less than is sent; send less, or wait longer",
            )

    def append(self, lane: Lane, record: NewRecord, size: int) -> tuple[Batch, int]:
        """Gather one record, memory for which is reserved; returns its batch and its place there."""
        with self.lock:
            self._check_open()
            self._activity += 1
            batch = lane.open
            if batch is not None and batch.size + size > self._batch_size:
                self._close(lane)
                self._pump(lane.link)
                batch = None
            if batch is None:
                now = self._clock()
                batch = lane.open = Batch(self, lane, [], 0, now, now + self._delivery_timeout)
                self._unfinished += 1
                self._gathering[lane] = None
                if self._watching:
                    self._wake()
            index = len(batch.records)
            batch.records.append(record)
            batch.size += size
            if batch.size >= self._batch_size:
                self._close(lane)
                self._pump(lane.link)
        self._call_back()
        return batch, index

    def append_set(self, lane: Lane, records: list[NewRecord], size: int, *, at_once: bool) -> Batch:
        """Queue records as a batch of their own and write it if that is possible; `at_once` waits until it is."""
        with self.lock:
            self._check_open()
            self._activity += 1
            if lane.open is not None:
                self._close(lane)
            now = self._clock()
            batch = Batch(self, lane, records, size, now, now + self._delivery_timeout)
            self._unfinished += 1
            self._enqueue(lane, batch)
            self._pump(lane.link)
            if self._watching and not batch.sent:
                self._wake()
        self._call_back()
        if at_once and not batch.sent:
            self.wait_until(lambda: batch.sent or batch.done, float("inf"))
        return batch

    def flush(self, deadline: float) -> bool:
        """Send all that is there now and wait until it is decided; False when that took too long."""
        with self.lock:
            self._close_all()
            waited_for = [batch for lane in self.lanes.values() for batch in (*lane.failed, *lane.queue)]
            waited_for += [batch for link in self._links.values() for one in link.requests for batch in one.batches]
            waited_for.reverse()

        def decided() -> bool:
            while waited_for and waited_for[-1].done:
                waited_for.pop()
            return not waited_for and not any(link.backlog for link in self._links.values())

        return self.wait_until(decided, deadline)

    def close(self) -> None:
        """Give up what is not decided, and end the thread."""
        with self.lock:
            self._closing = True
            self._close_all()
            for link in list(self._links.values()):
                for request in link.requests:
                    for batch in request.batches:
                        self._settle(batch, _closed())
                self._drop(link)
            for lane in self.lanes.values():
                for batch in (*lane.failed, *lane.queue):
                    self._settle(batch, _closed())
                lane.queue.clear()
            self._stopped = True
            self._wake()
            self._changed.notify_all()
        self._call_back()
        if threading.current_thread() is not self._thread:
            self._thread.join()
            # Nobody polls these any more but a caller who waits, and he is told by `_stopped`.
            with self._driving:
                self._epoll.close()
                os.close(self._wake_fd)

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> bool:
        """Drive input and output until `ready()`, which is called with the lock held; False after the deadline."""
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
                        self._turn(left)
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
                    self._changed.wait(min(left, 0.05))
                    self._waiting -= 1

    def when_done(self, batch: Batch, call: Callable[[], None]) -> None:
        with self.lock:
            if not batch.done:
                batch.calls = [*(batch.calls or ()), call]
                return
        call()

    # --- what the scout tells

    def link(self, node: int) -> Link | None:
        with self.lock:
            return self._links.get(node)

    def add_link(self, link: Link) -> None:
        with self.lock:
            if self._closing:
                link.close()
                return
            self._links[link.node] = link
            self._by_fd[link.fd] = link
            self._epoll.register(link.fd, select.EPOLLIN)

    def found(self, lane: Lane, link: Link, producer: ProducerId | None) -> None:
        """A lane's leader is known, and the producer id under which to send to it."""
        with self.lock:
            lane.asked = False
            if self._closing:
                return
            if lane.producer is None:
                lane.producer = producer
            lane.link = None if link.lost else link
            self._make_due(lane)
            self._pump(lane.link)
            self._wake()
        self._call_back()

    def not_found(self, lane: Lane, error: KafkaError) -> None:
        with self.lock:
            lane.asked = False
            lane.last_error = error
            self._retry_later(lane)
            self._wake()

    def moved(self, lane: Lane, leader: int) -> None:
        """The metadata name another leader; what is in flight is left to be answered by the old one."""
        with self.lock:
            if lane.link is not None and lane.link.node != leader and not lane.in_flight:
                self._unlink(lane)
                self._make_due(lane)

    # --- the thread, and turns

    def _run(self) -> None:
        seen = -1
        while True:
            with self.lock:
                if self._stopped:
                    return
                busy = self._activity != seen or self._driving.locked()
                seen = self._activity
                timeout = self._keep_time(self._clock())
                self._watching = not busy
            self._call_back()
            if busy:
                # Others are at it: to wake for every answer that they will read would only take time from them.
                self._nap.poll(min(timeout, _NAP_S) * 1000)
                events = self._epoll.poll(0)
            else:
                events = self._epoll.poll(timeout)
            with self.lock:
                self._watching = False
                self._serve(events)
            self._call_back()

    def _turn(self, longest: float) -> None:
        with self.lock:
            self._activity += 1
            timeout = min(longest, self._keep_time(self._clock()))
        self._call_back()
        events = self._epoll.poll(timeout)
        with self.lock:
            self._activity += 1
            self._serve(events)
        self._call_back()

    def _wake(self) -> None:
        self._watching = False
        os.eventfd_write(self._wake_fd, 1)

    def _serve(self, events: Iterable[tuple[int, int]]) -> None:
        for fd, what in events:
            if fd == self._wake_fd:
                try:
                    os.eventfd_read(fd)
                except BlockingIOError:
                    pass
                continue
            link = self._by_fd.get(fd)
            if link is None:
                continue
            try:
                if what & select.EPOLLOUT:
                    link.write_on()
                    self._watch_writing(link)
                self._receive(link)
            except (OSError, ValueError) as error:
                self._lose(link, error)
                continue
            self._pump(link)

    def _keep_time(self, now: float) -> float:
        """Do what time asks for, and return the seconds until there is more of it."""
        next_time = now + _LONGEST_S
        while self._gathering:
            lane = next(iter(self._gathering))
            assert lane.open is not None
            ready = lane.open.created + self._linger
            if ready > now:
                next_time = min(next_time, ready)
                break
            self._close(lane)
            if lane.link is not None and len(lane.link.due) >= len(self._gathering):
                self._pump(lane.link)
        for lane in list(self._retrying):
            assert lane.retry_at is not None
            if lane.retry_at <= now:
                del self._retrying[lane]
                lane.retry_at = None
                self._make_due(lane)
            else:
                next_time = min(next_time, lane.retry_at)
        for link in list(self._links.values()):
            if link.due:
                self._pump(link)
        if self._unfinished:
            if now >= self._next_scan:
                self._next_scan = now + self._scan_every
                self._expire(now)
            next_time = min(next_time, self._next_scan)
        return max(0.0, next_time - now)

    def _expire(self, now: float) -> None:
        for lane in self.lanes.values():
            while lane.queue and lane.queue[0].deadline <= now:
                self._settle(lane.queue.popleft(), _timed_out(lane))
        for link in list(self._links.values()):
            for request in link.requests:
                for batch in request.batches:
                    if batch.deadline <= now:
                        self._settle(batch, _timed_out(batch.lane))
            if link.requests and link.requests[0].deadline <= now:
                self._lose(link, TimeoutError())

    # --- queues

    def _close(self, lane: Lane) -> None:
        batch, lane.open = lane.open, None
        del self._gathering[lane]
        assert batch is not None
        self._batch_closed(lane.at[0])
        self._enqueue(lane, batch)

    def _close_all(self) -> None:
        for lane in list(self._gathering):
            self._close(lane)
            self._pump(lane.link)

    def _enqueue(self, lane: Lane, batch: Batch) -> None:
        lane.queue.append(batch)
        if not lane.due:
            self._make_due(lane)

    def _make_due(self, lane: Lane) -> None:
        """Put a lane that may send into its link's row, or have its leader looked for."""
        if lane.due or lane.failed or lane.retry_at is not None or not lane.queue or self._closing:
            return
        if lane.link is None or (self._idempotent and lane.producer is None):
            if not lane.asked:
                lane.asked = True
                self._find(lane)
            return
        lane.due = True
        lane.link.due.append(lane)

    def _unlink(self, lane: Lane) -> None:
        """Forget a lane's leader. It leaves the row as well: twice in a row would be twice in a request."""
        link, lane.link = lane.link, None
        if lane.due:
            lane.due = False
            if link is not None and lane in link.due:
                link.due.remove(lane)

    # --- out

    def _pump(self, link: Link | None) -> None:
        """Write requests while there is something to send and room for it."""
        if link is None or link.lost:
            return
        try:
            if len(link.requests) >= self._most_in_flight:
                self._receive(link)
            while link.due and len(link.requests) < self._most_in_flight and not link.backlog:
                batches = self._take(link)
                if batches:
                    self._send(link, batches)
        except (OSError, ValueError) as error:
            self._lose(link, error)

    def _take(self, link: Link) -> list[Batch]:
        """Take the first batch of each lane that is due, as many as fit into one request."""
        batches: list[Batch] = []
        more: list[Lane] = []
        size = 0
        while link.due:
            lane = link.due[0]
            if lane.failed or lane.retry_at is not None or not lane.queue:
                lane.due = False
                link.due.popleft()
                continue
            size += lane.queue[0].size
            if batches and size > self._max_request:
                break
            link.due.popleft()
            batch = lane.queue.popleft()
            self._encode(lane, batch)
            lane.in_flight += 1
            batches.append(batch)
            if lane.queue:
                more.append(lane)
            else:
                lane.due = False
        link.due.extend(more)
        return batches

    def _encode(self, lane: Lane, batch: Batch) -> None:
        producer = lane.producer
        if batch.data is not None and batch.producer is producer:
            return
        if producer is None:
            batch.encoded(encode_batch(batch.records, self._codec, level=self._level))
            return
        count = batch.count or len(batch.records)
        batch.producer = producer
        batch.sequence = lane.next_sequence
        lane.next_sequence = (lane.next_sequence + count) & 0x7FFFFFFF
        if batch.data is None:
            batch.encoded(
                encode_batch(
                    batch.records,
                    self._codec,
                    level=self._level,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    base_sequence=batch.sequence,
                )
            )
        else:
            data = bytearray(batch.data)
            seal(data, producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=batch.sequence)
            batch.data = data

    def _send(self, link: Link, batches: list[Batch]) -> None:
        body = pack_produce(
            {batch.lane.at: batch.data for batch in batches},  # type: ignore[misc]  # encoded, all of them
            self._acks,
            self._request_timeout_ms,
        )
        # Noted before it is written: what is lost half-way must be sent again.
        request = Request(link.next_correlation_id, batches, self._clock() + self._request_timeout)
        if self._acks:
            link.requests.append(request)
        try:
            link.send(body)
        except OSError:
            if not self._acks:
                for batch in batches:
                    self._failed(batch, ConnectionLost(Error.network_exception, f"lost broker {link.address}"))
            raise
        if link.backlog:
            self._watch_writing(link)
        for batch in batches:
            batch.sent = True
            if not self._acks:
                batch.lane.in_flight -= 1
                self._settle(batch, None)

    def _watch_writing(self, link: Link) -> None:
        self._epoll.modify(link.fd, select.EPOLLIN | (select.EPOLLOUT if link.backlog else 0))

    # --- in

    def _receive(self, link: Link) -> None:
        for frame in link.receive():
            if not link.requests or int.from_bytes(frame[:4], "big") != link.requests[0].correlation_id:
                raise ValueError("an answer that nobody asked for")
            answers = read_produced(memoryview(frame)[4:])
            for batch in link.requests.popleft().batches:
                self._answered(batch, answers.get(batch.lane.at))

    def _answered(self, batch: Batch, answer: Produced | None) -> None:
        if answer is not None and not answer.error:
            lane = batch.lane
            lane.in_flight -= 1
            lane.attempts = 0
            batch.base_offset, batch.append_time = answer.base_offset, answer.log_append_time
            self._settle(batch, None)
            if lane.failed and not lane.in_flight:
                self._recover(lane)
            return
        code = Error.unknown_server_error if answer is None else answer.error
        self._failed(batch, partition_error(code, *batch.lane.at, answer.message if answer else None))

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        lane = batch.lane
        lane.in_flight -= 1
        lane.last_error = error
        if not batch.done:
            verdict = judge(
                error,
                idempotent=self._idempotent,
                behind_a_failure=bool(lane.failed),
                retries_left=batch.attempts < self._retries,
            )
            if verdict is Verdict.ACKNOWLEDGED:
                self._settle(batch, None)
            elif verdict is Verdict.FAIL:
                self._settle(batch, error)
            else:
                batch.attempts += 1
                lane.failed.append(batch)
                if verdict is Verdict.RENEW:
                    lane.renew = True
                    log.warning("%s; going on under a new producer id", error)
        if error.code in OUT_OF_DATE:
            self._unlink(lane)
        if not lane.in_flight:
            self._recover(lane)

    def _recover(self, lane: Lane) -> None:
        """None of a lane's batches is in flight any more: queue what failed again, after a wait."""
        if lane.failed:
            lane.put_back_failed()
            self._retry_later(lane)
        else:
            self._make_due(lane)

    def _retry_later(self, lane: Lane) -> None:
        lane.retry_at = self._clock() + self._backoff.delay(lane.attempts, self._rng)
        lane.attempts += 1
        self._retrying[lane] = None

    def _lose(self, link: Link, error: Exception) -> None:
        why = str(error) or type(error).__name__
        lost: KafkaError = ConnectionLost(Error.network_exception, f"the connection to broker {link.address}: {why}")
        if isinstance(error, TimeoutError):
            lost = RequestTimedOut(Error.request_timed_out, f"broker {link.address} did not answer in time")
        log.info("%s", lost)
        requests = list(link.requests)
        self._drop(link)
        for request in requests:
            for batch in request.batches:
                self._failed(batch, lost)
        for lane in self.lanes.values():
            if lane.link is link:
                self._unlink(lane)
                lane.last_error = lost
                self._make_due(lane)

    def _drop(self, link: Link) -> None:
        if self._links.get(link.node) is link:
            del self._links[link.node]
        if self._by_fd.pop(link.fd, None) is not None:
            self._epoll.unregister(link.fd)
        link.requests.clear()
        link.due.clear()
        link.close()

    # --- ends

    def _settle(self, batch: Batch, error: KafkaError | None) -> None:
        if batch.done:
            return
        batch.error = error
        batch.forget_records()
        batch.data = None
        batch.done = True
        self._unfinished -= 1
        self.memory_used -= batch.size
        if batch.calls:
            self._decided += batch.calls
            batch.calls = None
        if self._waiting:
            self._changed.notify_all()

    def _call_back(self) -> None:
        """Call what was to be called on decisions, without the lock: it may send more."""
        while self._decided:
            with self.lock:
                calls, self._decided = self._decided, []
            for call in calls:
                try:
                    call()
                except Exception:
                    log.exception("a callback of a future failed")

    def _check_open(self) -> None:
        if self._closing:
            raise _closed()


def _closed() -> ProducerClosed:
    return ProducerClosed(Error.network_exception, "the producer was closed")


def _timed_out(lane: Lane) -> DeliveryTimedOut:
    why = f"; the last failure was: {lane.last_error.message}" if lane.last_error else ""
    return DeliveryTimedOut(
        Error.request_timed_out,
        f"partition {lane.at[1]} of {lane.at[0]!r} did not acknowledge within delivery.timeout.ms{why}",
    )
