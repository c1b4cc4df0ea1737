"""Fetch sessions (KIP-227): a consumer names its partitions once, then both sides say only what changed."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from kafka_classic.wire.errors import Error
from kafka_classic.wire.fetch import FetchPartition, FetchRequest, PartitionOut

if TYPE_CHECKING:
    from kafka_classic.broker.fetch import Read

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EVICTION_S = 120.0  # an idle session may make way for a new one after this time
MAX_EPOCH = 2**31 - 1

Key = tuple[str | UUID, int]


class FetchSession:
    """The partitions of one consumer, what it has been told of each, and the number of the request expected next."""

    def __init__(self, session_id: int, now: float) -> None:
        self.id = session_id
        self.epoch = 1
        self.used_at = now
        self.partitions: OrderedDict[Key, FetchPartition] = OrderedDict()
        self._told: dict[Key, tuple[int, int]] = {}
        self.whole = True  # the answer to a full request names every partition

    def update(self, request: FetchRequest) -> None:
        for wanted in request.partitions:
            self.partitions[wanted.topic, wanted.partition] = wanted
        for topic, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((topic, index), None)
                self._told.pop((topic, index), None)

    def has_news(self, rows: Iterable[tuple[str | UUID, PartitionOut]]) -> bool:
        """Whether a partition's high watermark or start moved since it was last told."""
        if self.whole:
            return False
        return any(
            self._told.get((topic, out.partition), (out.high_watermark, out.log_start_offset))
            != (out.high_watermark, out.log_start_offset)
            for topic, out in rows
        )

    def only_news(self, rows: list[tuple[str | UUID, Read]]) -> list[tuple[str | UUID, Read]]:
        """The rows worth sending: records, an error, or a mark that moved."""
        kept = []
        for topic, row in rows:
            key = (topic, row.out.partition)
            marks = (row.out.high_watermark, row.out.log_start_offset)
            moved = row.out.error or row.out.preferred_read_replica >= 0 or self._told.get(key) != marks
            if self.whole or row.out.records_size or moved:
                kept.append((topic, row))
                self._told[key] = marks
                if row.out.records_size and key in self.partitions:
                    # One that had data goes to the end, so that a small response does not starve the others.
                    self.partitions.move_to_end(key)
        self.whole = False
        return kept


class FetchSessions:
    """The cache of sessions: bounded, the longest idle one makes way."""

    def __init__(self, slots: int, clock: Callable[[], float], rng: random.Random | None = None) -> None:
        self._slots = slots
        self._clock = clock
        self._rng = rng or random.Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def resolve(self, request: FetchRequest) -> tuple[list[FetchPartition], FetchSession | None, Error]:
        """What to read for this request, the session it belongs to, and an error if it belongs to none."""
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return request.partitions, None, Error.none
        now = self._clock()
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            session = self._create(now)
            if session is not None:
                session.update(request)
            return request.partitions, session, Error.none
        session = self._sessions.get(request.session_id)
        if session is None:
            return [], None, Error.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return [], None, Error.invalid_fetch_session_epoch
        session.epoch = session.epoch + 1 if session.epoch < MAX_EPOCH else 1
        session.used_at = now
        self._sessions.move_to_end(session.id)
        session.update(request)
        return list(session.partitions.values()), session, Error.none

    def _create(self, now: float) -> FetchSession | None:
        if self._slots <= 0:
            return None
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()))
            if now - oldest.used_at < EVICTION_S:
                return None
            del self._sessions[oldest.id]
        while True:
            session_id = self._rng.randrange(1, 2**31)
            if session_id not in self._sessions:
                break
        session = self._sessions[session_id] = FetchSession(session_id, now)
        return session
