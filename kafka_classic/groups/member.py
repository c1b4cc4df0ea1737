"""A member of a group, and the answers that it may wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_classic.groups.records import MemberValue
from kafka_classic.groups.timers import Timer
from kafka_classic.wire.errors import Error

NO_GENERATION = -1
Protocols = tuple[tuple[str, bytes], ...]  # assignors with their metadata, the best liked first


class JoinAsk(NamedTuple):
    """What a member says when it joins."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: Protocols
    knows_ids: bool = True  # it may be told its id first and asked to come again with it (JoinGroup 4)
    can_skip: bool = True  # a leader of this kind can be told not to assign anew (JoinGroup 9)


class Joined(NamedTuple):
    """The answer to a join; whoever leads is told of all members and their metadata."""

    error: Error
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


class Synced(NamedTuple):
    """The answer to a sync."""

    error: Error
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


class Member:
    """One member; `joining` and `syncing` are whom it waits for, at most one of them."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "protocols",
        "rebalance_ms",
        "session_ms",
        "syncing",
        "timer",
    )

    def __init__(self, id: str, ask: JoinAsk) -> None:
        self.id = id
        self.instance_id = ask.instance_id
        self.client_id = ask.client_id
        self.client_host = ask.client_host
        self.session_ms = ask.session_ms
        self.rebalance_ms = ask.rebalance_ms
        self.protocols = ask.protocols
        self.assignment = b""
        self.is_new = True  # it has not been in a generation yet
        self.joining: Callable[[Joined], None] | None = None
        self.syncing: Callable[[Synced], None] | None = None
        self.deadline = 0.0  # it is given up then, unless something is heard of it
        self.timer: Timer | None = None

    @classmethod
    def restored(cls, value: MemberValue, protocol_type: str, protocol: str) -> Member:
        """A member as it stands in the offsets topic, which knows only the protocol that was chosen."""
        ask = JoinAsk(
            value.member_id,
            value.instance_id,
            value.client_id,
            value.client_host,
            value.session_timeout_ms,
            value.rebalance_timeout_ms,
            protocol_type,
            ((protocol, value.subscription),),
        )
        member = cls(value.member_id, ask)
        member.assignment = value.assignment
        member.is_new = False
        return member

    def value(self, protocol: str | None, assignment: bytes) -> MemberValue:
        return MemberValue(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_ms,
            self.session_ms,
            self.metadata(protocol),
            assignment,
        )

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def answer_join(self, answer: Joined) -> None:
        waiting, self.joining = self.joining, None
        if waiting is not None:
            waiting(answer)

    def answer_sync(self, answer: Synced) -> None:
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            waiting(answer)
