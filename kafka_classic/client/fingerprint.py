"""Fingerprints of sets of messages: equal however the messages were cut into batches, files and tasks.

A message's word is the CRC-32C of its timestamp, key, value and headers. Of a set of messages is kept: the sum of the
words, their xor, and the sum of each word times its message's number. A count cannot see one message lost and one
doubled, a sum alone cannot see two messages that changed places: the numbers can.

All of it runs in C by `map`, since the producer does it for every message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import repeat
from operator import and_, mul, xor
from typing import Any, NamedTuple

from crc32c import crc32c

Headers = Sequence[tuple[str, bytes | None]]
_WORD = 0xFFFFFFFF
_SUM = 0xFFFFFFFFFFFFFFFF


class Fingerprint(NamedTuple):
    """Sums modulo 2**64. `placed` weighs each word with its message's number, counted from 1."""

    sum: int = 0
    xor: int = 0
    placed: int = 0

    def plus(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint((self.sum + other.sum) & _SUM, self.xor ^ other.xor, (self.placed + other.placed) & _SUM)

    def moved(self, by: int) -> Fingerprint:
        """The same messages under numbers that are higher by so much."""
        return Fingerprint(self.sum, self.xor, (self.placed + by * self.sum) & _SUM)

    def to_json(self) -> list[str]:
        """In hexadecimal: readers of JSON in other languages keep 53 bits of a number."""
        return [f"{part:x}" for part in self]

    @classmethod
    def from_json(cls, told: Any) -> Fingerprint:
        return cls._make(int(part, 16) for part in told)


NOTHING = Fingerprint()


def fingerprint(words: Sequence[int], numbers: Iterable[int] | None = None) -> Fingerprint:
    """Of words under the numbers given, by default 0, 1, 2 …"""
    places = range(1, len(words) + 1) if numbers is None else [number + 1 for number in numbers]
    return Fingerprint(sum(words) & _SUM, reduce(xor, words, 0), sum(map(mul, words, places)) & _SUM)


def words_of(records: Sequence[tuple[bytes | None, bytes | None, Headers, int]]) -> list[int]:
    """The words of (key, value, headers, timestamp) records."""
    keys, values, headers, timestamps = zip(*records, strict=True)
    return words(keys, values, headers, timestamps)


def words(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers | None],
    timestamps: Sequence[int],
) -> list[int]:
    """The word of each message, from columns."""
    starts = map(and_, timestamps, repeat(_WORD))
    if not any(headers):
        try:
            if keys[0] is None and keys.count(None) == len(keys):
                return [*map(crc32c, values, starts)]  # type: ignore[arg-type]  # a null raises
            seeds = map(xor, map(crc32c, keys, starts), map(len, keys))  # type: ignore[arg-type]
            # A key is told from no key, and from a part of the value, by the length that is mixed in.
            return [*map(crc32c, values, map(xor, seeds, repeat(_WORD)))]  # type: ignore[arg-type]
        except TypeError:
            pass
    return [*map(word, keys, values, headers, timestamps)]


def word(key: bytes | None, value: bytes | None, headers: Headers | None, timestamp: int) -> int:
    """The word of one message."""
    found = timestamp & _WORD
    if key is not None:
        found = crc32c(key, found) ^ len(key) ^ _WORD
    # A null is told from nothing: no CRC of nothing inverts its start.
    found = found ^ 0x5A5A5A5A if value is None else crc32c(value, found)
    for name, content in headers or ():
        found = crc32c(name.encode(), found) ^ len(name)
        found = found ^ _WORD if content is None else crc32c(content, found)
    return found
