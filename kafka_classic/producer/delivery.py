"""Queued batches out, answers in. Nothing here waits, and the sender's lock guards all of it.

    lane.queue --due--> link's row --room--> request in flight --answer--> decided, or back into the lane by Recovery

A lane with something to send stands in the row of the link to its leader. A request takes the first batch of each lane
in the row, as many as fit; so lanes take turns, and the requests of a link are bounded by max.in.flight.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from kafka_classic.client.cluster import OUT_OF_DATE
from kafka_classic.client.errors import ConnectionLost, RequestTimedOut
from kafka_classic.client.leaders import partition_error
from kafka_classic.client.produce_packed import Produced, pack_produce, read_produced
from kafka_classic.client.producer_id import ProducerId
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.decisions import Decisions
from kafka_classic.producer.errors import closed, timed_out
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.link import BROKEN, Link, Request
from kafka_classic.producer.packing import Packer
from kafka_classic.producer.poller import Poller
from kafka_classic.producer.recovery import Recovery
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.wire.errors import Error, KafkaError

log = logging.getLogger(__name__)

_LONGEST_SCAN_S = 0.1


class Delivery:
    """The lanes and the links; `find` is asked for the leader of a lane and answers by found() or not_found()."""

    def __init__(
        self,
        settings: ProducerSettings,
        poller: Poller,
        decisions: Decisions,
        find: Callable[[Lane], None],
        rng: random.Random,
        clock: Callable[[], float],
        packer: Packer | None = None,
    ) -> None:
        self._poller = poller
        self._decisions = decisions
        self._find = find
        self._clock = clock
        self._acks = settings.required_acks
        self._idempotent = settings.enable_idempotence
        self._max_request = settings.max_request_size
        self._most_in_flight = settings.max_in_flight_requests_per_connection
        self._request_timeout_ms = settings.request_timeout_ms
        self._request_timeout = settings.request_timeout_ms / 1000
        self._scan_every = min(_LONGEST_SCAN_S, max(0.005, settings.delivery_timeout_ms / 10_000))
        self._next_scan = 0.0
        self._packer = packer or Packer(settings)
        self._recovery = Recovery(settings, decisions, rng, clock)
        self._closing = False
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.links: dict[int, Link] = {}

    # --- the row

    def lane(self, topic: str, partition: int) -> Lane:
        return self.lanes.setdefault((topic, partition), Lane((topic, partition), self._idempotent))

    def enqueue(self, batch: Batch) -> None:
        lane = batch.lane
        lane.queue.append(batch)
        if not lane.due:
            self._make_due(lane)

    def would_send(self, lane: Lane) -> bool:
        """Whether a batch that is queued now would go out, or at least have its lane's leader looked for."""
        link = lane.link
        return not lane.queue and (link is None or (not link.backlog and len(link.requests) < self._most_in_flight))

    def idle(self, lane: Lane) -> bool:
        """Whether a batch would go out now and find nothing in flight to its broker."""
        link = lane.link
        if link is None or lane.queue or link.backlog or link.lost:
            return False
        if link.requests:
            try:
                self._receive(link)
            except BROKEN as error:
                self._lose(link, error)
                return False
        return not link.requests

    def _make_due(self, lane: Lane) -> None:
        """Put a lane that may send into its link's row, or have its leader looked for."""
        if lane.due or not lane.queue or self._closing or not lane.may_send():
            return
        if lane.link is None or (lane.idempotent and lane.producer is None):
            if not lane.asked and not lane.in_flight:
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

    # --- where leaders are

    def add_link(self, link: Link) -> Link:
        """Take a new link; returns the one that stands, if somebody was faster."""
        standing = self.links.get(link.node)
        if standing is not None or self._closing:
            link.close()
            return standing or link
        self.links[link.node] = link
        self._poller.add(link)
        return link

    def found(self, lane: Lane, link: Link, producer: ProducerId | None) -> None:
        """A lane's leader is known, and the producer id under which to send to it."""
        lane.asked = False
        if lane.producer is None:
            lane.producer = producer
        lane.link = None if link.lost else link
        self._make_due(lane)
        self.pump(lane.link)

    def not_found(self, lane: Lane, error: KafkaError) -> None:
        lane.asked = False
        lane.last_error = error
        self._recovery.later(lane)

    def moved(self, lane: Lane, leader: int) -> None:
        """The metadata name another leader; what is in flight is left to be answered by the old one."""
        if lane.link is not None and lane.link.node != leader and not lane.in_flight:
            self._unlink(lane)
            self._make_due(lane)

    # --- out

    def pump(self, link: Link | None) -> None:
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
        except BROKEN as error:
            self._lose(link, error)

    def _take(self, link: Link) -> list[Batch]:
        """Take the first batch of each lane that is due, as many as fit into one request."""
        batches: list[Batch] = []
        more: list[Lane] = []
        size = 0
        row = link.due
        while row:
            lane = row[0]
            unnumbered = lane.idempotent and lane.producer is None  # its last epoch ended while it stood here
            if unnumbered or not lane.queue or not lane.may_send():
                lane.due = False
                row.popleft()
                self._make_due(lane)
                continue
            batch = lane.queue[0]
            size += batch.size
            if batches and size > self._max_request:
                break
            row.popleft()
            lane.queue.popleft()
            lane.alone = batch.data is not None
            try:
                self._packer.pack(lane, batch)
            except Exception as error:
                log.exception("a batch cannot be packed")
                self._recovery.give_up(batch, KafkaError(Error.invalid_record, f"it cannot be packed: {error}"))
            else:
                lane.in_flight += 1
                batches.append(batch)
            if lane.queue:
                more.append(lane)
            else:
                lane.due = False
        row.extend(more)
        return batches

    def _send(self, link: Link, batches: list[Batch]) -> None:
        body = pack_produce(
            {batch.lane.at: batch.data for batch in batches},  # type: ignore[misc]  # packed, all of them
            self._acks,
            self._request_timeout_ms,
        )
        # Noted before it is written: what is lost half-way must be sent again.
        if self._acks:
            deadline = self._clock() + self._request_timeout
            link.requests.append(Request(link.next_correlation_id, batches, deadline))
        try:
            link.send(body)
        except OSError:
            if not self._acks:
                for batch in batches:
                    self._failed(batch, ConnectionLost(Error.network_exception, f"lost broker {link.address}"))
            raise
        if link.backlog:
            link.write_by = self._clock() + self._request_timeout
            self._poller.watch_writing(link)
        for batch in batches:
            batch.sent = True
            if not self._acks:
                batch.lane.in_flight -= 1
                self._decisions.settle(batch, None)

    # --- in

    def serve(self, link: Link, writable: bool) -> None:
        """Something has come on a link, or there is room to write."""
        if link.lost:
            return
        try:
            if writable:
                link.write_on()
                self._poller.watch_writing(link)
            self._receive(link)
        except BROKEN as error:
            self._lose(link, error)
        else:
            self.pump(link)

    def _receive(self, link: Link) -> None:
        for frame in link.receive():
            if not link.requests or int.from_bytes(frame[:4], "big") != link.requests[0].correlation_id:
                raise ValueError("an answer that nobody asked for")
            answers = read_produced(memoryview(frame)[4:])
            for batch in link.requests.popleft().batches:
                self._answered(batch, answers.get(batch.lane.at))

    def _answered(self, batch: Batch, answer: Produced | None) -> None:
        lane = batch.lane
        if answer is None or answer.error:
            code = Error.unknown_server_error if answer is None else answer.error
            self._failed(batch, partition_error(code, *lane.at, answer.message if answer else None))
            return
        lane.in_flight -= 1
        lane.acknowledged()
        batch.base_offset, batch.append_time = answer.base_offset, answer.log_append_time
        self._decisions.settle(batch, None)
        if lane.failed and not lane.in_flight:
            self._rest(lane)
        elif lane.queue and not lane.due:
            self._make_due(lane)

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        lane = batch.lane
        lane.in_flight -= 1
        self._recovery.failed(batch, error)
        if error.code in OUT_OF_DATE:
            self._unlink(lane)
        if not lane.in_flight:
            self._rest(lane)

    def _rest(self, lane: Lane) -> None:
        if lane.come_to_rest():
            self._recovery.later(lane)
        else:
            self._make_due(lane)

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
                if lane.idempotent and not self._acks:
                    # What was written last may not have arrived, and nobody says so: no number may follow on it.
                    lane.broken = True
                    lane.come_to_rest()
                self._make_due(lane)

    def _drop(self, link: Link) -> None:
        if self.links.get(link.node) is link:
            del self.links[link.node]
            self._poller.drop(link)
        link.requests.clear()
        link.due.clear()
        link.close()

    # --- time

    def keep_time(self, now: float) -> float:
        """Do what time asks for, and return when there will be more of it."""
        ready, soonest = self._recovery.ready(now)
        for lane in ready:
            self._make_due(lane)
        for link in list(self.links.values()):
            if link.due:
                self.pump(link)
        if now >= self._next_scan:
            self._next_scan = now + self._scan_every
            self._expire(now)
        return min(soonest, self._next_scan)

    def _expire(self, now: float) -> None:
        for lane in self.lanes.values():
            if lane.queue:
                self._recovery.expire(lane, now)
        for link in list(self.links.values()):
            for request in link.requests:
                for batch in request.batches:
                    if batch.deadline <= now and not batch.done:
                        self._recovery.give_up(batch, timed_out(batch.lane.at, batch.lane.last_error))
            unanswered = link.requests and link.requests[0].deadline <= now
            # With acks=0 nothing is waited for, but that the broker reads.
            if unanswered or (link.backlog and link.write_by <= now):
                self._lose(link, TimeoutError())

    def undecided(self) -> list[Batch]:
        """All that was queued or sent, and neither acknowledged nor given up."""
        flying = [batch for link in self.links.values() for request in link.requests for batch in request.batches]
        return flying + [batch for lane in self.lanes.values() for batch in (*lane.failed, *lane.queue)]

    def unwritten(self) -> bool:
        return any(link.backlog for link in self.links.values())

    def close(self) -> None:
        """Give up what is not decided, and close the links."""
        self._closing = True
        for batch in self.undecided():
            self._decisions.settle(batch, closed())
        for link in list(self.links.values()):
            self._drop(link)
        for lane in self.lanes.values():
            lane.queue.clear()
