"""Which records of a batch outlive a compaction, and what the batch looks like without the others.

- A record stays if no later one has its key. One without a key goes, as in Kafka.
- A tombstone, a record without a value, stays until its *delete horizon*: the pass that first sees it writes into the
  batch when that is, `delete.retention.ms` from now, as Kafka does since KIP-534: attribute bit 6 is set, and the base
  timestamp is the horizon, from which the records' deltas count. To a reader nothing changes. Counting from the age of
  the file instead, as Kafka did before, would begin anew with each pass.
- A batch keeps its base and last offset, its producer with epoch and sequence, its leader epoch and its codec. One of
  which everything stays is copied byte for byte; in others the records that stay are copied so.
- The last batch of an idempotent producer stays, if empty, so that its sequence numbers survive.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import le

from kafka_classic.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    seal,
)
from kafka_classic.records.codecs import Codec, decompress
from kafka_classic.records.codecs import compress as pack
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import encode_batch
from kafka_classic.records.places import Places, read_places

from .keys import KeyTable
from .scan import Header

INFLATED = 256 << 20
NO_TIMESTAMP = -1
AS_IT_IS = -1


def places_of(data: bytes, at: int, header: Header) -> tuple[bytes, Places]:
    """The records of the batch at `at`, as bytes and with their places; CorruptBatch or InvalidRecord if unsound."""
    start, end = at + HEADER_SIZE, at + header[1] + LOG_OVERHEAD
    if codec := header[5] & CODEC_MASK:
        data = decompress(codec, memoryview(data)[start:end], INFLATED)
        start, end = 0, len(data)
    return data, read_places(data, start, end, header[12], header[6])


class Keeping:
    """What one pass keeps: the latest of each key in the table, which knows all records below `upto`."""

    __slots__ = ("_horizon", "_last", "_now", "_table", "kept", "seen", "upto")

    def __init__(
        self, table: KeyTable, upto: int, now_ms: int, delete_retention_ms: int, last_batches: Mapping[int, int]
    ) -> None:
        self._table = table
        self._now = now_ms
        self._horizon = min(now_ms + delete_retention_ms, 2**63 - 1)
        self._last = last_batches  # of each producer, where its last batch begins
        self.upto = upto
        self.seen = self.kept = 0  # records

    def of(self, data: bytes, at: int, header: Header) -> bytes | bytearray | None:
        """What is left of the batch: nothing is b"", and None means that it stays as it is."""
        count = header[12]
        self.seen += count
        if header[0] + header[6] >= self.upto or header[5] & (CONTROL | TRANSACTIONAL):
            self.kept += count
            return None
        last = self._last.get(header[9], AS_IT_IS) == header[0] and header[9] >= 0
        if not count:
            return None if last else b""
        records, places = places_of(data, at, header)
        keys = places.keys
        offsets = [header[0] + delta for delta in places.deltas]
        stays = list(map(le, self._table.latest(keys, offsets), offsets))
        if None in keys:
            stays = [stay and key is not None for stay, key in zip(stays, keys, strict=True)]
        marked = header[5] & DELETE_HORIZON
        fresh_tombstones = False
        for number in places.tombstones:
            if stays[number] and marked:
                stays[number] = self._now < header[7]
            elif stays[number]:
                fresh_tombstones = True
        left = stays.count(True)
        self.kept += left
        if fresh_tombstones:
            return self._with_horizon(data, at, header, stays)
        if left == count:
            return None
        if not left:
            return _empty(header) if last else b""
        return _without(records, places, stays, header, left)

    def _with_horizon(self, data: bytes, at: int, header: Header, stays: Sequence[bool]) -> bytearray:
        """The records that stay, written anew because all their timestamps count from the horizon now."""
        records = list(compress(decode_batch(data, at, check_crc=False, max_size=INFLATED), stays))
        batch = bytearray(
            encode_batch(
                [(record.key, record.value, record.headers, record.timestamp) for record in records],
                Codec(header[5] & CODEC_MASK),
                base_offset=header[0],
                leader_epoch=header[2],
                producer_id=header[9],
                producer_epoch=header[10],
                base_sequence=header[11],
                log_append_time=header[8] if header[5] & LOG_APPEND_TIME else None,
                deltas=[record.offset - header[0] for record in records],
                base_timestamp=self._horizon,
            )
        )
        seal(batch, attributes=header[5] | DELETE_HORIZON, last_offset_delta=header[6])
        return batch


def _without(records: bytes, places: Places, stays: Sequence[bool], header: Header, left: int) -> bytearray:
    """The batch with those records that stay, byte for byte."""
    starts, end = places.starts, places.end
    pieces = [records[start:stop] for start, stop, stay in zip(starts, [*starts[1:], end], stays, strict=True) if stay]
    codec = header[5] & CODEC_MASK
    body = b"".join(pieces)
    if codec:
        body = pack(codec, body)
    largest = header[8] if header[5] & LOG_APPEND_TIME else header[7] + max(compress(places.times, stays))
    return _sealed(header, body, left, header[5], header[7], largest)


def _empty(header: Header) -> bytearray:
    return _sealed(header, b"", 0, header[5] & ~(CODEC_MASK | DELETE_HORIZON), NO_TIMESTAMP, NO_TIMESTAMP)


def filler(base: int, next_offset: int, leader_epoch: int) -> bytearray:
    """A batch of no records that reaches to where the next segment begins: between segments no offset is missing."""
    header: Header = (base, 0, leader_epoch, MAGIC, 0, 0, next_offset - 1 - base, 0, 0, -1, -1, -1, 0)
    return _empty(header)


def _sealed(header: Header, body: bytes, count: int, attributes: int, first: int, largest: int) -> bytearray:
    batch = bytearray(HEADER_SIZE + len(body))
    batch[16] = MAGIC
    batch[HEADER_SIZE:] = body
    length = len(batch) - LOG_OVERHEAD
    batch[8:12] = length.to_bytes(4, "big")
    seal(
        batch,
        base_offset=header[0],
        leader_epoch=header[2],
        attributes=attributes,
        last_offset_delta=header[6],
        base_timestamp=first,
        max_timestamp=largest,
        producer_id=header[9],
        producer_epoch=header[10],
        base_sequence=header[11],
        record_count=count,
    )
    return batch
