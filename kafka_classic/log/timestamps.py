"""Finding a record by its timestamp: segments, then batches by their headers, then the records of the one batch."""

from collections.abc import Iterator, Sequence

from kafka_classic.records.batch import LOG_OVERHEAD, CorruptBatch, InvalidRecord
from kafka_classic.records.decode import decode_batch

from .files import read_exactly
from .scan import Header
from .segment import Segment

INFLATED = 256 << 20  # a batch that inflates to more is answered by its first offset


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start: int, end: int) -> tuple[int, int] | None:
    """The first record in start..end whose timestamp is at least this, as (offset, timestamp)."""
    for segment in segments:
        with Borrowed(segment):
            if segment.max_timestamp < timestamp:
                continue
            for at, header in segment.batches(_start(segment, timestamp)):
                if header[0] >= end:
                    return None
                if header[8] < timestamp or header[0] + header[6] < start:
                    continue
                for offset, found in _records(segment, at, header):
                    if found >= timestamp and start <= offset:
                        return (offset, found) if offset < end else None
    return None


def first_of_largest(segments: Sequence[Segment], start: int, end: int) -> tuple[int, int] | None:
    """The first record in start..end that has the largest timestamp, as (offset, timestamp)."""
    best: tuple[int, int] | None = None
    for segment in reversed(segments):  # the newest record is the likeliest; of equal ones the earlier is taken
        with Borrowed(segment):
            if segment.max_timestamp < 0 or (best and segment.max_timestamp < best[1]):
                continue
            found = _largest_in(segment, start, end)
            if found and (best is None or found[1] >= best[1]):
                best = found
    return best


def _largest_in(segment: Segment, start: int, end: int) -> tuple[int, int] | None:
    """The same of one segment; of its batches only those at the two ends and the one that matters are decoded."""
    whole = segment.base >= start and segment.next_offset <= end
    top: tuple[int, Header] | None = None
    seen: list[tuple[int, int]] = []
    for at, header in segment.batches(_start(segment, segment.max_timestamp) if whole else segment.locate(start) or 0):
        if header[0] >= end:
            break
        if header[0] < start or header[0] + header[6] >= end:
            seen += _records(segment, at, header)
        elif top is None or header[8] > top[1][8]:
            top = at, header
            if header[8] == segment.max_timestamp:
                break
    if top is not None:
        seen += _records(segment, *top)
    inside = [record for record in seen if start <= record[0] < end and record[1] >= 0]
    return max(inside, key=lambda record: (record[1], -record[0]), default=None)


class Borrowed:
    """Uses a segment and leaves its files as they were: open if they were, else let go of."""

    __slots__ = ("_let_go", "_segment")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._let_go = segment.file is None

    def __enter__(self) -> Segment:
        return self._segment

    def __exit__(self, *exc: object) -> None:
        if self._let_go:
            self._segment.release()


def _start(segment: Segment, timestamp: int) -> int:
    """A position before which every record is older; a classic log has no index of times and begins at its start."""
    return 0 if segment.classic else segment.locate(segment.base + segment.times.before(timestamp)) or 0


def _records(segment: Segment, position: int, header: Header) -> Iterator[tuple[int, int]]:
    """The offsets and timestamps of a batch; of one that cannot be read, its first offset and largest timestamp."""
    data = read_exactly(segment.open().fd, position, header[1] + LOG_OVERHEAD)
    try:
        records = decode_batch(data, max_size=INFLATED)
    except (CorruptBatch, InvalidRecord):
        yield header[0], header[8]
        return
    for record in records:
        yield record.offset, record.timestamp
