"""What every test of this room asks of a client that nobody here wrote: produce, read, find an offset by time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pytest

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 60.0

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A message to produce. A partition of None leaves the choice to the client's partitioner."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = 0


class Got(NamedTuple):
    """A message as a client handed it out."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Refused(Exception):
    """The client was told no; the message is the name of Kafka's error, in capitals."""


class Party(Protocol):
    """One client library, used as its own documentation says."""

    name: str

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Sent], *, codec: str = "none", acks: str = "all"
    ) -> None:
        """Send all in order and wait for the acknowledgements; raises Refused."""

    def read_from(self, bootstrap: str, topic: str, starts: Sequence[int], *, partition: int = 0) -> list[list[Got]]:
        """Go to each of the offsets in turn and read from there to the end of the partition, CRC checks on."""

    def offsets_at(
        self, bootstrap: str, topic: str, timestamps: Sequence[int], *, partition: int = 0
    ) -> list[int | None]:
        """Ask for the first offset of each time or later; None where there is none."""


def read(party: Party, bootstrap: str, topic: str, start: int = 0, *, partition: int = 0) -> list[Got]:
    """Read from one offset to the end of the partition."""
    return party.read_from(bootstrap, topic, [start], partition=partition)[0]


def has_kcat() -> bool:
    """Tell whether kcat is installed: it comes from the system's packages, not from pip."""
    return shutil.which("kcat") is not None


def need_kcat() -> None:
    """Skip where kcat is not installed."""
    if not has_kcat():
        pytest.skip("kcat is not installed: `apt install kcat`")


def values(messages: Sequence[Sent] | Sequence[Got]) -> list[bytes | None]:
    return [message.value for message in messages]


def numbered(count: int, size: int = 0, partition: int | None = 0) -> list[Sent]:
    """Messages that differ from each other, keys and values of text, each value at least `size` bytes long."""
    return [
        Sent(b"message %d " % i + b"." * max(0, size - 10), b"key %d" % i, partition=partition) for i in range(count)
    ]
