"""Murmur2 as Kafka's Java client hashes keys: the same key goes to the same partition, whoever sends it."""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return the 32-bit hash, unsigned."""
    length = len(key)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", key[:whole]):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if length > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition that the Java client's default partitioner gives a key."""
    # Java's numbers are signed; it takes the sign bit away rather than the absolute value.
    return (murmur2(key) & 0x7FFFFFFF) % partitions
