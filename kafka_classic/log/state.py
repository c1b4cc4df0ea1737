"""What a log knows of itself, and how it goes offline: the ground that append, read, flush and log stand on."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .config import LogConfig
from .epochs import LeaderEpochs
from .errors import StorageError
from .files import OpenFile, replace
from .producers import ProducerState
from .recovery import forget_snapshot
from .segment import FARTHEST, Segment, segment_path

if TYPE_CHECKING:
    from .compaction import Compaction

OPEN_OLD_SEGMENTS = 3
LARGE = 16 << 20  # to remove a gigabyte takes a file system a quarter of a second, too long for an event loop
BIG = 64 * 1024  # a batch of this size is written from where it lies: copying it would cost more than a system call
_OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LogState:
    """The fields of a log. Those with an underscore belong to the append path; offsets are read by everyone."""

    __slots__ = (
        "_active",
        "_bases",
        "_classic",
        "_closed_at",
        "_config",
        "_dropped",
        "_epoch",
        "_flushing",
        "_folder_dirty",
        "_generation",
        "_index_interval",
        "_jitter",
        "_last_entry",
        "_last_flush",
        "_limit",
        "_marks",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_messages",
        "_messages_flushed",
        "_next",
        "_offset_limit",
        "_old_marks",
        "_open",
        "_position",
        "_rolled",
        "_snapshots",
        "_tail",
        "_timestamp_limit",
        "_written",
        "cleaned_to",
        "clock",
        "compaction",
        "dir",
        "end_offset",
        "epochs",
        "exposed_offset",
        "failed",
        "name",
        "producers",
        "recovery_point",
        "segments",
        "start_offset",
    )

    def __init__(self, folder: Path, config: LogConfig, clock: Callable[[], float]) -> None:
        self.dir = folder
        self.name = folder.name
        self.clock = clock
        self.segments: list[Segment] = []
        self.producers = ProducerState(config.classic)
        self.epochs = LeaderEpochs()
        self.start_offset = self.end_offset = self.exposed_offset = self.recovery_point = 0
        self.cleaned_to = 0  # what is below it was compacted; see CompactableLog.first_dirty
        self.compaction: Compaction | None = None  # the pass that is under way
        self.failed: StorageError | None = None
        self._config = config
        self._classic = config.classic
        self._active: Segment
        self._closed_at = -1  # while the log ends there, all that a close writes down stands on disk
        self._bases: list[int] = []
        self._open: list[Segment] = []
        self._dropped: list[OpenFile] = []
        self._snapshots: set[int] = set()
        self._rolled: list[tuple[Segment, int, int]] = []
        self._tail = bytearray()
        self._marks: dict[int, int] = {}
        self._old_marks: dict[int, int] = {}
        self._messages = self._messages_flushed = 0
        self._flushing = False
        self._folder_dirty = True
        self._generation = 0
        self._last_flush = clock()
        self._position = self._written = self._next = 0
        self._max_timestamp = self._max_timestamp_offset = -1
        self._limit = self._timestamp_limit = -1
        self._offset_limit = self._jitter = self._last_entry = 0
        self._index_interval = config.index_interval_bytes
        self._epoch = -1

    # -- what it is

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """New settings hold from the next batch on; whether a log is classic is decided when it is made."""
        self._config = config
        self._index_interval = self._active.interval = config.index_interval_bytes
        self._limits()

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def flushed_offset(self) -> int:
        return self.recovery_point

    @property
    def last_leader_epoch(self) -> int:
        return self.epochs.latest

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.start_offset}..{self.end_offset}, {len(self.segments)} segments)"

    def _limits(self) -> None:
        """Work out up to where `stage` need not take care."""
        segment, config = self._active, self._config
        if self._classic or self.failed is not None or self._position == 0:
            self._limit = -1
        else:
            self._limit = min(self._last_entry + self._index_interval, config.segment_bytes, self._last_entry + BIG)
        first = segment.first_timestamp
        # without a first timestamp the clock decides, and that is asked with care: every batch is above -2
        self._timestamp_limit = first + config.segment_ms - self._jitter if first >= 0 else -2
        self._offset_limit = segment.base + FARTHEST

    # -- segments

    def _opened(self, segment: Segment) -> Segment:
        """Keep the files of the old segments read last open, and no more of them."""
        if segment is not self._active and segment not in self._open and not self._rolled:
            self._open.append(segment)
            if len(self._open) > OPEN_OLD_SEGMENTS:
                self._open.pop(0).release()
        return segment

    def _drop_last(self) -> None:
        segment = self.segments.pop()
        self._bases.pop()
        if segment in self._open:
            self._open.remove(segment)
        segment.unlink()
        segment.release()
        self._snapshots.discard(segment.base)
        self._folder_dirty = True

    def _snapshot(self, offset: int, *, durable: bool) -> None:
        """Write down what is known of producers, and forget the snapshots that no segment begins at."""
        replace(segment_path(self.dir, offset, ".snapshot"), self.producers.dump(), durable=durable)
        self._snapshots.add(offset)
        for at in self._snapshots.difference(self._bases, (offset,)):
            forget_snapshot(self.dir, self._snapshots, at)

    # -- failing

    def _check(self) -> None:
        if self.failed is not None:
            raise self._offline()

    def _offline(self) -> StorageError:
        assert self.failed is not None
        return StorageError(*self.failed.args)

    def give_up(self, error: Exception) -> StorageError:
        """Go offline after an error that nobody thought of: what is staged counts as not written."""
        return self._fail(OSError(errno.EIO, f"{type(error).__name__}: {error}"), "writing to")

    def _fail(self, error: OSError, doing: str) -> StorageError:
        """Go offline: cut the file back to what was committed; nothing staged was ever seen."""
        what = f"{doing} {self.dir}: {error.strerror or error}"
        if error.errno in _OUT_OF_HANDLES and doing == "reading from":
            return StorageError(error.errno, f"{what}; raise the limit of open files (ulimit -n)")
        if error.errno in _OUT_OF_SPACE:
            remedy = "free space on its disk, then restart the broker"
        else:
            remedy = "check its disk, then restart the broker"
        self.failed = StorageError(error.errno, f"{what}; the partition is offline: {remedy}")
        self._limit = -1
        self._tail = bytearray()
        self._rolled = []
        with contextlib.suppress(OSError):
            while len(self.segments) > 1 and self._bases[-1] > self.end_offset:
                self._drop_last()
            if self.segments:
                os.ftruncate(self.segments[-1].open().fd, self.segments[-1].size)
        return self._offline()
