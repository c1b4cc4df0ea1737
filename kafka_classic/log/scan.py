"""Walking the batches of a segment file in big reads with bounded memory, with or without their CRCs.

Measured: recovery of one core, see bench/log.py. A batch that is larger than the buffer is checked piece by piece, so
that a length of 2 GB in a damaged header costs no memory.
"""

import os
from collections.abc import Iterator

from crc32c import crc32c

from kafka_classic.records.batch import CRC_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC

from .files import OpenFile

CHUNK = 1 << 20
HOP = 4096
SMALLEST = HEADER_SIZE - LOG_OVERHEAD

Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class Scan:
    """The sound batches of a file from `position` to `end`, as (position, header).

    The walk ends at the end of the file or at the first batch that is not sound; `position` is then where the sound
    part ends, and `problem` says what is wrong there (P22).
    """

    __slots__ = ("_crc", "_file", "_lowest", "chunk", "end", "next_offset", "position", "problem")

    def __init__(
        self, file: OpenFile, position: int, end: int, lowest: int = 0, *, crc: bool = False, chunk: int = CHUNK
    ) -> None:
        self._file = file  # held, so that it stays open however long the walk takes
        self._lowest = lowest
        self._crc = crc
        self.position = position
        self.end = end
        self.next_offset = lowest
        self.chunk = chunk
        self.problem: str | None = None

    def __iter__(self) -> Iterator[tuple[int, Header]]:
        fd, end, check = self._file.fd, self.end, self._crc
        unpack = HEADER.unpack_from
        position, next_offset = self.position, self._lowest
        buffer = bytearray(min(self.chunk, max(end - position, HEADER_SIZE)))
        view = memoryview(buffer)
        start = filled = size = 0  # the buffer holds the file from `start` for `filled` bytes
        while position < end:
            at = position - start
            if at < 0 or at + HEADER_SIZE > filled:
                start, at = position, 0
                # of large batches only the heads are needed, if their bodies are not checked
                filled = _fill(fd, view if check or size < HOP else view[:HOP], start, end)
                if filled < HEADER_SIZE:
                    self.problem = f"{end - position} bytes are too few for a batch header"
                    return
            header: Header = unpack(buffer, at)
            base, length = header[0], header[1]
            size = length + LOG_OVERHEAD
            if header[3] != MAGIC or length < SMALLEST or header[6] < 0:
                self.problem = f"no batch header (magic {header[3]}, length {length})"
                return
            if size > end - position:
                self.problem = f"a batch of {size} bytes where only {end - position} are left"
                return
            if base < next_offset:
                self.problem = f"offset {base} where at least {next_offset} is due"
                return
            if check:
                if at + size > filled and size <= len(buffer):
                    start, at = position, 0
                    filled = _fill(fd, view, start, end)
                if at + size <= filled:
                    crc = crc32c(view[at + CRC_FROM : at + size])
                else:
                    crc = _crc_in_pieces(fd, view, position + CRC_FROM, position + size)
                    start = filled = 0  # the buffer was used up for the pieces
                if crc != header[4]:
                    self.problem = f"crc {header[4]:#010x} in the batch at offset {base}, computed {crc:#010x}"
                    return
            self.position = position + size
            self.next_offset = base + header[6] + 1
            yield position, header
            position, next_offset = self.position, self.next_offset


def _fill(fd: int, view: memoryview, start: int, end: int) -> int:
    """Read from the file as much as the buffer takes; less only where the file ends."""
    want, have = min(len(view), end - start), 0
    while have < want:
        got = os.preadv(fd, [view[have:want]], start + have)
        if not got:
            break
        have += got
    return have


def _crc_in_pieces(fd: int, view: memoryview, start: int, end: int) -> int:
    crc = 0
    while start < end:
        got = _fill(fd, view, start, end)
        if not got:
            return -1
        crc = crc32c(view[:got], crc)
        start += got
    return crc
