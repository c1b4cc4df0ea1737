"""Where a consumer begins: what `--from` can say, and nothing about how it is looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from kafka_classic.cli.failure import CommandFailed


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that is kept."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Only what is written from now on."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """This offset, in every partition that is read."""

    offset: int


@dataclass(frozen=True, slots=True)
class FromTime:
    """The first record whose timestamp is this time (in milliseconds since 1970) or later."""

    timestamp: int


Position = Earliest | Latest | AtOffset | FromTime


def read_position(text: str) -> Position:
    """Reads `earliest`, `latest`, an offset such as `42`, or an ISO time such as `2026-01-31T12:00`."""
    word = text.strip().lower()
    if word in ("earliest", "smallest", "beginning"):
        return Earliest()
    if word in ("latest", "largest", "end"):
        return Latest()
    if re.fullmatch(r"\d+", word):
        return AtOffset(int(word))
    moment = read_time(text)
    if moment is None:
        raise CommandFailed(
            f"--from {text!r} is neither earliest, latest, an offset nor an ISO time",
            "--from earliest, --from 42 or --from 2026-01-31T12:00:00+00:00",
        )
    return moment


def read_time(text: str) -> FromTime | None:
    """Reads an ISO time; None if it is none."""
    try:
        # A time without a zone means the reader's own clock, as every tool at a terminal takes it.
        return since(int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def since(timestamp: int) -> FromTime:
    """No record is older than 1970; and to a broker -1 and -2 are no times, but the end and the beginning."""
    return FromTime(max(0, timestamp))
