"""A member's client as the model plays it: it joins, assigns if it leads, syncs, beats, and hears what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from kafka_classic.wire.errors import Error
from tests.groups.play import Play, Waiting, ask, subscription

PARTITIONS = range(7)
REJOIN = {
    Error.rebalance_in_progress,
    Error.illegal_generation,
    Error.not_coordinator,
    Error.coordinator_not_available,
    Error.unknown_server_error,
}


class Sync(NamedTuple):
    """What a member asked, in which life of the coordinator, and what its leader said if it is one."""

    waiting: Waiting
    owner: str
    member_id: str
    generation: int
    life: int
    given: dict[str, bytes] | None


class Consumer:
    """One member's client."""

    def __init__(
        self, instance: str | None, topics: tuple[str, ...], syncs: list[Sync], life: Callable[[], int]
    ) -> None:
        self._said = syncs
        self._life = life
        self.instance = instance
        self.protocols = {"range": subscription(*topics)}
        self.id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.waiting: Waiting | None = None
        self.syncs = False
        self.members: list[str] | None = None  # told to the leader alone
        self.fenced = False

    def asked(self) -> object:
        return ask(self.id, instance=self.instance, protocols=self.protocols)

    def go(self, play: Play) -> None:
        """Do the next thing: look at an answer, or join, or sync."""
        if self.waiting is not None:
            if self.waiting.done:
                self._hear(play)
            return
        if self.syncs:
            given = {}
            if self.members is not None:
                shares = {
                    id: [p for p in PARTITIONS if p % len(self.members) == n] for n, id in enumerate(self.members)
                }
                given = {id: json.dumps(share).encode() for id, share in shares.items()}
            self.waiting = play.sync(self.id, given, generation=self.generation, instance=self.instance)
            owner = f"instance {self.instance}" if self.instance else self.id
            said = None if self.members is None else given
            self._said.append(Sync(self.waiting, owner, self.id, self.generation, self._life(), said))
        elif self.generation < 0:
            self.owned = frozenset()
            self.waiting = play.join(self.asked())  # type: ignore[arg-type]

    def _hear(self, play: Play) -> None:
        waiting, self.waiting = self.waiting, None
        assert waiting is not None
        if waiting.joined is not None:
            told = waiting.joined
            if told.error is Error.none:
                self.id, self.generation, self.syncs = told.member_id, told.generation, True
                leads = told.leader == told.member_id and not told.skip_assignment
                self.members = [id for id, _, _ in told.members] if leads else None
            elif told.error is Error.member_id_required:
                self.id = told.member_id
            else:
                self.wrong(told.error)
        elif waiting.synced is not None:
            self.syncs = False
            if waiting.synced.error is Error.none:
                self.owned = frozenset(json.loads(waiting.synced.assignment or b"[]"))
            else:
                self.wrong(waiting.synced.error)

    def wrong(self, error: Error) -> None:
        self.generation, self.syncs, self.owned = -1, False, frozenset()
        if error is Error.unknown_member_id:
            self.id = ""
        elif error is Error.fenced_instance_id:
            self.fenced = True
        else:
            assert error in REJOIN, error

    def beat(self, play: Play) -> None:
        if self.waiting is None and self.generation >= 0:
            error = play.beat(self.id, self.generation, self.instance)
            if error is not Error.none and not (error is Error.rebalance_in_progress and self.syncs):
                self.wrong(error)
