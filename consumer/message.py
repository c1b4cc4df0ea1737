"""A message as an application gets it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

from kafka_classic.records.decode import Shape
from kafka_classic.records.record import Headers, Record


class Message(NamedTuple):
    """A message with where it lies; the timestamp is in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int

    @property
    def next_offset(self) -> int:
        """The offset to resume from when this message is done: everything before it was received (P7)."""
        return self.offset + 1


def messages_of(topic: str, partition: int) -> Shape[Message]:
    """Return how the records of a partition become messages: in C where they lie in columns."""
    new = tuple.__new__

    def of_columns(
        offsets: Iterable[int],
        timestamps: Iterable[int],
        keys: Iterable[bytes | None],
        values: Iterable[bytes | None],
    ) -> Iterable[Message]:
        # The offsets come first of those that end: zip must not take one too many from the others.
        rows = zip(repeat(topic), repeat(partition), offsets, keys, values, repeat(()), timestamps)
        return map(new, repeat(Message), rows)

    def of_records(records: list[Record]) -> Iterable[Message]:
        return [
            new(Message, (topic, partition, offset, key, value, headers, timestamp))
            for offset, timestamp, key, value, headers in records
        ]

    return Shape(of_columns, of_records)
