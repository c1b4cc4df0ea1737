"""The last offset of each key, in bounded memory: what a pass of compaction knows.

Kafka keeps 16 bytes of a hash of each key, and two keys with one hash would lose a record. Here a key stands for
itself; for one longer than 32 bytes stands its BLAKE2b digest of 32 bytes and one byte more, so that it is never taken
for a short one. Two keys with one digest of 256 bits have never been found, by accident or on purpose.

A key costs more than in Kafka's table of 24 bytes each: about 190 with a key of 16 bytes, counted as the table is at
its worst, when it grows. What does not fit waits for the next pass.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

LONGEST = 32
_DIGEST = 32
# Of a dictionary of CPython: 24 bytes of entry and 4 of index, of whose slots two thirds are used at most; when it
# grows, the full one stands beside the new one of twice its size. An offset is an int of its own.
_TABLE_ENTRY = 90
_OFFSET = 32
_OBJECT = sys.getsizeof(b"")
_FREED_AT_A_TIME = 2000


class KeyTable:
    """Keys with the last offset of each; `full` says, before a batch is added, that it might not fit."""

    __slots__ = ("_latest", "capacity", "used")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._latest: dict[bytes | None, int] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def full(self, keys: Sequence[bytes | None]) -> bool:
        """Whether these keys would take more memory than there is, were all of them new."""
        return self.used + len(keys) * _cost(keys) > self.capacity

    def add(self, keys: Sequence[bytes | None], offsets: Iterable[int]) -> None:
        """Take note of records; later ones of a key replace the earlier. Those without a key are passed over."""
        latest = self._latest
        before = len(latest)
        latest.update(zip(_names(keys), offsets, strict=False))
        latest.pop(None, None)
        self.used += (len(latest) - before) * _cost(keys)

    def latest(self, keys: Sequence[bytes | None], otherwise: Sequence[int]) -> list[int]:
        """The last offset of each key; of one that is not known, what stands in `otherwise`."""
        return list(map(self._latest.get, _names(keys), otherwise))

    def clear(self, pause: Callable[[], object]) -> None:
        """Give the memory back a little at a time: to free a million keys at once would stop all other threads."""
        latest = self._latest
        while latest:
            for _ in range(min(len(latest), _FREED_AT_A_TIME)):
                latest.popitem()
            pause()
        self._latest = {}
        self.used = 0


def _names(keys: Sequence[bytes | None]) -> Sequence[bytes | None]:
    if max(map(len, filter(None, keys)), default=0) <= LONGEST:
        return keys
    return [
        key if key is None or len(key) <= LONGEST else b"#" + blake2b(key, digest_size=_DIGEST).digest() for key in keys
    ]


def _cost(keys: Sequence[bytes | None]) -> int:
    """The bytes that one of these keys takes at most."""
    longest = min(max(map(len, filter(None, keys)), default=0), _DIGEST + 1)
    return _TABLE_ENTRY + _OFFSET + (_OBJECT + longest + 15 & ~15)
