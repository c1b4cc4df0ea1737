"""A log that can be compacted: what of it is to be, a pass over it, and each group of segments swapped in."""

from .cleanable import Dirt, first_uncleanable
from .compaction import BUFFER, MEMORY, Cancelled, Compaction, Damaged, Old
from .config import NEVER
from .flush import FlushableLog
from .pace import Pace
from .segment import Segment
from .state import LARGE
from .swap import swap_in
from .timestamps import Borrowed


class CompactableLog(FlushableLog):
    """A log of which only the last record of each key is kept in the end, below `cleaned_to`."""

    __slots__ = ()

    @property
    def first_dirty(self) -> int:
        """Below it no two records have one key; a checkpoint that the log no longer reaches counts for nothing."""
        cleaned = self.cleaned_to
        return cleaned if self.start_offset <= cleaned <= self.end_offset else self.start_offset

    def dirt(self, now: float, upto: int | None = None) -> Dirt | None:
        """How much there is to compact below `upto` and what is flushed; None of a log that is not compacted."""
        config = self._config
        if not config.compacts or self.failed is not None or self.compaction is not None:
            return None
        if self._rolled:
            return None  # what a closed segment holds is known once this turn is committed
        now_ms = int(now * 1000)
        upto = min(self.recovery_point, self.exposed_offset if upto is None else upto)
        closed = [segment for segment in self.segments if segment is not self._active]
        first = self.first_dirty
        lag = config.min_compaction_lag_ms
        end = first_uncleanable(closed, first, upto, now_ms - lag if lag else None)
        for segment in closed:
            if segment not in self._open:
                segment.release()
        clean = dirty = 0
        overdue = False
        for segment in closed:
            if segment.base >= end:
                break
            dirty_from = segment.size if segment.next_offset <= first else self._position_of(segment, first)
            clean += dirty_from
            dirty += segment.size - dirty_from
            if dirty_from < segment.size and config.max_compaction_lag_ms != NEVER and not overdue:
                overdue = now_ms - _first_timestamp(segment, dirty_from) > config.max_compaction_lag_ms
        return Dirt(first, end, clean, dirty, overdue)

    def begin_compaction(
        self, dirt: Dirt, now: float, *, memory: int = MEMORY, buffer: int = BUFFER, pace: Pace | None = None
    ) -> Compaction:
        """A pass over what is dirty; only one at a time."""
        self._check()
        if self.compaction is not None:
            raise ValueError(f"{self.name} is being compacted")
        olds = []
        for segment in self.segments:
            if segment.base >= dirt.first_uncleanable or segment is self._active:
                break
            dirty = segment.base < dirt.first_dirty < segment.next_offset
            olds.append(Old(segment, self._position_of(segment, dirt.first_dirty) if dirty else 0))
        last_batches = {
            number: producer.batches[-1].base_offset
            for number, producer in self.producers.producers.items()
            if producer.batches
        }
        self.compaction = Compaction(
            self.dir, self._config, dirt, olds, last_batches, int(now * 1000), memory=memory, buffer=buffer, pace=pace
        )
        return self.compaction

    def swap(self, compaction: Compaction, group: list[Old]) -> None:
        """Let a group's compacted segment take its place; Cancelled if the log is not what it was.

        In one go, so that nobody sees it half done; whoever reads from an old file keeps that.
        """
        self._check()
        if compaction is not self.compaction or compaction.cancelled:
            raise Cancelled
        segments = [old.segment for old in group]
        first = next((number for number, segment in enumerate(self.segments) if segment is segments[0]), None)
        if first is None or self.segments[first : first + len(segments)] != segments:
            raise Cancelled
        try:
            # Their blocks are given back by whoever has time to wait for that.
            held = [segment.open() for segment in segments if segment.size >= LARGE]
            swap_in(self.dir, segments[0].base, [segment.base for segment in segments[1:]])
            size = segments[0].path.stat().st_size
        except OSError as error:
            raise self._fail(error, "compacting") from error
        self._dropped += held
        fresh = Segment(
            self.dir,
            segments[0].base,
            size=size,
            next_offset=segments[-1].next_offset,
            interval=self._config.index_interval_bytes,
            classic=False,
        )
        fresh.flushed = True
        fresh.created = segments[0].created
        self.segments[first : first + len(segments)] = [fresh]
        self._bases[first : first + len(segments)] = [fresh.base]
        for segment in segments:
            if segment in self._open:
                self._open.remove(segment)
            segment.release()
            if segment is not segments[0]:
                self._snapshots.discard(segment.base)
        self._folder_dirty = True
        self._closed_at = -1
        compaction.swapped += 1

    def end_compaction(self, compaction: Compaction, *, done: bool) -> None:
        """The pass is over; if it was `done`, the log is clean up to where its table reached."""
        if self.compaction is compaction:
            self.compaction = None
            if done and not compaction.cancelled and self.failed is None:
                self.cleaned_to = max(compaction.upto, self.first_dirty)

    def compact(self, now: float, upto: int | None = None, *, memory: int = MEMORY) -> Compaction | None:
        """A whole pass on this thread, if it is worth it by the topic's settings."""
        dirt = self.dirt(now, upto)
        if dirt is None or not dirt.worth_it(self._config.min_cleanable_dirty_ratio):
            return None
        compaction = self.begin_compaction(dirt, now, memory=memory)
        done = False
        try:
            compaction.read_keys()
            for group in compaction.groups():
                if compaction.rewrite(group):
                    self.swap(compaction, group)
            done = True
        except (Damaged, Cancelled) as error:
            compaction.error = error
        finally:
            self.end_compaction(compaction, done=done)
            compaction.discard()
        return compaction

    def _forget_cleaned(self, offset: int) -> None:
        """The log was cut here: what comes next is dirty, and a pass that reads what is gone must not go on."""
        self.cleaned_to = min(self.cleaned_to, offset)
        if self.compaction is not None and offset <= self.compaction.dirt.first_uncleanable:
            self.compaction.cancel()

    def _position_of(self, segment: Segment, offset: int) -> int:
        if offset <= segment.base:
            return 0
        with Borrowed(segment):
            position = segment.locate(offset)
        return segment.size if position is None else position


def _first_timestamp(segment: Segment, position: int) -> int:
    with Borrowed(segment):
        for _, header in segment.batches(position):
            return header[8]
    return segment.largest_timestamp
