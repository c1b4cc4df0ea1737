"""Which offsets were written under which leader: the leader-epoch cache and its checkpoint file.

A follower that comes back asks its leader where an epoch ended, and cuts its log there. The file is Kafka's
`leader-epoch-checkpoint`: version, count, then `epoch start-offset` a line. It is written by a flush, so that all
epochs below the recovery point are in it; those above are read off the batches when a crash is recovered from.
"""

from bisect import bisect_right
from pathlib import Path

from .checkpoint import CorruptCheckpoint, format_lines, read_lines

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1


class LeaderEpochs:
    """Epochs with the first offset of each, both rising."""

    __slots__ = ("dirty", "epochs", "starts")

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.dirty = False

    @classmethod
    def read(cls, folder: Path) -> "LeaderEpochs":
        """Read the file; a damaged one raises CorruptCheckpoint, a missing one has no epochs."""
        cache = cls()
        for epoch, start in read_lines(folder / FILE_NAME, 2):
            if not epoch.isdigit():
                raise CorruptCheckpoint(f"{folder / FILE_NAME} is damaged")
            cache.assign(int(epoch), int(start))
        cache.dirty = False
        return cache

    @property
    def latest(self) -> int:
        return self.epochs[-1] if self.epochs else UNDEFINED

    def assign(self, epoch: int, start: int) -> None:
        """A leader of this epoch writes from here on; whatever was thought to begin at or after this goes."""
        if epoch < 0 or epoch <= self.latest:
            return
        while self.starts and self.starts[-1] >= start:
            self.starts.pop()
            self.epochs.pop()
        self.epochs.append(epoch)
        self.starts.append(start)
        self.dirty = True

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at or below the given one, and the offset at which it ended; (-1, -1) if unknown."""
        if epoch < 0 or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        row = bisect_right(self.epochs, epoch)
        return (self.epochs[row - 1] if row else epoch), self.starts[row]

    def cut_end(self, offset: int) -> None:
        """Forget the epochs that begin at or after the offset: the log was cut there."""
        while self.starts and self.starts[-1] >= offset:
            self.starts.pop()
            self.epochs.pop()
            self.dirty = True

    def cut_start(self, offset: int) -> None:
        """Forget the epochs that ended before the log's new start; the one that holds it begins there now."""
        row = bisect_right(self.starts, offset) - 1
        if row > 0 or (row == 0 and self.starts[0] < offset):
            del self.starts[:row], self.epochs[:row]
            self.starts[0] = offset
            self.dirty = True

    def clear(self) -> None:
        self.dirty = self.dirty or bool(self.epochs)
        self.epochs.clear()
        self.starts.clear()

    def dump(self) -> bytes:
        """The bytes of the checkpoint file."""
        return format_lines(list(zip(self.epochs, self.starts, strict=True)))
