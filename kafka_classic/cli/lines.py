"""What `produce` sends: the lines of a stream as keys and values, or random bytes for a demonstration."""

from __future__ import annotations

import os
import random
import select
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafka_classic.cli.failure import CommandFailed


class ToSend(NamedTuple):
    """A key and a value that have no place in the log yet."""

    key: bytes | None
    value: bytes


def read_lines(lines: Iterable[bytes], separator: bytes | None) -> Iterator[ToSend]:
    """One record a line, without its line end; with a separator, what stands before the first one is the key."""
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield ToSend(None, line)
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise CommandFailed(
                f"line {number} has no {separator.decode(errors='replace')!r} between key and value",
                "another --key-separator, or none for lines without keys",
            )
        yield ToSend(key, value)


def random_values(count: int, size: int, source: random.Random) -> Iterator[ToSend]:
    """`count` values of `size` printable bytes. They differ, so that a codec has honest work."""
    alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789"
    # A window moving over one random text costs a slice a record; drawing each byte anew would measure random().
    text = bytes(source.choices(alphabet, k=size + 4096))
    for _ in range(count):
        start = source.randrange(4096)
        yield ToSend(None, text[start : start + size])


def live_lines(descriptor: int, quiet: Callable[[], object]) -> Iterator[bytes]:
    """The lines of a file, a pipe or a terminal; `quiet` is called before each wait: what was typed then goes out."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            quiet()
        data = os.read(descriptor, 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest
