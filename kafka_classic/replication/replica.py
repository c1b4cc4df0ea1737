"""The rules of replication for one replica of a partition: who is in sync, how far all have come, where to cut.

No sockets, no disk, no ZooKeeper and no clock: what happens is told by calls, and the tests play thousands of cluster
lives against these rules alone (tests/replication).

    (new) -- take(leader is another) --> following: truncating -- cut() until done --> fetching
    (new) -- take(leader is this one) --> leading
    each -- take(newer epoch) --> leading or following

What keeps an acknowledged record safe:
- The high watermark is what *every* replica has that may be in sync: those in the ISR that ZooKeeper holds, and those
  in one that is being written and may hold already. Only below it is acks=all acknowledged and is anything read.
- A change of the ISR compares the state's version in ZooKeeper, so a leader that was replaced cannot make one.
- A follower cuts its log where its history leaves its leader's, found by leader epochs, before it fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

NO_LEADER = -1


class Epochs(Protocol):
    """The leader epochs of a log (log/epochs.py)."""

    @property
    def latest(self) -> int: ...
    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]: ...


class ReplicatedLog(Protocol):
    """What the rules need of a log."""

    end_offset: int

    @property
    def epochs(self) -> Epochs: ...
    def begin_epoch(self, epoch: int) -> None: ...


class Leadership(NamedTuple):
    """Who leads and who follows, as the controller tells it (LeaderAndIsr)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: int  # of the partition's state in ZooKeeper
    controller_epoch: int = 0


class Taken(Enum):
    """What became of a Leadership."""

    STALE = "older than what is known"
    SAME = "known already"
    LEADS = "this replica leads"
    FOLLOWS = "another leads"


class Follower:
    """What a leader knows of one of its followers."""

    __slots__ = ("caught_up_at", "end", "fetched_at", "leader_end", "told")

    def __init__(self, caught_up_at: float) -> None:
        self.end = -1  # its log's end, by its last fetch; -1 before the first
        self.caught_up_at = caught_up_at  # when it last had all that the leader had
        self.fetched_at = caught_up_at
        self.leader_end = -1  # where the leader's log ended at that fetch
        self.told = -1  # the high watermark that it was last told


class Replica:
    """This broker's replica of one partition."""

    __slots__ = (
        "_others",
        "controller_epoch",
        "epoch_start",
        "followers",
        "high_watermark",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "me",
        "pending",
        "replicas",
        "truncating",
        "version",
    )

    log: ReplicatedLog

    def __init__(self, me: int, high_watermark: int = 0) -> None:
        self.me = me
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.leading = False
        self.replicas: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()  # as ZooKeeper is known to hold it
        self.pending: frozenset[int] | None = None  # what is being written there
        self.version = -1
        self.controller_epoch = -1
        self.high_watermark = high_watermark
        self.epoch_start = 0  # where the log ended when this replica took over
        self.followers: dict[int, Follower] = {}
        self.truncating = False
        self._others: tuple[int, ...] = ()  # whoever else must have a record before it is committed

    # --- what the controller says

    def take(self, told: Leadership, now: float) -> Taken:
        """Lead or follow as told, unless something newer is known."""
        if told.leader_epoch < self.leader_epoch:
            return Taken.STALE
        if told.leader_epoch == self.leader_epoch:
            if self.leading and told.version > self.version:
                self.settle(told.isr, told.version)  # a write of ours whose answer was lost
            return Taken.SAME
        # Over an epoch of which this one was not told another may have led, and followers have cut what they had.
        was_leading = self.leading and told.leader_epoch == self.leader_epoch + 1
        self.leader, self.leader_epoch = told.leader, told.leader_epoch
        self.replicas, self.isr, self.pending = told.replicas, frozenset(told.isr), None
        self.version, self.controller_epoch = told.version, told.controller_epoch
        self.leading = told.leader == self.me
        self.truncating = not self.leading
        if not self.leading:
            self.followers = {}
            self._others = ()
            return Taken.FOLLOWS
        known = self.followers if was_leading else {}
        # One that fell out of the ISR may come back with less than it had: its next fetch says how much.
        self.followers = {
            id: known[id] if id in known and id in self.isr else Follower(now if id in self.isr else float("-inf"))
            for id in told.replicas
            if id != self.me
        }
        if not was_leading:
            self.epoch_start = self.log.end_offset
        self.log.begin_epoch(self.leader_epoch)
        self._count()
        self.advance()
        return Taken.LEADS

    # --- leading

    @property
    def fresh(self) -> bool:
        """Whether the high watermark may still be behind what the leader before has acknowledged."""
        return self.high_watermark < self.epoch_start

    def advance(self) -> bool:
        """Move the high watermark up to where everyone is who may be in sync; says whether it moved."""
        upto = self.log.end_offset
        for id in self._others:
            follower = self.followers.get(id)
            end = -1 if follower is None else follower.end
            if end < upto:
                upto = end
        if upto > self.high_watermark:
            self.high_watermark = upto
            return True
        return False

    def fetched(self, id: int, offset: int, now: float) -> bool:
        """A follower of this very leader epoch asks for what comes at `offset`: it has all before.

        Says whether the high watermark moved.
        """
        follower = self.followers[id]
        end = self.log.end_offset
        if offset >= end:
            follower.caught_up_at = now
        elif offset >= follower.leader_end >= 0:
            follower.caught_up_at = max(follower.caught_up_at, follower.fetched_at)
        follower.leader_end, follower.fetched_at, follower.end = end, now, offset
        return id in self._others and self.advance()

    def silence(self, now: float) -> float:
        """For how long one has not fetched that could lead in this one's place; 0 if there is none such."""
        return max((now - self.followers[id].fetched_at for id in self._others if id in self.followers), default=0.0)

    def shrunk(self, now: float, lag: float) -> frozenset[int] | None:
        """The ISR without those who have not caught up for too long; None if it is right as it is."""
        if not self.leading or self.pending is not None:
            return None
        behind = {id for id, follower in self.followers.items() if id in self.isr and now - follower.caught_up_at > lag}
        return self.isr - behind if behind else None

    def grown(self, id: int) -> frozenset[int] | None:
        """The ISR with the follower that has just fetched; None if it lacks something, or is in it.

        Only a follower that is fetching may come in: what one had that is silent may be gone, with its disk.
        """
        if not self.leading or self.pending is not None or id in self.isr:
            return None
        if self.followers[id].end < max(self.high_watermark, self.epoch_start):
            return None
        return self.isr | {id}

    def resigned(self) -> frozenset[int] | None:
        """The ISR without this leader, whose disk fails: one of those left is to lead; None if there are none."""
        if not self.leading or self.pending is not None or self.me not in self.isr:
            return None
        return self.isr - {self.me} or None

    def propose(self, isr: frozenset[int]) -> tuple[int, ...]:
        """The ISR is about to be written to ZooKeeper: until it is known what became of it, both count.

        Returns it in the order of the replicas.
        """
        self.pending = isr
        self._count()
        return tuple(id for id in self.replicas if id in isr)

    def settle(self, isr: Iterable[int], version: int) -> bool:
        """ZooKeeper holds this ISR; says whether the high watermark moved."""
        if version < self.version:
            return False
        self.isr, self.version, self.pending = frozenset(isr), version, None
        self._count()
        return self.advance()

    def _count(self) -> None:
        self._others = tuple((self.isr | (self.pending or frozenset())) - {self.me})

    # --- following

    def cut(self, answered_epoch: int, answered_end: int) -> tuple[int, bool]:
        """Where to cut the log, by the leader's answer for this log's latest epoch; and whether that settles it.

        The leader answered with the largest epoch it has, at or below the one asked for, and the offset where that
        ended in its log. If this log has not that epoch either, it is cut below what came after it and asks again.
        """
        end = self.log.end_offset
        if answered_end < 0:
            return min(self.high_watermark, end), True
        epoch, own_end = self.log.epochs.end_offset(answered_epoch, end)
        if epoch < 0:
            return min(answered_end, end), True
        if epoch != answered_epoch:
            return min(own_end, end), False
        return min(own_end, answered_end, end), True

    def was_cut(self, *, done: bool) -> None:
        """The log was cut as `cut` said."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.truncating = not done

    def followed(self, leaders_high_watermark: int) -> bool:
        """Records were taken from the leader, or none; says whether the high watermark moved."""
        upto = min(leaders_high_watermark, self.log.end_offset)
        if upto > self.high_watermark:
            self.high_watermark = upto
            return True
        return False
