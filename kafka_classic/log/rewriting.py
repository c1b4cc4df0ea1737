"""Writing a compacted segment: the batches that stay as they are, those that are changed, and their indexes.

Nothing is written before the first change: a segment that loses nothing is only read. Up to there the new file is a
copy of the old one's beginning.
"""

import os
from pathlib import Path

from kafka_classic.records.batch import HEADER, Buffer

from .files import OpenFile, write_all
from .index import OffsetIndex
from .scan import Header
from .segment import IndexBuilder, segment_path
from .swap import CLEANED, INDEXES

SYNC_EVERY = 32 << 20  # to sync a gigabyte at once would keep everybody else's fsync waiting


class CleanedSegment:
    """The `.cleaned` file of one group of segments, and what its indexes will hold."""

    __slots__ = ("_base", "_buffer", "_builder", "_file", "_folder", "_index", "_source", "_synced", "_tail", "size")

    def __init__(self, folder: Path, base: int, interval: int, buffer: int, source: OpenFile | None) -> None:
        self.size = 0
        self._folder = folder
        self._base = base
        self._buffer = buffer
        self._source = source  # whose first `size` bytes are the new file's too, as long as nothing is written
        self._file: OpenFile | None = None
        self._tail = bytearray()
        self._synced = 0
        self._index = OffsetIndex.empty()
        self._builder = IndexBuilder(base, interval, self._index)

    @property
    def changed(self) -> bool:
        """Whether it differs from the file it is made of."""
        return self._source is None

    def keep(self, batch: Buffer, header: Header) -> None:
        """A batch that stays as it is and lies, as long as nothing has changed, at the same place."""
        self._builder.add(self.size, header)
        if self._source is None:
            self._stage(batch)
        else:
            self.size += len(batch)

    def change(self) -> None:
        """From here on the new file differs."""
        if self._source is not None:
            source, self._source = self._source, None
            end, self.size = self.size, 0
            for start in range(0, end, self._buffer):
                self._stage(os.pread(source.fd, min(self._buffer, end - start), start))

    def add(self, batch: Buffer) -> None:
        """A batch as it was made anew."""
        self.change()
        self._builder.add(self.size, HEADER.unpack_from(batch))
        self._stage(batch)

    def _stage(self, piece: Buffer) -> None:
        self._tail += piece
        self.size += len(piece)
        if len(self._tail) >= self._buffer:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            path = segment_path(self._folder, self._base, ".log" + CLEANED)
            self._file = OpenFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        write_all(self._file.fd, [self._tail], self.size - len(self._tail))
        self._tail = bytearray()
        if self.size - self._synced >= SYNC_EVERY:
            os.fdatasync(self._file.fd)
            self._synced = self.size

    def finish(self) -> None:
        """Everything is on the disk, the indexes too."""
        self._write()
        assert self._file is not None
        os.fsync(self._file.fd)
        times = self._builder.times
        times.add(self._builder.max_timestamp, self._builder.max_timestamp_offset - self._base)
        for suffix, data in zip(INDEXES, (self._index.dump(), times.dump()), strict=True):
            path = segment_path(self._folder, self._base, suffix + CLEANED)
            file = OpenFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            write_all(file.fd, [data], 0)
            os.fsync(file.fd)
