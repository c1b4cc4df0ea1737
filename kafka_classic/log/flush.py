"""One fsync of a log, cut off from it: begun on the log's thread, run on any, ended on the log's thread again."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from .config import NEVER
from .files import OpenFile, sync_path
from .read import ReadableLog


class FlushJob:
    """Makes everything below `offset` survive the loss of power.

    It holds the open files themselves, so that a roll, a retention or a deletion in the meantime does it no harm;
    files that are not open, of which recovery may leave thousands, it opens one by one.
    `run()` raises nothing: an error is kept in `error`, and takes the log offline in `Log.end_flush`. It is never
    retried, because after a failed fsync the kernel may have dropped the pages that it could not write.
    """

    __slots__ = ("_epochs", "_files", "_folder", "_paths", "error", "generation", "messages", "offset")

    def __init__(
        self,
        offset: int,
        files: Sequence[OpenFile],
        paths: Sequence[Path],
        folder: Path | None,
        epochs: Callable[[], None] | None,
        generation: int,
        messages: int,
    ) -> None:
        self.offset = offset
        self.generation = generation
        self.messages = messages
        self.error: OSError | None = None
        self._files = files
        self._paths = paths
        self._folder = folder
        self._epochs = epochs

    def run(self) -> None:
        """Do the fsyncs; on any thread."""
        try:
            for file in self._files:
                os.fdatasync(file.fd)
            for path in self._paths:
                try:
                    sync_path(path)
                except FileNotFoundError:
                    pass  # its segment was deleted in the meantime
            if self._epochs is not None:
                self._epochs()
            if self._folder is not None:
                sync_path(self._folder)
                sync_path(self._folder.parent)  # in which a new log's folder stands
        except OSError as error:
            self.error = error


class FlushableLog(ReadableLog):
    """A log that knows what of it is on the disk."""

    __slots__ = ()

    def needs_flush(self, now: float) -> bool:
        """Whether flush.messages or flush.ms is reached (P5), or a segment was rolled; `now` as the clock has it."""
        if self._flushing or self.recovery_point >= self.end_offset or self.failed is not None:
            return False
        config = self._config
        unflushed = self._messages - self._messages_flushed if self._classic else self.end_offset - self.recovery_point
        return (
            unflushed >= config.flush_messages
            or (config.flush_ms != NEVER and (now - self._last_flush) * 1000 >= config.flush_ms)
            or self._active.base > self.recovery_point
        )

    def begin_flush(self) -> FlushJob:
        """What must be fsynced for all that is committed to survive the loss of power; cheap."""
        self._check()
        files, paths = [], []
        for segment in reversed(self.segments):
            if segment.flushed:
                break
            if segment.file is not None:
                files.append(segment.file)
            else:
                paths.append(segment.path)
            if segment is not self._active and not self._classic:
                paths += [segment.path_of(".index"), segment.path_of(".timeindex")]
        epochs = self.epochs.save_job(self.dir)
        folder = self.dir if self._folder_dirty else None
        self._folder_dirty = False
        self._flushing = True
        return FlushJob(self.end_offset, files, paths, folder, epochs, self._generation, self._messages)

    def end_flush(self, job: FlushJob) -> None:
        """Take note that a job has run: what it flushed is safe, and of a classic log exposed."""
        self._flushing = False
        if self.failed is not None:
            return
        if job.error is not None:
            self._fail(job.error, "flushing")
            return
        self._last_flush = self.clock()
        if job.generation != self._generation:
            return  # the log was cut in the meantime
        self.recovery_point = max(self.recovery_point, job.offset)
        self._messages_flushed = job.messages
        if self._classic:
            self.exposed_offset = max(self.exposed_offset, job.offset)
        for segment in reversed(self.segments[:-1]):
            if segment.flushed:
                break
            segment.flushed = segment.next_offset <= job.offset

    def flush(self) -> None:
        """Flush on this thread."""
        job = self.begin_flush()
        job.run()
        self.end_flush(job)
        self._check()
