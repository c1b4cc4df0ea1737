"""What every system under comparison must be able to do, and what is measured of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

# Messages that each client handles before its clock starts: a virtual machine compiles what it runs often, and the
# paper's runs of ten million were hardly touched by that; short ones would be little else.
WARM = 10_000


class PeerFailed(RuntimeError):
    """A server or a client of the comparison did not do what it was started for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One client's run: from its first message until the server has, or the client was handed, the last."""

    messages: int
    wall_s: float
    server_cpu_s: float
    client_cpu_s: float
    series: list[tuple[float, int]] = field(default_factory=list)  # seconds, messages so far

    @property
    def rate(self) -> float:
        return self.messages / self.wall_s

    @property
    def server_us(self) -> float:
        return self.server_cpu_s / self.messages * 1e6

    @property
    def client_us(self) -> float:
        return self.client_cpu_s / self.messages * 1e6

    def rates(self, points: int = 100) -> list[tuple[float, float]]:
        """Messages a second over time, in at most so many steps."""
        step = max(1, -(-len(self.series) // points))
        kept = [*self.series[:-1:step], *self.series[-1:]]
        # A last step of a few milliseconds, mostly the wait for the server's word, would be drawn as a rate of its own.
        if len(kept) > 2 and kept[-1][0] - kept[-2][0] < (kept[-2][0] - kept[-3][0]) / 2:
            del kept[-2]
        return [
            (round(at, 3), round((so_far - before) / (at - since), 1))
            for (since, before), (at, so_far) in pairwise(kept)
            if at > since
        ]


class Peer(Protocol):
    """A system under comparison: started once in a folder of its own, then loaded again and again."""

    name: str
    title: str
    batches: tuple[int, ...]  # how many messages a producer may hand over at once
    keeps: bool  # on disk
    settles_s: float  # how long after the last message what it keeps in memory may wait for the disk

    def missing(self) -> str:
        """Why it cannot run here, and what brings it; empty where it can."""

    def start(self, folder: Path) -> None:
        """Start its servers and wait until they serve; on an error none is left."""

    def stop(self) -> None:
        """End its servers by process id; nothing of them stays behind."""

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        """Send so many messages as fast as they go, to be kept until they are consumed."""

    def consume(self, messages: int) -> Measured:
        """Read so many of the messages that were produced last."""

    def clear(self) -> None:
        """Forget all that was produced and not consumed."""

    def stored_bytes(self) -> int:
        """What all its messages take on disk."""
