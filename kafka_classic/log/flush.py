"""One fsync of a log, cut off from it: begun on the log's thread, run on any, ended on the log's thread again."""

import os
from collections.abc import Sequence
from pathlib import Path

from .files import OpenFile, replace, sync_path


class FlushJob:
    """Makes everything below `offset` survive the loss of power.

    It holds the open files themselves, so that a roll, a retention or a deletion in the meantime does it no harm.
    `run()` raises nothing: an error is kept in `error`, and takes the log offline in `Log.end_flush`. It is never
    retried, because after a failed fsync the kernel may have dropped the pages that it could not write.
    """

    __slots__ = ("_epochs", "_files", "_folder", "_indexes", "error", "generation", "messages", "offset")

    def __init__(
        self,
        offset: int,
        files: Sequence[OpenFile],
        indexes: Sequence[Path],
        folder: Path | None,
        epochs: tuple[Path, bytes] | None,
        generation: int,
        messages: int,
    ) -> None:
        self.offset = offset
        self.generation = generation
        self.messages = messages
        self.error: OSError | None = None
        self._files = files
        self._indexes = indexes
        self._folder = folder
        self._epochs = epochs

    def run(self) -> None:
        """Do the fsyncs; on any thread."""
        try:
            for file in self._files:
                os.fdatasync(file.fd)
            for path in self._indexes:
                try:
                    sync_path(path)
                except FileNotFoundError:
                    pass  # its segment was deleted in the meantime
            if self._epochs is not None:
                replace(*self._epochs)
            if self._folder is not None:
                sync_path(self._folder)
        except OSError as error:
            self.error = error
