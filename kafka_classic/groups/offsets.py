"""What a group has committed: an offset for each partition, and when each may be forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kafka_classic.groups.records import NO_TIME, OffsetValue

At = tuple[str, int]  # topic, partition


class Committed(NamedTuple):
    """An offset with the place of its record in the offsets topic, by which the later of two is known."""

    value: OffsetValue
    record: int


class GroupOffsets:
    """Only what is replicated is in here: what is answered to a fetch is never taken back."""

    __slots__ = ("_table", "pending")

    def __init__(self) -> None:
        self._table: dict[At, Committed] = {}
        self.pending = 0  # commits that are written and not yet replicated

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[At]:
        return iter(list(self._table))

    def get(self, at: At) -> OffsetValue | None:
        found = self._table.get(at)
        return None if found is None else found.value

    def apply(self, at: At, value: OffsetValue | None, record: int) -> None:
        """Take what stands in the offsets topic at that place; None is a deletion."""
        known = self._table.get(at)
        if known is not None and known.record > record:
            return
        if value is not None:
            self._table[at] = Committed(value, record)
        elif known is not None:
            del self._table[at]

    def of_topics(self, topics: Collection[str]) -> list[At]:
        return [at for at in self._table if at[0] in topics]

    def older(self, now_ms: int, retention_ms: int, *, empty_since: int | None, kept: Iterable[str] = ()) -> list[At]:
        """What may be forgotten: commits of topics that nobody is subscribed to, `retention_ms` after the last word.

        The last word is the commit, or the end of the last member if that was later and is known.
        """
        subscribed = frozenset(kept)
        found = []
        for at, (value, _) in self._table.items():
            if at[0] in subscribed:
                continue
            if value.expires_at != NO_TIME:
                over = now_ms >= value.expires_at
            else:
                over = now_ms - max(value.committed_at, empty_since or 0) >= retention_ms
            if over:
                found.append(at)
        return found
