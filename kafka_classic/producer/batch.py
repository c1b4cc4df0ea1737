"""Records on their way to one partition, and the lane they go in.

gathering --full, lingered, flushed--> queued --sent--> in flight --acknowledged--> done
                                         ^                 |\\--given up, timed out--> done (error)
                                         \\----may pass----/
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.producer_id import ProducerId
from kafka_classic.records.encode import NewRecord
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.producer.link import Link


class Waiter(Protocol):
    """What a batch needs of the sender: to wait for a decision, and to be told of one."""

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> bool: ...

    def when_done(self, batch: Batch, call: Callable[[], None]) -> None: ...


class Batch:
    """Some records of one lane. `size` counts before compression; `data` is there once it was encoded."""

    __slots__ = (
        "_times",
        "_waiter",
        "append_time",
        "attempts",
        "base_offset",
        "calls",
        "count",
        "created",
        "data",
        "deadline",
        "done",
        "error",
        "lane",
        "producer",
        "records",
        "sent",
        "sequence",
        "size",
    )

    def __init__(
        self, waiter: Waiter, lane: Lane, records: list[NewRecord], size: int, created: float, deadline: float
    ) -> None:
        self._waiter = waiter
        self.lane = lane
        self.records = records
        self.size = size
        self.created = created
        self.deadline = deadline
        self.count = 0
        self.data: bytes | bytearray | None = None
        self.producer: ProducerId | None = None
        self.sequence = -1
        self.attempts = 0
        self.sent = False
        self.done = False
        self.error: KafkaError | None = None
        self.base_offset = -1
        self.append_time = -1
        self.calls: list[Callable[[], None]] | None = None
        self._times: int | list[int] = 0

    def encoded(self, data: bytes) -> None:
        """Keep the encoded form and let go of the records: a future that is kept must not keep its values."""
        self.data = data
        self.forget_records()

    def forget_records(self) -> None:
        records, self.records = self.records, []
        if records:
            self.count = len(records)
            first = records[0][3]
            same = self.count == 1 or all(record[3] == first for record in records)
            self._times = first if same else [record[3] for record in records]

    def timestamp(self, index: int) -> int:
        return self._times if isinstance(self._times, int) else self._times[index]

    def wait(self, deadline: float) -> bool:
        return self._waiter.wait_until(lambda: self.done, deadline)

    def when_done(self, call: Callable[[], None]) -> None:
        self._waiter.when_done(self, call)


class Lane:
    """One partition: what is queued for it, and where it stands. Guarded by the sender's lock."""

    __slots__ = (
        "asked",
        "at",
        "attempts",
        "due",
        "failed",
        "in_flight",
        "last_error",
        "link",
        "next_sequence",
        "open",
        "producer",
        "queue",
        "renew",
        "renewals",
        "retry_at",
    )

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.link: Link | None = None  # to its leader, once found
        self.open: Batch | None = None
        self.queue: deque[Batch] = deque()
        self.in_flight = 0
        self.failed: list[Batch] = []  # of those in flight, to be sent again once none is
        self.due = False  # stands in its link's row of lanes with something to send
        self.asked = False  # somebody looks for its leader
        self.retry_at: float | None = None
        self.attempts = 0
        self.last_error: KafkaError | None = None
        self.producer: ProducerId | None = None
        self.next_sequence = 0
        self.renew = False  # the producer id, before anything is sent again
        self.renewals = 0

    def put_back_failed(self) -> None:
        """Queue again, in their order, what failed; under a new producer id if the old one's sequence is broken."""
        self.queue.extendleft(reversed(self.failed))
        self.failed = []
        if self.renew:
            self.renew = False
            self.renewals += 1
            self.producer = None
            self.next_sequence = 0
            for batch in self.queue:
                batch.producer = None
