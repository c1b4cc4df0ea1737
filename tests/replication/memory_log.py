"""A log in memory, as the rules of replication need one, with the real leader epochs."""

from __future__ import annotations

from kafka_classic.log.epochs import LeaderEpochs

Entry = tuple[int, int]  # the leader epoch and the value of a record


class MemoryLog:
    """Records in a list; the offset is the place in it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()
        self.end_offset = 0

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.end_offset)

    def append(self, entry: Entry) -> None:
        self.epochs.assign(entry[0], self.end_offset)
        self.entries.append(entry)
        self.end_offset += 1

    def truncate(self, offset: int) -> None:
        """As Log.truncate_to: an epoch at the end in which nothing was written goes even if no record does."""
        del self.entries[offset:]
        self.end_offset = len(self.entries)
        self.epochs.cut_end(self.end_offset)

    def recover(self) -> None:
        """As after a kill -9: the epochs are read off the batches."""
        self.epochs = LeaderEpochs()
        for offset, (epoch, _) in enumerate(self.entries):
            self.epochs.assign(epoch, offset)
