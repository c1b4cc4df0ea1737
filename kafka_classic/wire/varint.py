"""Unsigned varints and tag buffers, the two building blocks of Kafka's flexible versions."""

from typing import Final

from kafka_classic.wire.errors import MalformedRequest

Buffer = bytes | bytearray | memoryview

_SMALL: Final = tuple(bytes((n,)) for n in range(128))


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the number at `pos` and the position after it; raises IndexError at the buffer's end."""
    value = buf[pos]
    pos += 1
    if value < 128:
        return value, pos
    value &= 127
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        if byte < 128:
            return value | byte << shift, pos
        value |= (byte & 127) << shift
        shift += 7
        if shift > 28:
            raise MalformedRequest("a varint is longer than five bytes")


def uvarint(value: int) -> bytes:
    """Return the shortest encoding of a number of at least 0."""
    if value < 128:
        return _SMALL[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if value < 2097152:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buf: Buffer, pos: int, end: int) -> int:
    """Return the position after a tag buffer whose fields mean nothing to us."""
    count = buf[pos]
    if count == 0:
        return pos + 1
    count, pos = read_uvarint(buf, pos)
    if count * 2 > end - pos:
        raise MalformedRequest(f"{count} tagged fields are announced where {end - pos} bytes follow")
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise MalformedRequest("a tagged field runs past the end of the message")
    return pos
