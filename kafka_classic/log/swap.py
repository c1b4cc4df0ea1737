"""Putting a compacted segment in the place of those that it was made of, so that a crash at any step loses nothing.

    NNN.log.cleaned   being written; worth nothing, and removed at the next start
    NNN.log.swap      whole and on the disk: from this name on, what follows is finished, by the next start if need be
       the indexes of all the old segments are removed, and the batches of all but the first
    NNN.log           the new takes the name of the first of the old: the swap is done
       its own indexes follow; a crash before that has them built anew

`.log.swap` says itself how far it reaches: its last batch ends where the next segment begins.
"""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path

from .files import OpenFile
from .scan import Scan
from .segment import segment_path

log = logging.getLogger(__name__)

CLEANED = ".cleaned"
SWAP = ".log.swap"
INDEXES = (".index", ".timeindex")


def swap_in(folder: Path, base: int, others: Iterable[int]) -> None:
    """Let what stands in `.cleaned` files take the place of the segments of these bases; of `base` and `others`."""
    segment_path(folder, base, ".log" + CLEANED).replace(segment_path(folder, base, SWAP))
    _finish(folder, base, others)
    for suffix in INDEXES:
        segment_path(folder, base, suffix + CLEANED).replace(segment_path(folder, base, suffix))


def finish_swaps(folder: Path) -> None:
    """Finish what a crash cut short."""
    for path in sorted(folder.glob("*" + SWAP)):
        base = int(path.name.split(".")[0])
        scan = Scan(OpenFile(path), 0, path.stat().st_size, base, crc=True)
        for _ in scan:
            pass
        if scan.problem and segment_path(folder, base).exists():
            log.warning("%s is not used, at %d: %s", path, scan.position, scan.problem)
            path.unlink()
            continue
        bases = [int(other.stem) for other in folder.glob("*.log") if other.stem.isdigit()]
        _finish(folder, base, sorted(other for other in bases if base < other < scan.next_offset))


def discard(folder: Path, base: int) -> None:
    """Remove a compacted segment that will not be used."""
    for suffix in (".log", *INDEXES):
        with contextlib.suppress(OSError):
            segment_path(folder, base, suffix + CLEANED).unlink()


def _finish(folder: Path, base: int, others: Iterable[int]) -> None:
    for other in others:
        for suffix in (*INDEXES, ".log", ".snapshot"):
            segment_path(folder, other, suffix).unlink(missing_ok=True)
    for suffix in INDEXES:
        segment_path(folder, base, suffix).unlink(missing_ok=True)
    segment_path(folder, base, SWAP).replace(segment_path(folder, base))
