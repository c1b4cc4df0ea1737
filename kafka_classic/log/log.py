"""A partition's log: a list of segments, appended to at the end, read anywhere, cut at the start by retention.

The way of a batch through it:

    stage()   it gets its offset, in place, and joins the tail in memory
    commit()  one write for all that is staged; from here on `end_offset` is past it, and it can be read
    flush     fsync on any thread (FlushJob); `recovery_point` is past it, and a classic log exposes it (P5)

An I/O error takes the log offline: the file is cut back to what was committed, `failed` is set, and every later call
raises it. Only a restart, with its recovery, brings the log back: after a failed write or fsync nobody knows what the
disk holds.
"""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kafka_classic.records.batch import HEADER, HEADER_SIZE

from . import retention
from .compacting import CompactableLog
from .config import LogConfig
from .errors import OffsetOutOfRange, StorageError
from .files import FileSlice, OpenFile, aside, sync_path, write_all
from .flush import FlushJob
from .keeping import filler
from .recovery import forget_snapshot, load, producers_at
from .segment import Segment
from .state import LARGE

__all__ = ["FileSlice", "FlushJob", "Log"]


class Log(CompactableLog):
    """The log of one partition; all methods on one thread, but for `FlushJob.run`."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        folder: Path,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start: int = 0,
        cleaned_to: int = 0,
        clean: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> "Log":
        """Open the log in a folder, which is made if it is not there; recover it unless it was closed cleanly."""
        log = cls(folder, config, clock)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            loaded = load(
                folder,
                config,
                recovery_point=recovery_point,
                log_start=log_start,
                clean=clean,
                now_ms=int(clock() * 1000),
            )
        except StorageError:
            raise
        except OSError as error:
            raise log._fail(error, "opening") from error
        log.segments, log.producers, log.epochs, log._snapshots, recovered = loaded
        log._bases = [segment.base for segment in log.segments]
        log.end_offset = log.segments[-1].next_offset
        log.start_offset = max(log_start, log._bases[0])
        log.epochs.cut_start(log.start_offset)
        log._epoch = log.epochs.latest
        log._activate(log.segments[-1])
        if clean and not recovered and log.end_offset in log._snapshots:
            log._closed_at = log.end_offset
        if log.start_offset > log.end_offset:
            log.truncate_fully_at(log.start_offset)
        if recovered and log.end_offset != recovery_point:
            # What survived in the page cache may be exposed only once it is on the disk. Most logs of many are idle.
            log.flush()
        log.recovery_point = log.exposed_offset = log.end_offset
        log.cleaned_to = min(cleaned_to, log.end_offset)
        return log

    # -- housekeeping

    def clean(self, now: float, upto: int | None = None) -> list[int]:
        """Delete the segments whose time is over (P11), none above `upto`; returns their base offsets."""
        self._check()
        if self._next != self.end_offset:
            self.commit()  # lest a fresh batch that is staged goes with the old segment it would join
        now_ms = int(now * 1000)
        upto = self.exposed_offset if upto is None else upto
        deleted: list[int] = []
        try:
            for rule in self._rules(now_ms):
                count = retention.expired(self.segments, rule, upto)
                if count == len(self.segments):
                    self.roll()
                deleted += self._drop_first(count)
        except StorageError:
            raise
        except OSError as error:
            raise self._fail(error, "deleting segments of") from error
        for segment in self.segments[:-1]:
            if segment not in self._open:
                segment.release()
        self.producers.expire(now_ms, self._config.producer_id_expiration_ms)
        return deleted

    def _rules(self, now_ms: int) -> Iterator[retention.Rule]:
        """By what segments are judged; each rule is made when those before it have had their effect on the size."""
        yield retention.below_start(self.start_offset)
        if self._config.deletes:
            yield retention.too_old(now_ms, self._config.retention_ms)
            yield retention.too_much(self.size, self._config.retention_bytes)

    def advance_start_offset(self, offset: int) -> None:
        """Hide what is below the offset (DeleteRecords); `clean` deletes the segments that it leaves empty."""
        self._check()
        if offset > self.exposed_offset or offset < 0:
            raise OffsetOutOfRange(f"{self.name}: cannot delete up to {offset}, the log ends at {self.exposed_offset}")
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.cut_start(offset)

    def _drop_first(self, count: int) -> list[int]:
        dropped, self.segments = self.segments[:count], self.segments[count:]
        if not dropped:
            return []
        self._bases = self._bases[count:]
        # The start moves first: whatever a crash leaves of the files below it, it is not served.
        self.start_offset = max(self.start_offset, self._bases[0])
        self.epochs.cut_start(self.start_offset)
        for segment in dropped:
            if segment in self._open:
                self._open.remove(segment)
            if segment.size >= LARGE:
                self._dropped.append(segment.open())
            segment.unlink()
            segment.release()
            self._snapshots.discard(segment.base)
        self._folder_dirty = True
        return [segment.base for segment in dropped]

    def take_dropped(self) -> list[OpenFile]:
        """Large files that have lost their names; whoever closes them waits for the disk to take back its blocks."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def begin_epoch(self, epoch: int) -> None:
        """A leader of this epoch writes from the end of the log on; one that is offline writes nothing."""
        if self.failed is not None:
            return
        self._nothing_staged()
        self.epochs.assign(epoch, self.end_offset)
        self._epoch = self.epochs.latest

    def truncate_to(self, offset: int) -> None:
        """Cut off the batches that hold this offset or a later one: a follower's log has left its leader's.

        Let a checkpoint follow before anything is appended: a recovery point above the cut would vouch for new batches.
        """
        self._check()
        self._nothing_staged()
        if offset >= self.end_offset:
            # One who led, and wrote nothing, has an epoch at the end that the next leader's history lacks.
            self.epochs.cut_end(self.end_offset)
            self._epoch = self.epochs.latest
            return
        self._forget_cleaned(offset)
        if offset <= self._bases[0]:
            self.truncate_fully_at(offset)
            return
        try:
            while self._bases[-1] >= offset:
                self._drop_last()
            segment = self.segments[-1]
            if segment is not self._active:
                segment.rebuild()  # its index returns to memory, to be appended to
            end = segment.locate(offset)
            if end is not None:
                base: int = HEADER.unpack(os.pread(segment.open().fd, HEADER_SIZE, end))[0]
                offset = min(offset, base)
                os.ftruncate(segment.open().fd, end)
                segment.size = end
                if (last := segment.rebuild()) < offset:
                    self._fill(segment, last, offset)
                for _, header in segment.batches(0):
                    segment.first_timestamp = header[8]
                    break
            segment.next_offset = offset
            self._after_truncation(segment)
        except OSError as error:
            raise self._fail(error, "truncating") from error

    def _fill(self, segment: Segment, base: int, offset: int) -> None:
        """The cut is where compaction has left a gap: the log must end there all the same, also after a crash."""
        self.epochs.cut_end(offset)
        write_all(segment.open().fd, [filler(base, offset, self.epochs.latest)], segment.size)
        segment.size += HEADER_SIZE
        segment.rebuild()

    def truncate_fully_at(self, offset: int) -> None:
        """Drop everything and go on at this offset."""
        self._check()
        self._nothing_staged()
        self._forget_cleaned(0)
        try:
            while self.segments:
                self._drop_last()
            fresh = Segment.create(
                self.dir,
                offset,
                interval=self._index_interval,
                classic=self._classic,
                now_ms=int(self.clock() * 1000),
            )
            self.segments.append(fresh)
            self._bases.append(offset)
            self.start_offset = offset
            self.epochs.clear()
            self._after_truncation(fresh)
        except OSError as error:
            raise self._fail(error, "truncating") from error

    def _after_truncation(self, segment: Segment) -> None:
        if segment in self._open:
            self._open.remove(segment)
        segment.flushed = False
        end = segment.next_offset
        self._generation += 1
        self._closed_at = -1
        self.end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self.exposed_offset = min(self.exposed_offset, end) if self._classic else end
        self.start_offset = min(self.start_offset, end)
        self._activate(segment)
        self.epochs.cut_end(end)
        self._epoch = self.epochs.latest
        if (save := self.epochs.save_job(self.dir)) is not None:
            save()  # at once: an epoch that was cut off would hide the lower ones that replace it
        for at in [at for at in self._snapshots if at > end]:
            forget_snapshot(self.dir, self._snapshots, at)
        self.producers = producers_at(self.dir, self.segments, self._snapshots, end, self._classic)
        segment.open()

    def _nothing_staged(self) -> None:
        if self._next != self.end_offset:
            raise ValueError(f"{self.name}: commit what is staged before truncating")

    def close(self) -> None:
        """Write everything down so that the next start need not scan; a failed log is only let go of."""
        if self.failed is None:
            self.commit()
        if self.failed is None and self.end_offset != self._closed_at:
            try:
                self._active.write_indexes()
                self._snapshot(self.end_offset, durable=True)
                self.flush()
                if not self._classic:
                    for suffix in (".index", ".timeindex"):
                        sync_path(self._active.path_of(suffix))
            except StorageError:
                raise
            except OSError as error:
                raise self._fail(error, "closing") from error
        self._let_go("is closed")

    def delete(self) -> None:
        """Remove the log: renamed aside first, so that a crash leaves none that looks alive."""
        shutil.rmtree(self.retire(), ignore_errors=True)

    def retire(self) -> Path:
        """Give up the log: its folder gets a name that no log is found under, for whoever has time to remove it."""
        self._let_go("is deleted")
        self.epochs.close()  # a flush may be under way
        doomed = aside(self.dir, "delete")
        with contextlib.suppress(FileNotFoundError):
            self.dir.rename(doomed)
        return doomed

    def _let_go(self, why: str) -> None:
        if self.failed is None:
            self.failed = StorageError(errno.EBADF, f"{self.name} {why}")
        if self.compaction is not None:
            self.compaction.cancel()
        self._limit = -1
        self._tail = bytearray()
        for segment in self.segments:
            segment.release()
