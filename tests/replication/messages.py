"""What brokers, controller and ZooKeeper say to each other in the simulated cluster."""

from __future__ import annotations

from typing import NamedTuple

from kafka_classic.replication.replica import Leadership
from tests.replication.memory_log import Entry


class State(NamedTuple):
    """The partition's state in ZooKeeper."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int


class Tell(NamedTuple):
    """LeaderAndIsr, from the controller."""

    to: int
    told: Leadership


class AskEpoch(NamedTuple):
    """OffsetForLeaderEpoch."""

    to: int
    by: int
    token: int
    leader_epoch: int
    epoch: int


class EpochEnd(NamedTuple):
    to: int
    token: int
    epoch: int
    end: int


class Fetch(NamedTuple):
    to: int
    by: int
    token: int
    leader_epoch: int
    offset: int


class Fetched(NamedTuple):
    to: int
    token: int
    offset: int
    entries: list[Entry]
    high_watermark: int


class Refused(NamedTuple):
    """FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE."""

    to: int
    token: int
    diverged: bool = False


class WriteIsr(NamedTuple):
    """To ZooKeeper: the state with another ISR, over the version that it has."""

    to: None
    by: int
    token: int
    state: State


class Written(NamedTuple):
    """ZooKeeper's answer: the state as it stands now, and whether it was written."""

    to: int
    token: int
    state: State
    done: bool


Message = Tell | AskEpoch | EpochEnd | Fetch | Fetched | Refused | WriteIsr | Written
