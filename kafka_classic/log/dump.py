"""Looking at a segment file from outside: its batches and records with their positions, and what is wrong with it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_classic.records.batch import BatchHeader, CorruptBatch, InvalidRecord
from kafka_classic.records.decode import Record, decode_batch

from .checkpoint import CLEANED, read_checkpoint
from .files import OpenFile, read_exactly
from .index import Column, OffsetIndex, TimeIndex
from .scan import Header, Scan

INFLATED = 256 << 20
_NAME = re.compile(r"(\d{20})\.log")


class BatchAt(NamedTuple):
    """A batch and where in the file it begins."""

    position: int
    header: BatchHeader


class Finding(NamedTuple):
    """Something wrong in a file, at a position of it."""

    path: Path
    position: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path.name} at {self.position}: {self.problem}"


class SegmentFile:
    """A `.log` file opened for looking only; safe while a broker writes to it."""

    def __init__(self, path: Path) -> None:
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path} is no segment file: name one like 00000000000000000000.log")
        self.path = path
        self.base = int(match[1])
        self._file = OpenFile(path)
        self.size = path.stat().st_size

    def batches(self, *, crc: bool = False) -> Iterator[BatchAt]:
        """The batches up to the end or the first that is not sound."""
        for position, header in self.scan(crc=crc):
            yield BatchAt(position, BatchHeader._make(header))

    def scan(self, *, crc: bool = False) -> Scan:
        return Scan(self._file, 0, self.size, self.base, crc=crc)

    def records(self, batch: BatchAt) -> list[Record]:
        """The records of one batch; CorruptBatch or InvalidRecord if they cannot be read."""
        data = read_exactly(self._file.fd, batch.position, batch.header.size)
        return decode_batch(data, max_size=INFLATED)


def verify(path: Path, *, records: bool = False) -> list[Finding]:
    """All that is wrong with a segment and its indexes; with `records` each batch is decoded too."""
    segment = SegmentFile(path)
    indexes = _Indexes(segment)
    findings: list[Finding] = []
    scan = segment.scan(crc=True)
    due = segment.base
    gaps = is_compacted(path.parent)
    for position, header in scan:
        if header[0] != due and not gaps:
            findings.append(Finding(path, position, f"offset {header[0]} where {due} is due: a gap"))
        due = scan.next_offset
        indexes.see(position, header)
        if records:
            findings += _records(segment, BatchAt(position, BatchHeader._make(header)))
    if scan.problem:
        findings.append(Finding(path, scan.position, scan.problem))
    return findings + indexes.findings()


def is_compacted(folder: Path) -> bool:
    """Whether offsets may be missing in this log: the broker's checkpoint names all that are compacted."""
    topic, _, number = folder.name.rpartition("-")
    try:
        return number.isdigit() and (topic, int(number)) in read_checkpoint(folder.parent / CLEANED)
    except (OSError, ValueError):
        return False


def _records(segment: SegmentFile, batch: BatchAt) -> list[Finding]:
    try:
        segment.records(batch)
    except (CorruptBatch, InvalidRecord) as error:
        return [Finding(segment.path, batch.position, str(error))]
    return []


class _Indexes:
    """The entries of both index files, each struck out when the batch that it names comes by.

    A missing file is no fault: a classic log has none. Nor is one that ends early, of the last segment: an active
    segment's entries are in the broker's memory until it is closed.
    """

    def __init__(self, segment: SegmentFile) -> None:
        self._offsets: dict[int, int] = {}  # position -> offset
        self._times: dict[int, int] = {}  # offset -> timestamp
        self._found: list[Finding] = []
        self._largest = -1
        self._last = max(segment.path.parent.glob("*.log")) == segment.path
        self._index_path = segment.path.with_suffix(".index")
        self._times_path = segment.path.with_suffix(".timeindex")
        try:
            index = OffsetIndex.map(self._index_path)
            for row in range(len(index)):
                self._offsets[index.positions[row]] = segment.base + index.offsets[row]
            self._rising(self._index_path, index.offsets, 8)
        except FileNotFoundError:
            pass
        except ValueError as error:
            self._found.append(Finding(self._index_path, 0, str(error)))
        self._last_time: int | None = None
        try:
            times = TimeIndex.map(self._times_path)
            for row in range(len(times)):
                self._times[segment.base + times.offsets[row]] = times.timestamps[row]
            self._rising(self._times_path, times.timestamps, 12)
            self._last_time = times.timestamps[-1] if len(times) else -1
        except FileNotFoundError:
            pass
        except ValueError as error:
            self._found.append(Finding(self._times_path, 0, str(error)))

    def _rising(self, path: Path, column: Column, stride: int) -> None:
        for row in range(1, len(column)):
            if column[row] <= column[row - 1]:
                self._found.append(Finding(path, row * stride, f"{column[row]} does not come after {column[row - 1]}"))

    def see(self, position: int, header: Header) -> None:
        """A batch is there: what the indexes say of it must be true."""
        self._largest = max(self._largest, header[8])
        # Kafka's own entries name the last offset of a batch, ours the first.
        if self._offsets.get(position) in (header[0], header[0] + header[6]):
            del self._offsets[position]
        if (named := self._times.pop(header[0], header[8])) != header[8]:
            self._found.append(
                Finding(self._times_path, 0, f"timestamp {named} is not that of the batch at offset {header[0]}")
            )

    def findings(self) -> list[Finding]:
        for position, offset in self._offsets.items():
            self._found.append(Finding(self._index_path, 0, f"no batch of offset {offset} begins at {position}"))
        if self._last_time is not None and self._last_time < self._largest and not self._last:
            self._found.append(Finding(self._times_path, 0, f"the largest timestamp, {self._largest}, is missing"))
        return self._found
