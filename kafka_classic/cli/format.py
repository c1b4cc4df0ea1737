"""How `consume` prints a record: by a format string such as '%t %p %o %k %v', or as a JSON value."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import NamedTuple

from kafka_classic.cli.failure import CommandFailed


class Consumed(NamedTuple):
    """A record and where it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


_ESCAPES = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\0": b"\0", "\\\\": b"\\"}
_FIELDS: dict[str, Callable[[Consumed], bytes]] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%T": lambda record: b"%d" % record.timestamp,
    "%k": lambda record: record.key or b"",
    "%v": lambda record: record.value or b"",
    "%h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "%%": lambda record: b"%",
}
FIELDS_HELP = "%t topic, %p partition, %o offset, %T timestamp (ms), %k key, %v value, %h headers, \\n, \\t"


def compile_format(text: str) -> Callable[[Consumed], bytes]:
    """Reads a format string once; the result turns each record into the bytes to print, newline included."""
    parts: list[bytes | Callable[[Consumed], bytes]] = []
    for piece in re.findall(r"%.?|\\.|[^%\\]+|\\", text, re.DOTALL):
        if piece.startswith("%"):
            if piece not in _FIELDS:
                raise CommandFailed(f"--format does not know {piece!r}", f"one of {FIELDS_HELP}")
            parts.append(_FIELDS[piece])
        else:
            parts.append(_ESCAPES.get(piece, piece.encode()))
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts) + b"\n"


def as_mapping(record: Consumed) -> dict[str, object]:
    """The record as a JSON object; bytes that are not UTF-8 stand as {"base64": …}."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }


def json_bytes(value: bytes | None) -> str | dict[str, str] | None:
    """Bytes as JSON can hold them, with nothing lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
