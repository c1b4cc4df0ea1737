"""Appending: a batch gets its offset and joins the tail, and one write commits all that is staged.

Hot: one staged batch of one message costs about 0.6 µs (bench/log.py), because everything rare - an index entry, a
roll, a new leader epoch - hides behind a few compares of integers. What an index must hold is said plainly in
IndexBuilder, which recovery uses; the tests compare both.
"""

import random
import struct
from collections.abc import Sequence

from kafka_classic.records.batch import CRC_FROM, LOG_OVERHEAD, Buffer, CorruptBatch, check_batch, crc_of

from .errors import OffsetsOutOfOrder
from .files import write_all
from .index import GrowingOffsetIndex, GrowingTimeIndex
from .scan import Header
from .segment import FARTHEST, Segment
from .state import BIG, LogState

MARKS = 64
LONGEST_TAIL = 1 << 20
_place = struct.Struct(">qii").pack_into  # base offset, batch length, leader epoch: the first fields of a batch
_put_int = struct.Struct(">i").pack_into
_put_crc = struct.Struct(">I").pack_into
_DELTA_AT = 23


class AppendableLog(LogState):
    """A log that can be appended to."""

    __slots__ = ()

    def stage(self, view: memoryview | bytearray, header: Header, leader_epoch: int) -> int:
        """Give one checked batch its offset, in place, and queue it for `commit`; returns the offset.

        Raises DuplicateSequence, OutOfOrderSequence or InvalidProducerEpoch before anything is changed.
        """
        length = header[1]
        end = self._position + length + 12
        base = self._next
        after = base + header[6] + 1
        timestamp = header[8]
        # Everything that is rare is behind these compares: an index entry, a roll, a new epoch, a classic or a failed
        # log (both have a limit of -1).
        if (
            end > self._limit
            or timestamp > self._timestamp_limit
            or leader_epoch != self._epoch
            or after > self._offset_limit
        ):
            return self._stage_with_care(view, header, leader_epoch)
        if header[9] != -1:
            self.producers.accept(header, base)
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
        try:
            for batch, header in checked:
                base = self.stage(batch, header, leader_epoch)
                first = base if first < 0 else first
        finally:
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
            self._position = size
            self._limits()
        elif position + size - self._last_entry > self._index_interval:
            index, times = segment.index, segment.times
            assert isinstance(index, GrowingOffsetIndex)
            assert isinstance(times, GrowingTimeIndex)
            index.add(base - segment.base, position)
            if not self._classic:
                times.add(self._max_timestamp, self._max_timestamp_offset - segment.base)
            self._last_entry = position
            self._limits()
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
            if len(self._tail) > LONGEST_TAIL:
                tail, self._tail = self._tail, bytearray()
                self._write((tail,))

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
            self._roll(self._next if position and last_offset - self._next <= FARTHEST else base)

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
        rolled, self._rolled = self._rolled, []
        for segment, size, next_offset in rolled:
            segment.size = size
            segment.next_offset = next_offset
            segment.flushed = False
            file = segment.file
            segment.release()
            segment.file = file
            self._opened(segment)

    def _activate(self, segment: Segment) -> None:
        """Append to this segment from now on."""
        segment.open()
        segment.flushed = False  # it was, if it was found on disk; from now on it is written to
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


def _length_at(view: memoryview, position: int) -> int:
    if len(view) - position < LOG_OVERHEAD:
        return 0
    length: int = struct.unpack_from(">i", view, position + 8)[0]
    return length
