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
import random
import shutil
import struct
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_classic.records.batch import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    Buffer,
    CorruptBatch,
    check_batch,
    crc_of,
)

from . import retention
from .config import NEVER, LogConfig
from .epochs import FILE_NAME as EPOCHS_FILE
from .epochs import LeaderEpochs
from .errors import OffsetOutOfRange, OffsetsOutOfOrder, StorageError
from .files import FileSlice, replace, sync_path, write_all
from .flush import FlushJob
from .index import GrowingOffsetIndex, GrowingTimeIndex
from .producers import ProducerState
from .recovery import forget_snapshot, load, producers_at
from .scan import Header
from .segment import FARTHEST, Segment, segment_path
from .timestamps import first_at_or_after, first_of_largest

__all__ = ["FileSlice", "FlushJob", "Log"]

BIG = 64 * 1024  # a batch of this size is written from where it lies: copying it would cost more than a system call
OPEN_OLD_SEGMENTS = 3
MARKS = 64
_OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PLACE = struct.Struct(">qii")  # base offset, batch length, leader epoch: the first fields of a batch
_place = _PLACE.pack_into
_DELTA_AT = 23
_put_int = struct.Struct(">i").pack_into
_put_crc = struct.Struct(">I").pack_into


class Log:
    """The log of one partition; all methods on one thread, but for `FlushJob.run`."""

    __slots__ = (
        "_active",
        "_bases",
        "_classic",
        "_config",
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
        "clock",
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
        self.failed: StorageError | None = None
        self._config = config
        self._classic = config.classic
        self._bases: list[int] = []
        self._open: list[Segment] = []
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

    @classmethod
    def open(
        cls,
        folder: Path,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start: int = 0,
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
        log._epoch = log.epochs.latest
        log.end_offset = log.segments[-1].next_offset
        log.start_offset = max(log_start, log._bases[0])
        log._activate(log.segments[-1])
        if log.start_offset > log.end_offset:
            log.truncate_fully_at(log.start_offset)
        if recovered:
            log.flush()  # what survived in the page cache may be exposed only once it is on the disk
        log.recovery_point = log.exposed_offset = log.end_offset
        return log

    # -- what it is

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """New settings hold from the next batch on; whether a log is classic is decided when it is made."""
        self._config = config
        self._index_interval = config.index_interval_bytes
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

    # -- appending: hot. Measured in bench/log.py; the plain twin is IndexBuilder, which recovery uses.

    def stage(self, view: memoryview | bytearray, header: Header, leader_epoch: int) -> int:
        """Give one checked batch its offset, in place, and queue it for `commit`; returns the offset.

        Raises DuplicateSequence, OutOfOrderSequence or InvalidProducerEpoch before anything is changed.
        """
        length = header[1]
        end = self._position + length + 12
        base = self._next
        after = base + header[6] + 1
        timestamp = header[8]
        # Everything that is rare is behind these compares: an index entry, a roll, a new epoch, an idempotent
        # producer, a classic or a failed log (both have a limit of -1).
        if (
            end > self._limit
            or timestamp > self._timestamp_limit
            or header[9] != -1
            or leader_epoch != self._epoch
            or after > self._offset_limit
        ):
            return self._stage_with_care(view, header, leader_epoch)
        _place(view, 0, base, length, leader_epoch)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = base
        self._position = end
        self._next = after
        self._tail += view
        return base

    def commit(self) -> None:
        """Write all that is staged with one write; only then does `end_offset` move."""
        if self.failed is not None:
            raise self._offline()
        segment = self._active
        if self._tail:
            tail, self._tail = self._tail, bytearray()
            self._write((tail,))
        if self._rolled:
            self._end_rolled()
        old_end = self.end_offset
        if old_end >= segment.base:
            # Those who wait at the end of the log will ask for exactly this offset next.
            marks = self._marks
            marks[old_end] = segment.size
            if len(marks) > MARKS:
                self._old_marks = marks
                self._marks = {}
        segment.size = self._position
        segment.max_timestamp = self._max_timestamp
        segment.max_timestamp_offset = self._max_timestamp_offset
        segment.next_offset = self.end_offset = self._next
        if not self._classic:
            self.exposed_offset = self._next

    def append(self, batches: Buffer, leader_epoch: int = 0) -> int:
        """Check, stage and commit whole batches; returns the first one's offset."""
        view = memoryview(bytearray(batches))
        first, position = -1, 0
        checked = []
        while position < len(view):
            header = check_batch(view, position)
            checked.append((view[position : position + header.size], header))
            position += header.size
        for batch, header in checked:
            base = self.stage(batch, header, leader_epoch)
            first = base if first < 0 else first
        self.commit()
        return first

    def append_as_follower(self, batches: Buffer) -> None:
        """Append a leader's batches byte for byte, with the offsets and epochs that they have."""
        self._check()
        view = memoryview(batches)
        position, due = 0, self._next
        checked = []
        while position < len(view):
            try:
                header = check_batch(view, position)
            except CorruptBatch:
                if len(view) - position < LOG_OVERHEAD + max(49, _length_at(view, position)):
                    break  # a fetch may end in the middle of a batch
                raise
            if header.base_offset < due or header.last_offset_delta < 0:
                raise OffsetsOutOfOrder(f"{self.name}: offset {header.base_offset} came where {due} is due")
            if self._classic and (header.base_offset != due or header.last_offset_delta != header.size - 1):
                raise OffsetsOutOfOrder(f"{self.name}: offset {header.base_offset} is not the position {due}")
            checked.append((view[position : position + header.size], header))
            due = header.next_offset
            position += header.size
        for batch, header in checked:
            self._make_room(header.size, header.max_timestamp, header.last_offset, header.base_offset)
            self._take(batch, header, header.base_offset, header.next_offset, header.leader_epoch)
        self.commit()

    def _stage_with_care(self, view: memoryview | bytearray, header: Header, leader_epoch: int) -> int:
        """The rest of `stage`: what is needed for few batches only."""
        self._check()
        size = header[1] + LOG_OVERHEAD
        if size != len(view):
            raise CorruptBatch(f"a batch of {size} bytes in a buffer of {len(view)}")
        if header[9] != -1:
            self.producers.check(header)
        base = self._next
        delta = size - 1 if self._classic else header[6]
        self._make_room(size, header[8], base + delta, base)
        _place(view, 0, base, header[1], leader_epoch)
        if self._classic:
            self._messages += header[12]
            if header[6] != delta:
                _put_int(view, _DELTA_AT, delta)
                _put_crc(view, CRC_FROM - 4, crc_of(view, 0, size))
        self._take(view, header, base, base + delta + 1, leader_epoch)
        return base

    def _take(self, view: Buffer, header: Header, base: int, after: int, leader_epoch: int) -> None:
        """Queue a batch, and note what it means for indexes, epochs and producers."""
        position, size, segment = self._position, len(view), self._active
        if position == 0:
            segment.first_timestamp = header[8]
        elif position + size - self._last_entry > self._index_interval:
            index, times = segment.index, segment.times
            assert isinstance(index, GrowingOffsetIndex)
            assert isinstance(times, GrowingTimeIndex)
            index.add(base - segment.base, position)
            if not self._classic:
                times.add(self._max_timestamp, self._max_timestamp_offset - segment.base)
            self._last_entry = position
        if header[8] > self._max_timestamp:
            self._max_timestamp = header[8]
            self._max_timestamp_offset = base
        if leader_epoch != self._epoch:
            self.epochs.assign(leader_epoch, base)
            self._epoch = self.epochs.latest
        if header[9] != -1:
            self.producers.add(header, base)
        self._position = position + size
        self._next = after
        if size >= BIG:
            tail, self._tail = self._tail, bytearray()
            self._write((tail, view))
        else:
            self._tail += view
        self._limits()

    def _write(self, pieces: Sequence[Buffer]) -> None:
        """Write staged bytes behind those that are in the active file; they stay unseen until `commit`."""
        file = self._active.file
        assert file is not None
        try:
            write_all(file.fd, pieces, self._written)
        except OSError as error:
            raise self._fail(error, "writing to") from error
        self._written += sum(map(len, pieces))

    # -- rolling

    def _make_room(self, size: int, timestamp: int, last_offset: int, base: int) -> None:
        """Roll to a new segment if the batch must not join the active one."""
        segment, config, position = self._active, self._config, self._position
        too_far = last_offset - segment.base > FARTHEST
        if position == 0 and not too_far:
            return
        if segment.first_timestamp >= 0:
            age = timestamp - segment.first_timestamp
        else:
            age = int(self.clock() * 1000) - segment.created
        if (
            too_far
            or position + size > config.segment_bytes
            or age > config.segment_ms - self._jitter
            or 12 * len(segment.index) + 12 > config.segment_index_bytes
        ):
            self._roll(self._next if position else base)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._check()
        if self._position:
            self._roll(self._next)
            self.commit()

    def _roll(self, base: int) -> None:
        old = self._active
        if self._tail:
            tail, self._tail = self._tail, bytearray()
            self._write((tail,))
        try:
            if base == old.base or self._position == 0:
                old.unlink()
                self.segments.pop()
                self._bases.pop()
            else:
                old.max_timestamp = self._max_timestamp
                old.max_timestamp_offset = self._max_timestamp_offset
                old.write_indexes()
                self._rolled.append((old, self._position, self._next))
            self._snapshot(base, durable=False)
            new = Segment.create(
                self.dir,
                base,
                interval=self._index_interval,
                classic=self._classic,
                now_ms=int(self.clock() * 1000),
            )
        except OSError as error:
            raise self._fail(error, "rolling a segment of") from error
        self.segments.append(new)
        self._bases.append(base)
        self._folder_dirty = True
        self._activate(new)

    def _end_rolled(self) -> None:
        """The bytes of rolled segments are committed now; their indexes are in files and leave the memory."""
        for segment, size, next_offset in self._rolled:
            segment.size = size
            segment.next_offset = next_offset
            segment.flushed = False
            file = segment.file
            segment.release()
            segment.file = file
            self._opened(segment)
        self._rolled = []

    def _activate(self, segment: Segment) -> None:
        """Append to this segment from now on."""
        segment.open()
        self._active = segment
        self._position = self._written = segment.size
        self._next = segment.next_offset
        self._max_timestamp = segment.max_timestamp
        self._max_timestamp_offset = segment.max_timestamp_offset
        self._last_entry = segment.index.positions[-1] if len(segment.index) else 0
        self._jitter = random.randrange(self._config.segment_jitter_ms) if self._config.segment_jitter_ms > 0 else 0
        self._marks = {}
        self._old_marks = {}
        self._limits()

    def _limits(self) -> None:
        """Work out up to where `stage` need not take care."""
        segment, config = self._active, self._config
        if self._classic or self.failed is not None or self._position == 0:
            self._limit = -1
        else:
            self._limit = min(self._last_entry + self._index_interval, config.segment_bytes, self._last_entry + BIG)
        first = segment.first_timestamp
        self._timestamp_limit = first + config.segment_ms - self._jitter if first >= 0 else -1
        self._offset_limit = segment.base + FARTHEST

    # -- reading

    def read(self, offset: int, max_bytes: int, *, upto: int | None = None, min_one: bool = True) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, below `upto`, out of one file; None if there are none.

        Raises OffsetOutOfRange below the log's start and above its end.
        """
        if self.failed is not None:
            raise self._offline()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"{self.name}: offset {offset} is not in {self.start_offset}..{self.end_offset}")
        upto = self.exposed_offset if upto is None else min(upto, self.end_offset)
        if offset >= upto:
            return None
        try:
            return self._read(offset, max_bytes, upto, min_one)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def _read(self, offset: int, max_bytes: int, upto: int, min_one: bool) -> FileSlice | None:
        segment = self._active
        position = None
        if offset >= segment.base:
            position = self._marked(offset)
            number = len(self.segments) - 1
        else:
            number = max(bisect_right(self._bases, offset) - 1, 0)
            segment = self._opened(self.segments[number])
        if position is None:
            position = segment.locate(offset)
        while position is None:  # the segment ends in a gap that compaction left
            number += 1
            if number == len(self.segments) or self._bases[number] >= upto:
                return None
            segment = self._opened(self.segments[number])
            position = segment.locate(offset)
        if upto >= segment.next_offset:
            end, next_offset = segment.size, segment.next_offset
        else:
            end, next_offset = self._end_below(segment, upto)
        if end - position > max_bytes:
            end, next_offset = segment.end_within(position, position + max_bytes)
            if end - position > max_bytes and not min_one:
                return None
        return FileSlice(segment.open(), position, end - position, next_offset) if end > position else None

    def _marked(self, offset: int) -> int | None:
        position = self._marks.get(offset)
        return self._old_marks.get(offset) if position is None else position

    def _end_below(self, segment: Segment, upto: int) -> tuple[int, int]:
        """Where the batches end that lie wholly below `upto`."""
        if segment is self._active and (end := self._marked(upto)) is not None:
            return end, upto
        end = segment.locate(upto)
        if end is None:
            return segment.size, segment.next_offset
        base: int = HEADER.unpack(os.pread(segment.open().fd, HEADER_SIZE, end))[0]
        return end, min(base, upto)

    def _opened(self, segment: Segment) -> Segment:
        """Keep the files of the old segments read last open, and no more of them."""
        if segment is not self._active and segment not in self._open:
            self._open.append(segment)
            if len(self._open) > OPEN_OLD_SEGMENTS:
                self._open.pop(0).release()
        return segment

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """The first exposed record whose timestamp is at least this one, as (offset, its timestamp)."""
        self._check()
        try:
            return first_at_or_after(self._each(), timestamp, self.start_offset, self.exposed_offset)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def max_timestamp(self) -> tuple[int, int] | None:
        """The record with the largest timestamp, the first if several have it, as (offset, its timestamp)."""
        self._check()
        try:
            return first_of_largest(self._each(), self.start_offset, self.exposed_offset)
        except OSError as error:
            raise self._fail(error, "reading from") from error

    def _each(self) -> Sequence[Segment]:
        """The segments that hold anything to be read."""
        return [segment for segment in self.segments if segment.size and segment.next_offset > self.start_offset]

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below this one and the offset where it ended (OffsetForLeaderEpoch)."""
        self._check()
        return self.epochs.end_offset(epoch, self.end_offset)

    # -- flushing

    def needs_flush(self, now: float) -> bool:
        """Whether flush.messages or flush.ms is reached (P5), or a segment was rolled; `now` as the clock has it."""
        if self._flushing or self.recovery_point >= self.end_offset or self.failed is not None:
            return False
        config = self._config
        unflushed = self._messages - self._messages_flushed if self._classic else self.end_offset - self.recovery_point
        return (
            unflushed >= config.flush_messages
            or (config.flush_ms != NEVER and (now - self._last_flush) * 1000 >= config.flush_ms)
            or self._active.base > self.recovery_point
        )

    def begin_flush(self) -> FlushJob:
        """What must be fsynced for all that is committed to survive the loss of power; cheap."""
        self._check()
        files, indexes = [], []
        for segment in reversed(self.segments):
            if segment.flushed:
                break
            if segment.size or segment is self._active:
                files.append(segment.open())
            if segment is not self._active and not self._classic:
                indexes += [segment.path_of(".index"), segment.path_of(".timeindex")]
        epochs = (self.dir / EPOCHS_FILE, self.epochs.dump()) if self.epochs.dirty else None
        self.epochs.dirty = False
        folder = self.dir if self._folder_dirty else None
        self._folder_dirty = False
        self._flushing = True
        return FlushJob(self.end_offset, files, indexes, folder, epochs, self._generation, self._messages)

    def end_flush(self, job: FlushJob) -> None:
        """Take note that a job has run: what it flushed is safe, and of a classic log exposed."""
        self._flushing = False
        if self.failed is not None:
            return
        if job.error is not None:
            self._fail(job.error, "flushing")
            return
        self._last_flush = self.clock()
        if job.generation != self._generation:
            return  # the log was cut in the meantime
        self.recovery_point = max(self.recovery_point, job.offset)
        self._messages_flushed = job.messages
        if self._classic:
            self.exposed_offset = max(self.exposed_offset, job.offset)
        for segment in reversed(self.segments[:-1]):
            if segment.flushed:
                break
            segment.flushed = segment.next_offset <= job.offset

    def flush(self) -> None:
        """Flush on this thread."""
        job = self.begin_flush()
        job.run()
        self.end_flush(job)
        self._check()

    # -- housekeeping

    def clean(self, now: float, upto: int | None = None) -> list[int]:
        """Delete the segments whose time is over (P11), none above `upto`; returns their base offsets."""
        self._check()
        config, now_ms = self._config, int(now * 1000)
        upto = self.exposed_offset if upto is None else upto
        rules = [retention.below_start(self.start_offset)]
        if config.deletes:
            rules.append(retention.too_old(now_ms, config.retention_ms))
            rules.append(retention.too_much(self.size, config.retention_bytes))
        deleted: list[int] = []
        try:
            for rule in rules:
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
        self.producers.expire(now_ms - config.producer_id_expiration_ms)
        return deleted

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
            segment.unlink()
            segment.release()
            self._snapshots.discard(segment.base)
        self._folder_dirty = True
        return [segment.base for segment in dropped]

    def truncate_to(self, offset: int) -> None:
        """Cut off the batches that hold this offset or a later one: a follower's log has left its leader's."""
        self._check()
        self._nothing_staged()
        if offset >= self.end_offset:
            return
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
                segment.rebuild()
                for _, header in segment.batches(0):
                    segment.first_timestamp = header[8]
                    break
            segment.next_offset = offset
            self._after_truncation(segment)
        except OSError as error:
            raise self._fail(error, "truncating") from error

    def truncate_fully_at(self, offset: int) -> None:
        """Drop everything and go on at this offset."""
        self._check()
        self._nothing_staged()
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

    def _drop_last(self) -> None:
        segment = self.segments.pop()
        self._bases.pop()
        if segment in self._open:
            self._open.remove(segment)
        segment.unlink()
        segment.release()
        self._snapshots.discard(segment.base)
        self._folder_dirty = True

    def _after_truncation(self, segment: Segment) -> None:
        if segment in self._open:
            self._open.remove(segment)
        segment.flushed = False
        end = segment.next_offset
        self._generation += 1
        self.end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self.exposed_offset = min(self.exposed_offset, end) if self._classic else end
        self.start_offset = min(self.start_offset, end)
        self._activate(segment)
        self.epochs.cut_end(end)
        self._epoch = self.epochs.latest
        for at in [at for at in self._snapshots if at > end]:
            forget_snapshot(self.dir, self._snapshots, at)
        self.producers = producers_at(self.dir, self.segments, self._snapshots, end, self._classic)
        segment.open()

    def _nothing_staged(self) -> None:
        if self._next != self.end_offset:
            raise ValueError(f"{self.name}: commit what is staged before truncating")

    def _snapshot(self, offset: int, *, durable: bool) -> None:
        """Write down what is known of producers, and forget the snapshots that no segment begins at."""
        replace(segment_path(self.dir, offset, ".snapshot"), self.producers.dump(), durable=durable)
        self._snapshots.add(offset)
        for at in self._snapshots.difference(self._bases, (offset,)):
            forget_snapshot(self.dir, self._snapshots, at)

    def close(self) -> None:
        """Write everything down so that the next start need not scan; a failed log is only let go of."""
        if self.failed is None:
            self.commit()
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
        self._let_go("is deleted")
        aside = self.dir.with_name(f"{self.name}.{uuid.uuid4().hex}-delete")
        with contextlib.suppress(FileNotFoundError):
            self.dir.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    def _let_go(self, why: str) -> None:
        if self.failed is None:
            self.failed = StorageError(errno.EBADF, f"{self.name} {why}")
        self._limit = -1
        self._tail = bytearray()
        for segment in self.segments:
            segment.release()

    # -- failing

    def _check(self) -> None:
        if self.failed is not None:
            raise self._offline()

    def _offline(self) -> StorageError:
        assert self.failed is not None
        return StorageError(*self.failed.args)

    def _fail(self, error: OSError, doing: str) -> StorageError:
        """Go offline: cut the file back to what was committed; nothing staged was ever seen."""
        what = f"{doing} {self.dir}: {error.strerror or error}"
        if error.errno in _OUT_OF_HANDLES and doing == "reading from":
            return StorageError(error.errno, f"{what}; raise the limit of open files (ulimit -n)")
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
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


def _length_at(view: memoryview, position: int) -> int:
    if len(view) - position < LOG_OVERHEAD:
        return 0
    length: int = struct.unpack_from(">i", view, position + 8)[0]
    return length
