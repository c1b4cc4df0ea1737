"""Lets fsync be quick: a process that is killed loses nothing of the page cache, and no test here cuts the power."""

import os

import pytest


@pytest.fixture(autouse=True)
def quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of logs are recovered a test, each of which would wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: os.fstat(fd) and None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: os.fstat(fd) and None)
