"""The head of a record batch (magic 2): read it, check it, seal it anew.

A batch is the unit that travels and that lies on disk, byte for byte the same:

    position  0  base offset        int64
              8  batch length       int32   bytes after this field
             12  leader epoch       int32
             16  magic              int8    always 2
             17  crc                uint32  CRC-32C of everything from position 21 on
             21  attributes         int16   0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
             23  last offset delta  int32
             27  base timestamp     int64
             35  max timestamp      int64
             43  producer id        int64
             51  producer epoch     int16
             53  base sequence      int32
             57  record count       int32
             61  the records, compressed as a whole if a codec is set

The base offset and the leader epoch lie outside the CRC, so that a broker can set both without touching the rest.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
CRC_FROM = 21
MAGIC_AT = 16
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base timestamp is when compaction may remove the tombstones of this batch

_SMALLEST_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")


class CorruptBatch(ValueError):
    """The bytes are no sound batch: crc, length or magic is wrong (Kafka's CORRUPT_MESSAGE)."""


class UnsupportedMagic(CorruptBatch):
    """A message of magic 0 or 1, from before Kafka 0.11 (Kafka's UNSUPPORTED_FOR_MESSAGE_FORMAT)."""


class InvalidRecord(ValueError):
    """The batch is sound but what it says of itself is not true: counts, lengths (Kafka's INVALID_RECORD)."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in the order in which they lie there."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The bytes of the whole batch, from its base offset to its last record."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """What a consumer asks for after this batch; in a classic log the position of the next batch (P6)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`; its length and magic are sound after this, its crc is not yet looked at."""
    left = len(buf) - pos
    if left > MAGIC_AT and buf[pos + MAGIC_AT] != MAGIC:
        raise _wrong_magic(buf[pos + MAGIC_AT])
    if left < HEADER_SIZE:
        raise CorruptBatch(f"{left} bytes are too few for a batch header of {HEADER_SIZE}")
    header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    if header.batch_length < _SMALLEST_LENGTH:
        raise CorruptBatch(f"batch length {header.batch_length} is below the smallest, {_SMALLEST_LENGTH}")
    return header


def crc_of(buf: Buffer, pos: int, size: int) -> int:
    """The CRC-32C of the batch of `size` bytes at `pos`, as it should stand in its header."""
    view = buf if type(buf) is memoryview else memoryview(buf)
    return crc32c(view[pos + CRC_FROM : pos + size])


def read_whole_header(buf: Buffer, pos: int = 0, end: int | None = None) -> BatchHeader:
    """Read the header at `pos` of a batch that must lie wholly before `end`."""
    header = read_header(buf, pos)
    left = (len(buf) if end is None else end) - pos
    if LOG_OVERHEAD + header.batch_length > left:
        raise CorruptBatch(f"a batch of {header.size} bytes does not fit into the {left} that are there")
    return header


def check_batch(buf: Buffer, pos: int = 0, end: int | None = None) -> BatchHeader:
    """Read the header at `pos` of a batch that must lie wholly before `end`, with the crc it claims (P22)."""
    header = read_whole_header(buf, pos, end)
    crc = crc_of(buf, pos, LOG_OVERHEAD + header.batch_length)
    if crc != header.crc:
        raise CorruptBatch(f"crc {header.crc:#010x} in the batch at offset {header.base_offset}, computed {crc:#010x}")
    return header


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch with its position; a partial one at the end, as a fetch may bring, is ignored."""
    pos, end = 0, len(buf)
    while end - pos > MAGIC_AT:
        size = LOG_OVERHEAD + _LENGTH.unpack_from(buf, pos + 8)[0]
        if size > end - pos:
            return
        header = read_header(buf, pos)
        yield pos, header
        pos += size


def seal(batch: bytearray | memoryview, **changes: int) -> None:
    """Change header fields of the batch at the start of `batch` in place, and give it the crc it then needs."""
    header = read_header(batch)._replace(**changes)
    if header.size > len(batch):
        raise CorruptBatch(f"a batch of {header.size} bytes does not fit into the {len(batch)} that are there")
    HEADER.pack_into(batch, 0, *header)
    _CRC.pack_into(batch, CRC_FROM - 4, crc_of(batch, 0, header.size))


def _wrong_magic(magic: int) -> CorruptBatch:
    if magic < MAGIC:
        return UnsupportedMagic(f"magic {magic}: messages from before Kafka 0.11 are not supported, only magic 2")
    return CorruptBatch(f"magic {magic} is unknown, only magic 2 is served")
