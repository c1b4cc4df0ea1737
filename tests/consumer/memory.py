"""An offset store in memory, which remembers every commit and can refuse; and waiting for a condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_classic.client.leaders import TopicPartition

LONG = 60.0


class MemoryOffsets:
    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self.offsets = dict(offsets or {})
        self.commits: list[dict[TopicPartition, int]] = []
        self.refuses = False

    def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: self.offsets[at] for at in partitions if at in self.offsets}

    def resume(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.fetch(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refuses:
            raise ConnectionError("no offset is kept now")
        self.commits.append(dict(offsets))
        self.offsets.update(offsets)
