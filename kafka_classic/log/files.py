"""Files as the log uses them: an open one that outlives its name, a slice of it, and atomic replacement."""

import os
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

from kafka_classic.records.batch import Buffer


class OpenFile:
    """A file descriptor that is closed when the last one who holds it lets go.

    A segment may be deleted while a consumer is being served from it: unlink takes the name, and the bytes stay for
    as long as a FileSlice holds this object.
    """

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class FileSlice:
    """Whole batches that lie in one file: what sendfile needs (P10), and the offset to ask for next."""

    __slots__ = ("file", "length", "next_offset", "position")

    def __init__(self, file: OpenFile, position: int, length: int, next_offset: int) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.next_offset = next_offset

    def bytes(self) -> bytes:
        """The batches themselves, for those who do not send them on."""
        return read_exactly(self.file.fd, self.position, self.length)

    def __repr__(self) -> str:
        return f"FileSlice(position={self.position}, length={self.length}, next_offset={self.next_offset})"


def read_exactly(fd: int, position: int, length: int) -> bytes:
    """Read `length` bytes at `position`; fewer only where the file ends."""
    data = os.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    pieces = [data]
    have = len(data)
    while have < length and (data := os.pread(fd, length - have, position + have)):
        pieces.append(data)
        have += len(data)
    return b"".join(pieces)


def write_all(fd: int, pieces: Sequence[Buffer], position: int) -> None:
    """Write the pieces one after the other from `position` on; the kernel may take them in parts."""
    left = [memoryview(piece) for piece in pieces if piece]
    while left:
        written = os.pwritev(fd, left, position)
        position += written
        while left and written >= len(left[0]):
            written -= len(left[0])
            left.pop(0)
        if left and written:
            left[0] = left[0][written:]


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Give the file new content so that a crash leaves the old or the new one, never a mixture."""
    fresh = path.with_name(f"{path.name}.{threading.get_ident()}.tmp")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(fd, [data], 0)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(path)
    if durable:
        sync_path(path.parent)


def aside(path: Path, why: str) -> Path:
    """Another name for a folder that no log is found under, in a file system's 255 bytes however long its own is."""
    ending = f".{uuid.uuid4().hex}-{why}"
    return path.with_name(path.name[: 255 - len(ending)] + ending)


def sync_path(path: Path) -> None:
    """Make a file's bytes, or a directory's names, survive the loss of power."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
