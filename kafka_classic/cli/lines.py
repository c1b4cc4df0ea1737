"""What `produce` sends: the lines of a stream as keys and values, or random bytes for a demonstration."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
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


def in_batches(records: Iterable[ToSend], count: int, most_bytes: int = 900_000) -> Iterator[list[ToSend]]:
    """Groups records into batches of at most `count` records and about `most_bytes` bytes, never empty."""
    batch: list[ToSend] = []
    held = 0
    for record in records:
        size = len(record.value) + len(record.key or b"") + 16
        if batch and (len(batch) >= count or held + size > most_bytes):
            yield batch
            batch, held = [], 0
        batch.append(record)
        held += size
    if batch:
        yield batch
