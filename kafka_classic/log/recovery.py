"""Opening a log that is on disk: tidy up what a crash left, cut a torn tail, rebuild what is derived (P22).

After a clean shutdown nothing is scanned but the few batches behind the last index entry. After a crash every batch
from the recovery point's segment on is read and its CRC computed. The log ends at the first batch that is not sound;
segments behind that are removed, for an offset must not be missing in the middle.
"""

import contextlib
import errno
import logging
import os
import re
from pathlib import Path
from typing import NamedTuple

from .checkpoint import CorruptCheckpoint
from .classic import BatchStarts
from .config import LogConfig
from .epochs import LeaderEpochs
from .errors import StorageError
from .index import GrowingOffsetIndex, GrowingTimeIndex, OffsetIndex
from .producers import ProducerState
from .scan import HOP, Header, Scan
from .segment import FARTHEST, IndexBuilder, Segment, segment_path
from .swap import finish_swaps

log = logging.getLogger(__name__)

UNKNOWN = -1  # where the last segment ends is not known before it is read
SCAN_CHUNK = 4 << 20
LEFTOVERS = (".deleted", ".cleaned", ".swap", ".tmp")
_NAME = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot)")


class Loaded(NamedTuple):
    """What stands on disk: never without a segment, the last of which is ready to be appended to."""

    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: set[int]
    recovered: bool


def load(folder: Path, config: LogConfig, *, recovery_point: int, log_start: int, clean: bool, now_ms: int) -> Loaded:
    """Read a log's folder, which may be empty."""
    bases, snapshots = _tidy(folder)
    segments = [
        Segment(
            folder,
            base,
            size=segment_path(folder, base).stat().st_size,
            next_offset=after,
            interval=config.index_interval_bytes,
            classic=config.classic,
        )
        for base, after in zip(bases, [*bases[1:], UNKNOWN], strict=False)
    ]
    if not segments:
        fresh = Segment.create(
            folder, log_start, interval=config.index_interval_bytes, classic=config.classic, now_ms=now_ms
        )
        return Loaded([fresh], ProducerState(config.classic), LeaderEpochs(), snapshots, recovered=False)
    if config.classic:
        _refuse_ordinary(segments)
    for segment in segments:
        segment.flushed = True
        segment.created = now_ms
    epochs = _epochs(folder, segments)
    recovered = not (clean and _resume(segments[-1]))
    if recovered:
        first = len(bases) - 1 if clean else _scan_from(bases, recovery_point)
        producers = producers_at(folder, segments, snapshots, bases[first], config.classic)
        _recover(segments, first, producers, epochs)
    else:
        producers = producers_at(folder, segments, snapshots, segments[-1].next_offset, config.classic)
    end = segments[-1].next_offset
    epochs.cut_end(end)
    for offset in [offset for offset in snapshots if offset > end]:
        forget_snapshot(folder, snapshots, offset)
    return Loaded(segments, producers, epochs, snapshots, recovered)


def _tidy(folder: Path) -> tuple[list[int], set[int]]:
    """Remove what a crash left half done; leave alone what is not ours. Returns segments' bases and snapshots."""
    finish_swaps(folder)
    found: dict[str, set[int]] = {"log": set(), "index": set(), "timeindex": set(), "snapshot": set()}
    for path in sorted(folder.iterdir()):
        name = path.name
        if name.endswith(LEFTOVERS):
            path.unlink()
        elif match := _NAME.fullmatch(name):
            found[match[2]].add(int(match[1]))
    for suffix in ("index", "timeindex"):
        for base in found[suffix] - found["log"]:
            segment_path(folder, base, "." + suffix).unlink()
    return sorted(found["log"]), found["snapshot"]


def _refuse_ordinary(segments: list[Segment]) -> None:
    """A log of counted offsets must not be opened as a classic one: recovery would cut it at its first batch."""
    for segment in segments:
        first = next(iter(Scan(segment.open(), 0, segment.size, segment.base, crc=True, chunk=HOP)), None)
        segment.release()
        if first is not None:
            if not _classic_place(segment, *first):
                raise StorageError(
                    errno.EINVAL, f"{segment.folder} was not written as a classic log: its topic cannot become one"
                )
            return


def _scan_from(bases: list[int], recovery_point: int) -> int:
    """The number of the segment that holds the recovery point."""
    return max((i for i, base in enumerate(bases) if base <= recovery_point), default=0)


def _resume(segment: Segment) -> bool:
    """Make the last segment of a clean log ready for appends; False if it must be recovered after all."""
    index: GrowingOffsetIndex = BatchStarts()
    times = GrowingTimeIndex.empty()
    if not segment.classic:
        try:
            index = GrowingOffsetIndex.read(segment.path_of(".index"))
            times = GrowingTimeIndex.read(segment.path_of(".timeindex"))
            segment.check_indexes(index, times)
        except (FileNotFoundError, ValueError) as reason:
            log.warning("recovering %s, for its index is of no use: %s", segment.path, reason)
            return False
    at, lowest = (index.positions[-1], segment.base + index.offsets[-1]) if len(index) else (0, segment.base)
    max_timestamp, offset = times.last or (-1, 0)
    max_timestamp_offset = segment.base + offset
    scan = Scan(segment.open(), at, segment.size, lowest)
    for position, header in scan:
        if segment.classic:
            if not _classic_place(segment, position, header):
                return False
            cast_starts(index).learn(position, segment.interval)
        if header[8] > max_timestamp:
            max_timestamp, max_timestamp_offset = header[8], header[0]
    if scan.problem:
        return False
    for _, header in segment.batches(0):
        segment.first_timestamp = header[8]
        break
    segment.next_offset = scan.next_offset
    segment.activate(index, times, max_timestamp, max_timestamp_offset)
    return True


def cast_starts(index: GrowingOffsetIndex) -> BatchStarts:
    """A classic segment's index is a list of batch starts."""
    assert isinstance(index, BatchStarts)
    return index


def _recover(segments: list[Segment], first: int, producers: ProducerState, epochs: LeaderEpochs) -> None:
    """Check every batch from segment `first` on, and end the log where one is not sound."""
    for number in range(first, len(segments)):
        segment = segments[number]
        sound = recover_segment(segment, producers, epochs)
        later = segments[number + 1 :]
        if not later:
            return
        # Where offsets leap so far that no segment could hold both, there is no batch in between.
        far = later[:1] and later[0].base - segment.base > FARTHEST + 1
        if sound and (later[0].base == segment.next_offset or far):
            segment.next_offset = later[0].base
            segment.write_indexes()
            segment.release()
            continue
        log.warning("%s ends at offset %d: removing %d later segments", segment.path, segment.next_offset, len(later))
        for dropped in reversed(later):
            dropped.unlink()
        del segments[number + 1 :]
        return


def recover_segment(segment: Segment, producers: ProducerState, epochs: LeaderEpochs) -> bool:
    """Read a whole segment, cut it at the first batch that is not sound, and index it; True if none was cut."""
    index: GrowingOffsetIndex = BatchStarts() if segment.classic else OffsetIndex.empty()
    builder = IndexBuilder(segment.base, segment.interval, index)
    scan = Scan(segment.open(), 0, segment.size, segment.base, crc=True, chunk=SCAN_CHUNK)
    end, problem, next_offset, epoch = 0, None, segment.base, -1
    for position, header in scan:
        if segment.classic and not _classic_place(segment, position, header):
            problem = f"a batch of offset {header[0]} is not where a classic log has it"
            break
        if scan.next_offset - 1 - segment.base > FARTHEST:
            problem = f"offset {header[0]} is too far from the segment's first"
            break
        builder.add(position, header)
        if header[2] != epoch:
            epoch = header[2]
            epochs.assign(epoch, header[0])
        if header[9] != -1:
            producers.add(header, header[0])
        end, next_offset = scan.position, scan.next_offset
    problem = problem or scan.problem
    if problem:
        log.warning("%s: cutting %d bytes at %d: %s", segment.path, segment.size - end, end, problem)
        os.ftruncate(segment.open().fd, end)
    segment.size = end
    segment.next_offset = next_offset
    segment.first_timestamp = builder.first_timestamp
    segment.flushed = False
    times = GrowingTimeIndex.empty() if segment.classic else builder.times
    segment.activate(index, times, builder.max_timestamp, builder.max_timestamp_offset)
    return problem is None


def _classic_place(segment: Segment, position: int, header: Header) -> bool:
    """An offset of a classic log is a position, and the next batch's offset is this one's plus its length (P6)."""
    return header[0] == segment.base + position and header[6] == header[1] + 11


def _epochs(folder: Path, segments: list[Segment]) -> LeaderEpochs:
    try:
        return LeaderEpochs.read(folder)
    except (CorruptCheckpoint, ValueError) as reason:
        log.warning("reading the leader epochs off the batches: %s", reason)
    epochs = LeaderEpochs()
    for segment in segments:
        for _, header in segment.batches(0):
            epochs.assign(header[2], header[0])
        segment.release()
    return epochs


# -- producer state


def producers_at(
    folder: Path, segments: list[Segment], snapshots: set[int], offset: int, classic: bool
) -> ProducerState:
    """What was known of producers when the log ended at `offset`: the last good snapshot, and the batches since."""
    state, since = ProducerState(classic), segments[0].base
    for at in sorted((at for at in snapshots if at <= offset), reverse=True):
        try:
            state, since = ProducerState.load(segment_path(folder, at, ".snapshot").read_bytes(), classic), at
            break
        except (OSError, ValueError) as reason:
            log.warning("passing over the producer snapshot at %d: %s", at, reason)
    for segment in segments:
        if segment.base >= offset or (segment.next_offset >= 0 and segment.next_offset <= since):
            continue
        start = segment.locate(since)
        for _, header in segment.batches(start) if start is not None else ():
            if header[0] >= offset:
                break
            if header[9] != -1 and header[0] >= since:
                state.add(header, header[0])
        if segment is not segments[-1]:
            segment.release()
    return state


def forget_snapshot(folder: Path, snapshots: set[int], offset: int) -> None:
    """Remove a snapshot that is above the log's end or of no more use."""
    snapshots.discard(offset)
    with contextlib.suppress(FileNotFoundError):
        segment_path(folder, offset, ".snapshot").unlink()
