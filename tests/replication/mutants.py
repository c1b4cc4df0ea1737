"""Rules of replication with one of them broken: what the checks must notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka_classic.replication.replica import Follower, Leadership, Replica, Taken
from tests.replication.simulation import Cluster


class IgnoresWhatIsBeingWritten(Replica):
    """An ISR that may stand in ZooKeeper already, its answer lost, does not hold the high watermark back."""

    def _count(self) -> None:
        self._others = tuple(self.isr - {self.me})


class ShrinksBeforeItIsWritten(Replica):
    """One that is to leave the ISR no longer counts, though ZooKeeper may still elect it."""

    def _count(self) -> None:
        self._others = tuple((self.isr if self.pending is None else self.pending) - {self.me})


class CutsToHighWatermark(Replica):
    """As before KIP-101: what is above the high watermark, and was acknowledged perhaps, is thrown away."""

    def cut(self, answered_epoch: int, answered_end: int) -> tuple[int, bool]:
        return min(self.high_watermark, self.log.end_offset), True


class AsksOnce(Replica):
    """As before KIP-279: the leader's first answer settles it, though this log lacks that epoch."""

    def cut(self, answered_epoch: int, answered_end: int) -> tuple[int, bool]:
        end = self.log.end_offset
        return min(answered_end if answered_end >= 0 else self.high_watermark, end), True


class NeverCuts(Replica):
    def cut(self, answered_epoch: int, answered_end: int) -> tuple[int, bool]:
        return self.log.end_offset, True


class ExpandsToHighWatermark(Replica):
    """A new leader, whose high watermark is still old, takes one in that lacks what the leader before acknowledged."""

    def grown(self, id: int) -> frozenset[int] | None:
        self.epoch_start = 0
        return super().grown(id)


class RemembersEnds(Replica):
    """Where followers were when this one led before is believed: they have followed another since."""

    memory: dict[int, Follower]

    def take(self, told: Leadership, now: float) -> Taken:
        if self.followers:
            self.memory = self.followers
        taken = super().take(told, now)
        if taken is Taken.LEADS:
            self.followers |= getattr(self, "memory", {})
        return taken


class RemembersEndsOfMissedEpochs(Replica):
    """One that led, and leads again, thinks that it led all the time: of another in between it was not told."""

    def take(self, told: Leadership, now: float) -> Taken:
        known, start = (self.followers, self.epoch_start) if self.leading else ({}, None)
        taken = super().take(told, now)
        if taken is Taken.LEADS and start is not None:
            self.followers |= {id: follower for id, follower in known.items() if id in self.isr}
            self.epoch_start = start
        return taken


class BelievesLeadersHighWatermark(Replica):
    """A follower shows what it does not have."""

    def followed(self, leaders_high_watermark: int) -> bool:
        self.high_watermark = max(self.high_watermark, leaders_high_watermark)
        return True


class LeadsOfOldAgain(Replica):
    """A word of the controller that arrives late is obeyed."""

    def take(self, told: Leadership, now: float) -> Taken:
        if told.leader_epoch < self.leader_epoch:
            self.leader_epoch = -1
        return super().take(told, now)


MUTANTS: dict[str, Callable[[int, int], Cluster]] = {
    **{
        rules.__name__: partial(Cluster, rules=rules)
        for rules in (
            *(IgnoresWhatIsBeingWritten, ShrinksBeforeItIsWritten, CutsToHighWatermark, AsksOnce, NeverCuts),
            *(ExpandsToHighWatermark, RemembersEnds, RemembersEndsOfMissedEpochs, BelievesLeadersHighWatermark),
            *(LeadsOfOldAgain,),
        )
    },
    "TakesFetchesOfOtherEpochs": partial(Cluster, fences=False),
    "WritesTheIsrOverAnyVersion": partial(Cluster, compares=False),
    "ElectsFromOutsideTheIsr": partial(Cluster, clean=False),
}
