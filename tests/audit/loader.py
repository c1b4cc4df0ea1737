"""A `kafka-classic load` as a process of its own, to be killed; and the warehouse, read without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from kafka_classic.testing.waiting import until

# A machine that does several other things at a time starts Spark in minutes.
PATIENCE_S = 400.0
FRUGAL = "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Loader:
    """One life of a loader, with all its processes: Python, the JVM, and Spark's Python workers."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, log: Path, *arguments: str) -> None:
        self.folder = folder
        self.log = log
        script = str(Path(sys.executable).with_name("kafka-classic"))
        command = [script, "load", topic, "--to", str(folder), "--bootstrap", bootstrap, "--conf", FRUGAL, *arguments]
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition; fails when the loader ends before it, or after a long while."""

        def holds_yet() -> bool:
            found = holds()
            assert found or self.process.poll() is None, f"the loader ended before {what}:\n{self._said()}"
            return found

        until(holds_yet, what, PATIENCE_S, sight=self._said, pause=0.002)

    def _said(self) -> str:
        return self.log.read_text()[-3000:]

    def workers(self) -> list[int]:
        """Spark's Python workers that run tasks, and the process that forks them."""
        found = [pid for pid in self._descendants() if b"pyspark.worker" in _command_line(pid)]
        return sorted(found, reverse=True)

    def kill_workers(self) -> None:
        for pid in self.workers():
            _kill(pid)

    def kill(self) -> None:
        """All of it, at once."""
        for pid in [*self._descendants(), self.process.pid]:
            _kill(pid)
        self.process.wait()

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)

    def _descendants(self) -> list[int]:
        found: list[int] = []
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                threads = list(Path(f"/proc/{pid}/task").iterdir())
                children = [int(one) for at in threads for one in (at / "children").read_text().split()]
            except OSError:
                continue
            found += children
            todo += children
        return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def numbered(folder: Path) -> set[int]:
    """The batches that a log of Spark's (a folder of files named by batch) holds."""
    if not folder.is_dir():
        return set()
    return {int(path.name.removesuffix(".compact")) for path in folder.iterdir() if path.name[0].isdigit()}


def committed_files(folder: Path) -> Iterator[Path]:
    """The files that the sink's commit log names."""
    named: set[str] = set()
    for log in (folder / "_spark_metadata").iterdir():
        if log.name[0].isdigit():
            named |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
    return (Path(unquote(urlparse(name).path)) for name in sorted(named))


def loaded(folder: Path) -> Counter[tuple[int, int, bytes]]:
    """How often each record is in the warehouse, as partition, offset and value."""
    found: Counter[tuple[int, int, bytes]] = Counter()
    for path in committed_files(folder):
        table = pq.ParquetFile(path).read(["partition", "offset", "value"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found
