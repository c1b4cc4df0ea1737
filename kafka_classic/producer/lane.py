"""The way to one partition: what is queued for it, and the numbers by which its leader knows repeats.

A lane is *at rest* while none of its batches is in flight. Only then does it change its leader, queue again what failed
or take another epoch: so its batches are never in two places, and never overtake each other.

An idempotent lane's batches are numbered when they are first packed, and keep their number when they are sent again. A
batch that is given up leaves a gap behind it if its leader never got it, and a leader takes nothing behind a gap. Then
the lane goes on under the next epoch of its producer id, from number 0; whatever of the old epoch still lies in some
socket is refused by the leader, as in Kafka (KIP-360).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.producer_id import ProducerId
from kafka_classic.producer.batch import Batch
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from kafka_classic.producer.link import Link

_LAST_EPOCH = 2**15 - 1
_SEQUENCE_MASK = 2**31 - 1


class Lane:
    """One partition of one topic. Guarded by the sender's lock."""

    def __init__(self, at: TopicPartition, idempotent: bool) -> None:
        self.at = at
        self.idempotent = idempotent
        self.link: Link | None = None  # to its leader, once found
        self.open: Batch | None = None  # gathers
        self.queue: deque[Batch] = deque()
        self.in_flight = 0
        self.failed: list[Batch] = []  # of those in flight, to be sent again once the lane is at rest
        self.due = False  # stands in its link's row of lanes with something to send
        self.asked = False  # somebody looks for its leader
        self.retry_at: float | None = None
        self.attempts = 0
        self.last_error: KafkaError | None = None
        self.producer: ProducerId | None = None
        self.next_sequence = 0
        # A leader that knows nothing of a producer takes any number as its first: until one batch of an epoch is
        # acknowledged, a second one in flight could get in before the first.
        self.proven = not idempotent
        # A batch that is sent again may be written already, and a leader remembers no more than five. So it goes alone:
        # those behind it could be written before it fails once more, and it would look like one that never came.
        self.alone = False
        self.gap = False  # a numbered batch was given up, and nobody knows whether its leader has it
        self.broken = False  # its leader says so
        self.spent = False  # the producer id has no epoch left: it needs another

    def may_send(self) -> bool:
        """Whether the first batch of its queue may go out now, if its leader is known."""
        if self.failed or self.retry_at is not None:
            return False
        return not self.in_flight or (self.proven and not self.alone and self.queue[0].data is None)

    def number(self, batch: Batch, count: int) -> int:
        """Give a batch the next number under the present epoch."""
        batch.producer = self.producer
        sequence = self.next_sequence
        self.next_sequence = (sequence + count) & _SEQUENCE_MASK
        return sequence

    def acknowledged(self) -> None:
        """A leader has a batch, and so all before it."""
        self.proven = True
        self.gap = False
        self.attempts = 0
        self.last_error = None

    def come_to_rest(self) -> bool:
        """Queue again, in their order, those that failed; True if there are any. Close a gap by a new epoch."""
        again = bool(self.failed)
        self.queue.extendleft(reversed(self.failed))
        self.failed = []
        # Numbered batches before the gap is closed: they may be written already. Their answers will tell.
        if self.broken or (self.gap and not (self.queue and self.queue[0].producer)):
            self._next_epoch()
        return again

    def _next_epoch(self) -> None:
        self.gap = self.broken = False
        if self.producer is not None:
            self.spent = self.producer.epoch >= _LAST_EPOCH
            self.producer = None if self.spent else ProducerId(self.producer.id, self.producer.epoch + 1)
        self.next_sequence = 0
        self.proven = False
        for batch in self.queue:
            batch.producer = None
