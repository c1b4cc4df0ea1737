"""The broker's data directory: one broker's, locked, with a folder for each partition and checkpoints for all.

.lock                              held while a broker runs
meta.properties                    whose directory it is: broker.id, cluster.id
.kafka_cleanshutdown               there only between a clean stop and the next start
recovery-point-offset-checkpoint   below it everything is on the disk
log-start-offset-checkpoint        below it everything is deleted
cleaner-offset-checkpoint          below it everything is compacted; names all logs that are compacted
TOPIC-PARTITION/                   a log, with partition.metadata naming the topic's id
TOPIC-PARTITION.ID-delete/         being removed; ID-stray/ set aside, for a person to look at
"""

import fcntl
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from .checkpoint import CLEANED, CorruptCheckpoint, read_checkpoint, write_checkpoint
from .config import LogConfig
from .errors import StorageError
from .files import aside, replace, sync_path
from .log import Log
from .metadata import check_owner, read_topic_id, write_topic_id

log = logging.getLogger(__name__)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEAN_MARKER = ".kafka_cleanshutdown"
LOCK = ".lock"

Offsets = dict[tuple[str, int], int]

_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class DirectoryInUse(StorageError):
    """Another broker runs on this directory."""


class LogDir:
    """All logs of one broker. `load()` says what is there; `open()` opens a partition's log or makes it."""

    def __init__(self, path: Path, broker_id: int, cluster_id: str, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.logs: dict[tuple[str, int], Log] = {}
        self.found: dict[tuple[str, int], UUID | None] = {}
        self.clean = False
        self._loaded = self._unsound = False
        self._clock = clock
        self._points: Offsets = {}
        self._starts: Offsets = {}
        self._cleaned: Offsets = {}
        self._stale: set[tuple[str, int]] = set()  # partitions that are gone, but perhaps not from the checkpoints
        self._doomed: list[Path] = []  # folders of deleted partitions, to be removed
        self._writing = threading.Lock()
        self._jobs = self._jobs_done = 0
        self._on_disk: tuple[Offsets, Offsets, Offsets] | None = None
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path)
        try:
            check_owner(path, broker_id, cluster_id)
        except BaseException:
            self._unlock()
            raise

    def load(self) -> int:
        """Find the partitions on disk, finish deletions that a crash cut short; returns how many there are."""
        self.clean = (self.path / CLEAN_MARKER).exists()
        self._points = self._read(RECOVERY_POINTS)
        self._starts = self._read(START_OFFSETS)
        self._cleaned = self._read_cleaned()
        self.found = {}
        for folder in sorted(self.path.iterdir()):
            if not folder.is_dir():
                if folder.name.endswith(".tmp"):
                    folder.unlink()  # a checkpoint that a crash cut short
                continue
            if folder.name.endswith("-delete"):
                shutil.rmtree(folder, ignore_errors=True)
            elif match := _FOLDER.fullmatch(folder.name):
                self.found[match[1], int(match[2])] = read_topic_id(folder)
        for key in (self._points.keys() | self._starts.keys() | self._cleaned.keys()) - self.found.keys():
            self._forget(*key)
        # From here on a crash is a crash, whatever is opened first, and a loss of power must not bring the marker back.
        (self.path / CLEAN_MARKER).unlink(missing_ok=True)
        sync_path(self.path)
        self._loaded = True
        return len(self.found)

    def open(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Log:
        """Open a partition's log, or make it; a folder of an older topic of that name is set aside as a stray."""
        key = (topic, partition)
        if key in self.logs:
            return self.logs[key]
        folder = self.folder(topic, partition)
        if self.found.get(key, topic_id) not in (topic_id, None):
            self.set_aside(topic, partition)
        known = self.found.pop(key, None)
        fresh = not folder.exists()
        try:
            if key in self._stale:
                # The namesake's start would have the new log's records deleted after a crash.
                self._write_job()()
                self._stale.clear()
            folder.mkdir(exist_ok=True)
            if known is None:
                write_topic_id(folder, topic_id)
        except OSError as error:
            raise StorageError(
                error.errno,
                f"making {folder}: {error.strerror}; free space or repair the disk, then restart the broker",
            ) from error
        try:
            opened = self.logs[key] = Log.open(
                folder,
                config,
                recovery_point=0 if fresh else self._points.get(key, 0),
                log_start=0 if fresh else self._starts.get(key, 0),
                cleaned_to=0 if fresh else self._cleaned.get(key, 0),
                clean=self.clean and not fresh,
                clock=self._clock,
            )
        except BaseException:
            self._unsound = True
            raise
        return opened

    def folder(self, topic: str, partition: int) -> Path:
        """A partition's folder; ValueError for a name that is not a topic's, lest it lead out of the directory."""
        if not _TOPIC.fullmatch(topic) or topic in (".", "..") or partition < 0:
            raise ValueError(f"{topic!r} partition {partition} is no name of a topic's partition")
        return self.path / f"{topic}-{partition}"

    def drop(self, topic: str, partition: int) -> None:
        """Delete a partition's log; its files go with the next checkpoint job, which may wait for the disk."""
        self._forget(topic, partition)
        dropped = self.logs.pop((topic, partition), None)
        if dropped is not None:
            self._doomed.append(dropped.retire())

    def set_aside(self, topic: str, partition: int) -> Path:
        """Rename the folder of a partition that the cluster does not know, so that nothing is lost by mistake."""
        folder = self.folder(topic, partition)
        if (opened := self.logs.pop((topic, partition), None)) is not None:
            opened.close()
        self._forget(topic, partition)
        stray = folder.rename(aside(folder, "stray"))
        log.warning("%s belongs to no topic of this cluster and is set aside as %s", folder.name, stray.name)
        return stray

    def _forget(self, topic: str, partition: int) -> None:
        for table in (self._points, self._starts, self._cleaned, self.found):
            table.pop((topic, partition), None)
        self._stale.add((topic, partition))

    # -- checkpoints

    def checkpoint(self) -> None:
        """Write down how far each log is on the disk and where it starts; then remove what was deleted."""
        self.checkpoint_job()()

    def checkpoint_job(self) -> Callable[[], None]:
        """The same, left to whoever calls the result, on any thread: fsyncs and removals of large files take time."""
        write = self._write_job()
        doomed, self._doomed = self._doomed, []
        files = [file for opened in self.logs.values() for file in opened.take_dropped()]

        def work() -> None:
            try:
                write()
            finally:
                files.clear()
                for folder in doomed:
                    shutil.rmtree(folder, ignore_errors=True)

        return work

    def _write_job(self) -> Callable[[], None]:
        points, starts, cleaned = dict(self._points), dict(self._starts), dict(self._cleaned)
        for key, opened in self.logs.items():
            points[key] = opened.recovery_point
            starts[key] = opened.start_offset
            cleaned.pop(key, None)
            if opened.config.compacts or opened.cleaned_to:
                cleaned[key] = opened.cleaned_to
        starts = {key: start for key, start in starts.items() if start > 0}
        self._jobs += 1
        number = self._jobs

        def write() -> None:
            with self._writing:
                if number < self._jobs_done:
                    return  # a later one was quicker
                self._jobs_done = number
                if (points, starts, cleaned) == self._on_disk:
                    return  # nothing has changed
                was, self._on_disk = self._on_disk, None
                # Starts first: what was deleted must not come back, while a low recovery point only costs time.
                write_checkpoint(self.path / START_OFFSETS, starts)
                write_checkpoint(self.path / RECOVERY_POINTS, points)
                if was is None or was[2] != cleaned:
                    write_checkpoint(self.path / CLEANED, cleaned)
                self._on_disk = points, starts, cleaned

        return write

    def _read_cleaned(self) -> Offsets:
        try:
            return read_checkpoint(self.path / CLEANED)
        except (CorruptCheckpoint, ValueError) as reason:
            log.warning("%s; going on without it: logs are compacted from their start", reason)
            return {}

    def _read(self, name: str) -> Offsets:
        try:
            return read_checkpoint(self.path / name)
        except (CorruptCheckpoint, ValueError) as reason:
            log.warning("%s; going on without it: logs are recovered as a whole", reason)
            self.clean = False
            return {}

    # -- closing

    def close(self) -> None:
        """Close all logs; the marker of a clean stop is written last, and only if all is well."""
        if self._lock < 0:
            return
        if not self._loaded:
            self._unlock()  # what is on disk is not known, and must stay as it is
            return
        # What was not opened, or not to the end, was not recovered either: a marker would call it clean.
        well = (self.clean or not self.found) and not self._unsound
        for opened in self.logs.values():
            well &= opened.failed is None
            try:
                opened.close()
            except StorageError as error:
                log.error("%s was not closed cleanly and will be recovered: %s", opened.name, error)
                well = False
        try:
            self.checkpoint()
            if well:
                replace(self.path / CLEAN_MARKER, b'{"version":0,"brokerEpoch":-1}')
        except OSError as error:
            log.error("%s was not closed cleanly and will be recovered: %s", self.path, error)
        self._unlock()

    def _unlock(self) -> None:
        os.close(self._lock)
        self._lock = -1


def _lock(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise DirectoryInUse(
            error.errno, f"another broker runs on {path}: stop it, or give this one a log.dirs of its own"
        ) from None
    return fd
