"""The experiments that compare (P28 to P30): all in turns, round by round, so that a busy minute hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bench.load.results import Case, Line
from bench.peers.peer import Measured, Peer, PeerFailed
from bench.peers.sizes import SIZE, Sizes

READ: Case = {"prefetch": 1000}
# What a user of our own clients must reach, by experiment, subject and batch.
ALONE: dict[tuple[str, str, object], float] = {
    ("produce", "classic-own", 1): 50_000,
    ("produce", "classic-own", 50): 400_000,
    ("consume", "classic-own", None): 500_000,
}
Say = Callable[[str], object]


class Comparison:
    """What every peer gave in every round. A peer that fails is left out from there on, by name."""

    def __init__(self, peers: Sequence[Peer], sizes: Sizes, wanted: Sequence[str], say: Say) -> None:
        self.peers = list(peers)
        self.failed: dict[str, str] = {}
        self._sizes = sizes
        self._wanted = wanted
        self._say = say
        self._produced: dict[tuple[str, int], list[Measured]] = {}
        self._consumed: dict[str, list[Measured]] = {}
        self._stored: dict[tuple[str, int], list[float]] = {}

    def run(self) -> None:
        if "overhead" in self._wanted:  # first, while nothing else is stored
            for _ in range(self._sizes.rounds):
                self._each(lambda peer: self._weigh(peer) if peer.keeps else None)
            self._each(lambda peer: peer.clear())
        if {"produce", "consume"} & set(self._wanted):
            for _ in range(self._sizes.rounds):
                self._each(self._round)

    def lines(self) -> list[Line]:
        found = []
        peers = {peer.name: peer for peer in self.peers}
        for (name, batch), runs in self._produced.items():
            if name in peers and "produce" in self._wanted:
                found += [rates("produce", name, case, runs, n) for case, n in _cases(peers[name], batch)]
        for name, runs in self._consumed.items():
            if name in peers and "consume" in self._wanted:
                found.append(rates("consume", name, READ, runs, ""))
        for (name, batch), each in self._stored.items():
            if name in peers:
                for case, note in _cases(peers[name], batch):
                    extra = [bytes - SIZE for bytes in each]
                    found.append(Line("overhead", name, {**case, "of": "overhead"}, "B", extra, False, note=note))
                    found.append(Line("overhead", name, {**case, "of": "disk"}, "B", each, False, note=note))
        return found

    def ratios(self, ours: str, other: str, batch: int | None) -> list[float]:
        """How many times as fast one is as another in the batches named, or reading; round by round."""
        if batch is None:
            pairs = zip(self._consumed.get(ours, []), self._consumed.get(other, []), strict=False)
        else:
            theirs = self._produced.get((other, batch)) or self._produced.get((other, 1), [])
            pairs = zip(self._produced.get((ours, batch), []), theirs, strict=False)
        return [one.rate / two.rate for one, two in pairs]

    def _round(self, peer: Peer) -> None:
        for batch in peer.batches:
            if batch < max(peer.batches) and "produce" not in self._wanted:
                continue
            count = self._sizes.messages(peer.batches, batch)
            self._say(f"{peer.title}: {count:,} messages in, batch {batch}")
            self._produced.setdefault((peer.name, batch), []).append(peer.produce(count, SIZE, batch))
            if batch == max(peer.batches):
                self._say(f"{peer.title}: {count:,} messages out")
                self._consumed.setdefault(peer.name, []).append(peer.consume(count))
            peer.clear()

    def _weigh(self, peer: Peer) -> None:
        """What the disk holds more of after so many messages, none of which is consumed before all are weighed."""
        count = self._sizes.overhead
        for batch in peer.batches:
            self._say(f"{peer.title}: {count:,} messages onto disk, batch {batch}")
            before = peer.stored_bytes()
            peer.produce(count, SIZE, batch, warm=0)
            time.sleep(peer.settles_s)
            each = (peer.stored_bytes() - before) / count
            self._stored.setdefault((peer.name, batch), []).append(each)

    def _each(self, act: Callable[[Peer], object]) -> None:
        for peer in list(self.peers):
            try:
                act(peer)
            except PeerFailed as error:
                self.failed[peer.name] = str(error)
                self.peers.remove(peer)


def _cases(peer: Peer, batch: int) -> list[tuple[Case, str]]:
    """Who has no batches is compared with both of ours, by its runs of single messages."""
    if peer.batches == (1,):
        return [({"batch": 1}, ""), ({"batch": 50}, "it has no batches: its runs of single messages")]
    return [({"batch": batch}, "")]


def rates(experiment: str, subject: str, case: Case, runs: list[Measured], note: str) -> Line:
    """A case's line of rates, with the run in the middle over time."""
    middle = sorted(runs, key=lambda run: run.rate)[len(runs) // 2]
    about = f"{runs[0].messages:,} messages of {SIZE} bytes a run"
    return Line(
        experiment,
        subject,
        case,
        "msg/s",
        [run.rate for run in runs],
        server_cpu_us=[run.server_us for run in runs],
        client_cpu_us=[run.client_us for run in runs],
        series=middle.rates(),
        goal=ALONE.get((experiment, subject, case.get("batch"))),
        note=f"{about}; {note}" if note else about,
    )
