"""The offset deltas 0, 1, 2 … as they stand encoded in a batch, kept because almost every batch counts like this."""

from functools import cache
from typing import Final

from .varint import varint

KEPT: Final = 1 << 16

_encoded: dict[bytes, tuple[bytes, ...]] = {}


def offset_deltas(first: int, stop: int, after: bytes = b"") -> tuple[bytes, ...]:
    """The encodings of `first` .. `stop` - 1, each with the same bytes after it."""
    known = _encoded.get(after, ())
    if len(known) < min(stop, KEPT):
        # Doubling keeps the cost of growing small; a whole new tuple keeps other threads out of harm's way.
        known += tuple(varint(delta) + after for delta in range(len(known), min(2 * stop, KEPT)))
        _encoded[after] = known
    if stop <= KEPT:
        return known[first:stop]
    return known[first:] + tuple(varint(delta) + after for delta in range(max(first, KEPT), stop))


def delta_range(first: int) -> tuple[int, int]:
    """How many bytes the encoding of `first` takes, and the first greater delta that takes more."""
    width = (2 * first | 1).bit_length() + 6
    return width // 7, 1 << (7 * (width // 7) - 1)


@cache
def delta_columns(width: int) -> tuple[bytes, ...]:
    """Byte by byte, the encodings of all kept deltas that take `width` bytes: the first bytes, the second ones …"""
    first = 0 if width == 1 else 1 << (7 * (width - 1) - 1)
    encoded = offset_deltas(first, min(1 << (7 * width - 1), KEPT))
    return tuple(bytes(column) for column in zip(*encoded, strict=True))
