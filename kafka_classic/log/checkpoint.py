"""Kafka's checkpoint files: a version, a count, and one `topic partition offset` a line."""

from collections.abc import Mapping
from pathlib import Path

from .files import replace

VERSION = 0
CLEANED = "cleaner-offset-checkpoint"


class CorruptCheckpoint(ValueError):
    """The file is not what was written there; what it would have said is worked out anew."""


def read_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    """Read the offsets of all partitions; none where the file is not there."""
    offsets = {}
    for fields in read_lines(path, 3):
        topic, partition, offset = fields
        offsets[topic, int(partition)] = int(offset)
    return offsets


def write_checkpoint(path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    """Replace the file at once, so that a crash leaves the old offsets or the new."""
    replace(path, format_lines([(topic, part, at) for (topic, part), at in sorted(offsets.items())]))


def read_lines(path: Path, fields: int) -> list[list[str]]:
    """The lines of a checkpoint file, each split into so many fields, all but the first of which are numbers."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path} is not text; delete it and start the broker again") from error
    try:
        version, count, rows = int(lines[0]), int(lines[1]), [line.split() for line in lines[2:] if line.strip()]
        wrong = [row for row in rows if len(row) != fields or [int(number) for number in row[1:]] == []]
    except (IndexError, ValueError) as error:
        raise CorruptCheckpoint(f"{path} is damaged; delete it and start the broker again") from error
    if version != VERSION or count != len(rows) or wrong:
        raise CorruptCheckpoint(f"{path} is damaged or of version {version}; delete it and start the broker again")
    return rows


def format_lines(rows: list[tuple[object, ...]]) -> bytes:
    """The bytes of a checkpoint file with these rows."""
    lines = [str(VERSION), str(len(rows)), *(" ".join(map(str, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode()
