"""A disk whose power can be cut: every change to a file is counted, and at a chosen one the process dies.

What is left behind is one of three things: all that was written (`KILLED`: the page cache survives a kill -9), or only
what was fsynced, the rest of each file gone (`LOST`) or read as zeros (`ZEROED`), as file systems leave it after a loss
of power. Names and cuts are taken to survive in the order in which they were made, as in a journal.
"""

import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tests.log.batches import path_behind


class Left(Enum):
    KILLED = "killed"
    LOST = "lost"
    ZEROED = "zeroed"


class Killed(BaseException):
    """The process is no more: nothing may catch this."""


class Disk:
    """Counts the calls that change files, and dies at the one whose number is `dies_at`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.dies_at: int | None = None
        self._synced: dict[int, bytes] = {}  # by inode, what of a file has reached the disk
        self._real = {name: getattr(os, name) for name in ("open", "close", "pread", "fstat", "ftruncate")}
        for name in ("pwritev", "write", "replace", "rename", "unlink", "mkdir", "rmdir"):
            patch.setattr(os, name, self._counted(getattr(os, name)))
        patch.setattr(os, "open", self._open)
        patch.setattr(os, "ftruncate", self._truncate)
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)
        patch.setattr(Path, "write_bytes", _write_bytes)

    def _count(self) -> None:
        if self.dies_at is not None:
            self.calls += 1
            if self.calls >= self.dies_at:
                raise Killed

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self._count()
            return real(*args, **named)

        return call

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            self._count()
        fd: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT and not self._real["fstat"](fd).st_size:
            self._synced.pop(self._real["fstat"](fd).st_ino, None)  # a new file may have a deleted one's number
        return fd

    def _truncate(self, fd: int, size: int) -> None:
        self._count()
        self._real["ftruncate"](fd, size)
        number = self._real["fstat"](fd).st_ino
        self._synced[number] = self._synced.get(number, b"")[:size]

    def _sync(self, fd: int) -> None:
        self._count()
        if not Path(path_behind(fd)).is_dir():
            stat = self._real["fstat"](fd)
            reader = self._real["open"](f"/proc/self/fd/{fd}", os.O_RDONLY)
            self._synced[stat.st_ino] = self._real["pread"](reader, stat.st_size, 0)
            self._real["close"](reader)

    def settle(self, folder: Path, left: Left) -> None:
        """Leave behind what survives."""
        self.dies_at = None
        self.calls = 0
        if left is Left.KILLED:
            return
        for path in folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                kept = self._synced.get(path.stat().st_ino, b"")[: len(content)]
                if left is Left.ZEROED:
                    kept += bytes(len(content) - len(kept))
                if kept != content:
                    with path.open("r+b") as file:
                        file.write(kept)
                        file.truncate(len(kept))
                self._synced[path.stat().st_ino] = kept


def _write_bytes(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if data:
        os.write(fd, data)
    os.close(fd)
