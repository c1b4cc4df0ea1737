"""Snappy as Kafka's clients write it: blocks in the framing of the xerial library, or one raw block.

    82 'SNAPPY' 00   version int32   oldest reader int32   { length int32   raw snappy block } ...

The Java clients write the framing with blocks of 32 KiB, librdkafka one raw block; both are read, the first is written.
"""

import struct
from typing import Final

import snappy

from .batch import Buffer, CorruptBatch, InvalidRecord

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEAD: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")
# A snappy element makes at most 64 bytes of 3: no honest block states more than that of itself.
_MOST_FOR_A_BYTE: Final = 22


def compress_snappy(data: Buffer) -> bytes:
    """Write the xerial framing."""
    view = memoryview(data)
    pieces = [_HEAD]
    for at in range(0, len(view), _BLOCK):
        block: bytes = snappy.compress(view[at : at + _BLOCK])
        pieces += _LENGTH.pack(len(block)), block
    return b"".join(pieces)


def decompress_snappy(data: Buffer, max_size: int) -> bytes:
    """Read the xerial framing, or a raw block where its magic is missing."""
    view = memoryview(data)
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        return _inflate(view, max_size)
    pieces = []
    at, left = len(_HEAD), max_size
    if len(view) < at:
        raise CorruptBatch("the snappy framing is cut off in its head")
    while at < len(view):
        if len(view) - at < _LENGTH.size:
            raise CorruptBatch("the snappy framing is cut off before a block")
        length = _LENGTH.unpack_from(view, at)[0]
        at += _LENGTH.size
        if not 0 <= length <= len(view) - at:
            raise CorruptBatch(f"a snappy block of {length} bytes where {len(view) - at} are left")
        piece = _inflate(view[at : at + length], left)
        at += length
        left -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)


def _inflate(block: memoryview, max_size: int) -> bytes:
    # The block states its size, and the library allocates it before it looks further.
    stated = _stated_size(block)
    if stated > _MOST_FOR_A_BYTE * len(block):
        raise CorruptBatch(f"a snappy block of {len(block)} bytes cannot hold the {stated} it states")
    if stated > max_size:
        raise InvalidRecord(f"the records inflate to more than {max_size} bytes left of the limit")
    try:
        inflated: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"the snappy block does not decompress: {error.__cause__}") from error
    return inflated


def _stated_size(block: memoryview) -> int:
    size = 0
    for shift, byte in zip(range(0, 35, 7), block[:5], strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
    raise CorruptBatch("a snappy block states no size")
