"""A chunk: what one pull brought of one partition, still encoded (P7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from kafka_classic.client.frames import Frame
from kafka_classic.client.leaders import partition_error
from kafka_classic.records.batch import BatchHeader, CorruptBatch, InvalidRecord, iter_batches
from kafka_classic.records.decode import AS_RECORDS, Record, Shape, decode_batch, decode_rows
from kafka_classic.wire.errors import Error, KafkaError

T = TypeVar("T")


class Chunk(NamedTuple):
    """Whole batches of one partition, each with its place in `data`; `next_offset` is what is read after them.

    A chunk without batches moves the position to `next_offset`. Where the bytes after the last whole batch are no
    batch at all, `damage` says why; what comes after them cannot be found from here.
    """

    topic: str
    partition: int
    offset: int
    next_offset: int
    high_watermark: int
    data: Frame
    batches: tuple[tuple[int, BatchHeader], ...]
    damage: ValueError | None = None
    source: Any = None  # the fetcher's own mark

    def records(self, check_crc: bool = True) -> Iterator[Record]:
        """Decode the records from `offset` on: a batch may begin before it. Every checksum is verified (P22)."""
        expected = self.offset
        for pos, header in self.batches:
            yield from self.decode(pos, header, expected, AS_RECORDS, check_crc)
            expected = max(expected, header.next_offset)
        if self.damage is not None:
            raise self.damaged(expected, self.damage)

    def decode(self, pos: int, header: BatchHeader, expected: int, shape: Shape[T], check_crc: bool = True) -> list[T]:
        """Decode one batch: its records from `expected` on. A damaged one is an error with partition and offset."""
        if header.is_control:
            return []  # nothing for a consumer
        try:
            if header.base_offset >= expected:
                return decode_rows(self.data, pos, shape, check_crc=check_crc)
            records = decode_batch(self.data, pos, check_crc=check_crc)
        except (CorruptBatch, InvalidRecord) as error:
            raise self.damaged(expected, error) from error
        return list(shape.of_records([record for record in records if record.offset >= expected]))

    def damaged(self, offset: int, why: ValueError) -> KafkaError:
        """Return the error for a batch that is not what its maker wrote."""
        return partition_error(
            Error.corrupt_message,
            self.topic,
            self.partition,
            f"the records from offset {offset} on are damaged ({why}); "
            "`kafka-classic log verify` on the broker's segment files shows where",
        )


def read_chunk(
    topic: str, partition: int, offset: int, high_watermark: int, data: Frame, source: object = None
) -> Chunk:
    """Find the whole batches in what a leader answered, without decoding them; the part of one at the end is left."""
    batches: list[tuple[int, BatchHeader]] = []
    next_offset = offset
    damage = None
    try:
        for pos, header in iter_batches(data):
            batches.append((pos, header))
            next_offset = max(next_offset, header.next_offset)
    except CorruptBatch as error:
        damage = error
    return Chunk(topic, partition, offset, next_offset, high_watermark, data, tuple(batches), damage, source)
