"""Which offsets were written under which leader: the leader-epoch cache and its checkpoint file.

A follower that comes back asks its leader where an epoch ended, and cuts its log there. The file is Kafka's
`leader-epoch-checkpoint`: version, count, then `epoch start-offset` a line. It is written by a flush, so that all
epochs below the recovery point are in it; those above are read off the batches when a crash is recovered from. A
truncation writes it too, so that none is in it that is not in the log.
"""

import sys
import threading
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from .checkpoint import CorruptCheckpoint, format_lines, read_lines
from .files import replace

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1


class LeaderEpochs:
    """Epochs with the first offset of each, both rising."""

    __slots__ = ("_saved", "_saving", "_version", "epochs", "starts")

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self._version = self._saved = 0
        self._saving = threading.Lock()

    @classmethod
    def read(cls, folder: Path) -> "LeaderEpochs":
        """Read the file; a damaged one raises CorruptCheckpoint, a missing one has no epochs."""
        cache = cls()
        for epoch, start in read_lines(folder / FILE_NAME, 2):
            if not epoch.isdigit():
                raise CorruptCheckpoint(f"{folder / FILE_NAME} is damaged")
            cache.assign(int(epoch), int(start))
        cache._saved = cache._version
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
        self._version += 1

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
            self._version += 1

    def cut_start(self, offset: int) -> None:
        """Forget the epochs that ended before the log's new start; the one that holds it begins there now."""
        row = bisect_right(self.starts, offset) - 1
        if row > 0 or (row == 0 and self.starts[0] < offset):
            del self.starts[:row], self.epochs[:row]
            self.starts[0] = offset
            self._version += 1

    def clear(self) -> None:
        self.epochs.clear()
        self.starts.clear()
        self._version += 1

    def save_job(self, folder: Path) -> Callable[[], None] | None:
        """What writes the file as things stand now, on any thread; None if it says so already."""
        version = self._version
        if version == self._saved:
            return None
        data = self.dump()

        def save() -> None:
            with self._saving:
                if version > self._saved:  # else one that was begun later was quicker
                    replace(folder / FILE_NAME, data)
                    self._saved = version

        return save

    def close(self) -> None:
        """Write no more: the folder may soon be another log's."""
        with self._saving:
            self._saved = sys.maxsize

    def dump(self) -> bytes:
        """The bytes of the checkpoint file."""
        return format_lines(list(zip(self.epochs, self.starts, strict=True)))
