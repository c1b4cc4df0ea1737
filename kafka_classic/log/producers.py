"""What a log knows of idempotent producers: their epochs and last sequences, so that a retry is not written twice.

The rules are Kafka's: of a producer that nothing is known of, any first sequence is taken; then each batch must go on
where the last one ended (after 2^31 - 1 comes 0); one that equals one of the last five is a duplicate; a new epoch
begins with sequence 0; an old epoch is fenced.

A snapshot file has Kafka's format: version 1, a CRC-32C, and the entries. Kafka writes one entry for a producer, its
last batch. We write its last five, oldest first: Kafka's reader lets a later entry of a producer replace the earlier.
"""

import struct
from collections import deque
from typing import NamedTuple

from crc32c import crc32c

from kafka_classic.records.batch import CONTROL, InvalidRecord

from .errors import DuplicateSequence, InvalidProducerEpoch, OutOfOrderSequence
from .scan import Header

KEPT = 5
NO_SEQUENCE = -1
SEQUENCE_MASK = 0x7FFFFFFF
VERSION = 1

_HEAD = struct.Struct(">hIi")  # version, crc of what follows it, count of entries
_ENTRY = struct.Struct(">qhiqiqiq")  # id, epoch, last sequence, last offset, delta, timestamp, coordinator, txn start
_CRC_FROM = 6


class WrittenBatch(NamedTuple):
    """A batch that a producer wrote: its last sequence, its first offset, its count of records."""

    last_sequence: int
    base_offset: int
    records: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.records + 1) & SEQUENCE_MASK


_batch = WrittenBatch._make


class Producer:
    """One producer's epoch and last batches."""

    __slots__ = ("batches", "due", "epoch", "silent_since", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.due = NO_SEQUENCE  # the sequence to come next, once there was one
        self.timestamp = -1
        self.silent_since: int | None = None  # by the broker's clock, once an expiry found it silent
        self.batches: deque[WrittenBatch] = deque(maxlen=KEPT)


class ProducerState:
    """All producers of one log; `classic` logs count records, since their offsets count bytes."""

    __slots__ = ("classic", "producers")

    def __init__(self, classic: bool = False) -> None:
        self.classic = classic
        self.producers: dict[int, Producer] = {}

    def accept(self, header: Header, base_offset: int) -> None:
        """Check and take note in one: the batch that is due needs no look at the others."""
        producer = self.producers.get(header[9])
        if producer is None or producer.due != header[11] or producer.epoch != header[10] or header[5] & CONTROL:
            self.check(header)
            self.add(header, base_offset)
            return
        records = header[12] if self.classic else header[6] + 1
        last = (header[11] + records - 1) & SEQUENCE_MASK
        producer.due = (last + 1) & SEQUENCE_MASK
        producer.silent_since = None
        timestamp = producer.timestamp = header[8]
        producer.batches.append(_batch((last, base_offset, records, timestamp)))

    def check(self, header: Header) -> None:
        """Refuse a batch of a client that must not be written; nothing is changed."""
        epoch, first = header[10], header[11]
        if epoch < 0 or (first < 0 and not header[5] & CONTROL):
            raise InvalidRecord("an idempotent batch needs an epoch and a sequence number")
        producer = self.producers.get(header[9])
        if producer is None:
            return
        if header[5] & CONTROL:
            last = first
        else:
            last = (first + self._count(header) - 1) & SEQUENCE_MASK
            if epoch == producer.epoch:
                for batch in producer.batches:
                    if batch.last_sequence == last and batch.first_sequence == first:
                        raise DuplicateSequence(batch.base_offset, batch.timestamp)
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header[9]} writes with epoch {epoch}, but epoch {producer.epoch} has written already: "
                "another instance took over; stop this one"
            )
        if header[5] & CONTROL or not producer.batches:
            return
        expected = 0 if epoch != producer.epoch else producer.due
        if first != expected:
            raise OutOfOrderSequence(
                f"producer {header[9]} (epoch {epoch}) sent sequence {first} where {expected} is due"
            )

    def add(self, header: Header, base_offset: int) -> None:
        """Take note of a batch that was written at this offset."""
        producer = self.producers.get(header[9])
        if producer is None:
            producer = self.producers[header[9]] = Producer(header[10])
        elif header[10] > producer.epoch:
            producer.epoch = header[10]
            producer.batches.clear()
            producer.due = NO_SEQUENCE
        producer.silent_since = None
        producer.timestamp = header[8]
        if not header[5] & CONTROL and header[11] >= 0:
            count = self._count(header)
            last = (header[11] + count - 1) & SEQUENCE_MASK
            producer.due = (last + 1) & SEQUENCE_MASK
            producer.batches.append(WrittenBatch(last, base_offset, count, header[8]))

    def _count(self, header: Header) -> int:
        return header[12] if self.classic else header[6] + 1

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget the producers that have been silent for longer than `after_ms`; called now and then.

        Silent by the broker's clock, where Kafka goes by the records' timestamps: a producer that sends old records is
        not forgotten while it sends them, and none is at a restart, when retries are most likely.
        """
        for producer_id, producer in list(self.producers.items()):
            if producer.silent_since is None:
                producer.silent_since = now_ms
            elif now_ms - producer.silent_since > after_ms:
                del self.producers[producer_id]

    def dump(self) -> bytes:
        """The bytes of a snapshot file."""
        entries = []
        for producer_id, producer in self.producers.items():
            batches = producer.batches or [WrittenBatch(NO_SEQUENCE, -1, 1, producer.timestamp)]
            for last, base, count, timestamp in batches:
                end = base + count - 1 if base >= 0 else -1
                entries.append(_ENTRY.pack(producer_id, producer.epoch, last, end, count - 1, timestamp, -1, -1))
        body = struct.pack(">i", len(entries)) + b"".join(entries)
        return struct.pack(">hI", VERSION, crc32c(body)) + body

    @classmethod
    def load(cls, data: bytes, classic: bool = False) -> "ProducerState":
        """Read a snapshot; ValueError if it is damaged."""
        state = cls(classic)
        if len(data) < _HEAD.size:
            raise ValueError("the snapshot is too short")
        version, crc, count = _HEAD.unpack_from(data)
        if version != VERSION or crc != crc32c(data[_CRC_FROM:]) or len(data) != _HEAD.size + count * _ENTRY.size:
            raise ValueError("the snapshot is damaged or of an unknown version")
        for number, epoch, last, offset, delta, timestamp, _, _ in _ENTRY.iter_unpack(data[_HEAD.size :]):
            producer = state.producers.get(number)
            if producer is None or producer.epoch != epoch:
                producer = state.producers[number] = Producer(epoch)
            producer.timestamp = timestamp
            if offset >= 0:
                producer.due = (last + 1) & SEQUENCE_MASK
                producer.batches.append(WrittenBatch(last, offset - delta, delta + 1, timestamp))
        return state
