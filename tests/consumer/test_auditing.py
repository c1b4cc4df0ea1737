"""What a member of a group counts: what was processed and committed, by number, once however often it came."""

from __future__ import annotations

from typing import cast

import pytest

from kafka_classic.audit.groups import bounds
from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.monitoring import Event, Tenure, latest
from kafka_classic.client.spans import Run, Span, covered
from kafka_classic.consumer.auditing import GroupAuditor
from kafka_classic.records.batch import BatchHeader

AT = ("events", 0)


class Told:
    """Takes events in place of a cluster."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, events: list[Event]) -> bool:
        self.events += [Event.decode(event.encode()[1]) for event in events]
        return True


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr("kafka_classic.consumer.auditing.Monitor", lambda *_: told)
    return told


def header(offset: int, count: int, producer: int = 7, first: int | None = None) -> BatchHeader:
    first = offset if first is None else first
    return BatchHeader(offset, 61, 0, 2, 0, 0, count - 1, 120_000, 120_000, producer, 0, first, count)


def chunk() -> Chunk:
    return Chunk("events", 0, 0, 0, 0, memoryview(b""), ())


def auditor() -> GroupAuditor:
    return GroupAuditor(cast(Cluster, None), "g", "c", 60_000)


def spans(told: Told) -> list[Span]:
    return covered(run for event in latest(told.events) for share in event.shares for run in share.tally.runs)


def tenures(told: Told) -> list[Tenure]:
    return [tenure for event in latest(told.events) for tenure in event.tenures]


def test_only_what_was_committed_is_claimed(told: Told) -> None:
    member = auditor()
    member.handed(chunk(), header(0, 10), 0)
    member.handed(chunk(), header(10, 10), 10)
    member.committed({AT: 14})
    member.close()
    assert spans(told) == [Span(0, 0, 14)]
    assert tenures(told) == [Tenure(0, 0, 14, False)]


def test_a_member_that_begins_within_a_batch_counts_from_there(told: Told) -> None:
    member = auditor()
    member.handed(chunk(), header(100, 10, first=500), 104)
    member.committed({AT: 110})
    member.given_up([AT])
    member.close()
    assert spans(told) == [Span(0, 504, 510)]
    assert tenures(told) == [Tenure(0, 104, 110, True)]


def test_a_batch_that_is_read_again_is_counted_once(told: Told) -> None:
    member = auditor()
    for _ in range(2):
        member.handed(chunk(), header(0, 10), 0)
    member.committed({AT: 10})
    member.close()
    assert [run for event in latest(told.events) for share in event.shares for run in share.tally.runs] == [
        Run(0, 0, 10, 0, 9)
    ]


def test_messages_without_numbers_are_named_by_their_offsets(told: Told) -> None:
    member = auditor()
    member.handed(chunk(), header(5, 3, producer=-1, first=-1), 5)
    member.committed({AT: 8})
    member.close()
    assert spans(told) == [Span(-1, 5, 8)]


def test_where_a_member_died_the_group_is_in_doubt_up_to_the_next_one() -> None:
    found = bounds([Tenure(0, 0, 50, False), Tenure(0, 80, 120, True)])
    assert (found.begin, found.end, found.doubtful) == (0, 120, [(50, 80)])
    found = bounds([Tenure(0, 0, 50, False), Tenure(0, 50, 120, True)])
    assert found.doubtful == []
