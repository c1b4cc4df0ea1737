"""Monitoring events: written and read again, in any order, and nothing that is none."""

from __future__ import annotations

import json

import pytest

from kafka_classic.client.fingerprint import Fingerprint
from kafka_classic.client.monitoring import GROUP, PRODUCER, Event, Share, Tenure, latest
from kafka_classic.client.spans import Run
from kafka_classic.client.tally import Tally


def event(revision: int = 1, state: str = "closed") -> Event:
    tally = Tally(5, 50, [Run(0, 0, 5, 10, 14)], Fingerprint(1, 2**32, 2**63), None, 7, 20)
    share = Share(3, 4711, tally, failed=[Run(1, 0, 2)], replaced=[Run(0, 5, 6)], late=2)
    return Event(
        PRODUCER, "host-4711", "events", 60_000, 60_000, state, revision, [4711], [share], "host", "app", "all"
    )


def test_an_event_comes_back_as_it_was() -> None:
    key, value = event().encode()
    assert key == b"producer/host-4711/events/60000"
    assert Event.decode(value) == event()
    told = json.loads(value)
    assert (told["count"], told["server"], told["state"]) == (5, "host", "closed")


def test_an_event_of_a_group_tells_how_far_its_member_came() -> None:
    said = Event(GROUP, "g/1", "events", -1, 60_000, "open", 2, group="g", tenures=[Tenure(0, 5, 90, True)])
    assert Event.decode(said.encode()[1]) == said


def test_the_last_revision_replaces_those_before_whatever_the_order() -> None:
    events = [event(2), event(3, "open"), event(1), event(3, "open")]
    assert latest(events) == [event(3, "open")]


@pytest.mark.parametrize("value", [b"", b"x", b"[]", b"{}", b'{"v":2}', b'{"v":1,"tier":"producer"}', b"\xff"])
def test_what_is_no_event_is_refused_with_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="monitoring event"):
        Event.decode(value)
