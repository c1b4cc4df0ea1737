"""Records on their way to one partition, which share one fate.

gathering --full, lingered, flushed--> queued --sent--> in flight --acknowledged--> done
                                         ^                 |\\--given up, timed out--> done (error)
                                         \\----may pass----/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafka_classic.client.producer_id import ProducerId
from kafka_classic.records.encode import NewRecord
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.producer.auditing import Counted
    from kafka_classic.producer.lane import Lane


class Waiter(Protocol):
    """What a batch needs of the sender: to wait for a decision, and to be told of one."""

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> bool: ...

    def when_done(self, batch: Batch, call: Callable[[], None]) -> None: ...


class Batch:
    """Some records of one lane. `size` counts before compression; `data` is there once it was packed.

    What a batch is born with stands on the class: with one message a batch, each attribute set is time.
    """

    count = 0
    data: bytes | bytearray | None = None
    producer: ProducerId | None = None  # under which it was given its sequence number
    attempts = 0
    sent = False
    done = False
    error: KafkaError | None = None
    base_offset = -1
    append_time = -1
    calls: list[Callable[[], None]] | None = None
    _times: int | list[int] = 0
    # Of an audited producer: the topic and window of time, and what was counted.
    window: tuple[str, int] | None = None
    counted: Counted | None = None

    def __init__(
        self, waiter: Waiter, lane: Lane, records: list[NewRecord], size: int, created: float, deadline: float
    ) -> None:
        self._waiter = waiter
        self.lane = lane
        self.records = records
        self.size = size
        self.created = created
        self.deadline = deadline

    def packed(self, data: bytes) -> None:
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
