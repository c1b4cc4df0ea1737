"""Replicas are placed as Kafka places them: leaders and followers spread, over racks too."""

import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.controller.assignment import alternate_racks, place

FIVE: dict[int, str | None] = dict.fromkeys(range(5))
# The example of Kafka's own documentation of its placement.
SIX: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_five_brokers_and_three_replicas_as_in_kafkas_example() -> None:
    assert place(10, 3, FIVE, start=0, shift=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_racks_alternate_as_in_kafkas_example() -> None:
    assert alternate_racks({broker: rack or "" for broker, rack in SIX.items()}) == [0, 3, 1, 5, 4, 2]
    assert place(12, 3, SIX, start=0, shift=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
        7: (3, 2, 0),
        8: (1, 0, 3),
        9: (5, 3, 1),
        10: (4, 1, 5),
        11: (2, 5, 4),
    }


@pytest.mark.parametrize(
    ("start", "shift", "first", "expected"),
    [
        (1, 0, 0, {0: (1, 2), 1: (2, 0), 2: (0, 1)}),
        (0, 1, 0, {0: (0, 2), 1: (1, 0), 2: (2, 1)}),
        (2, 1, 0, {0: (2, 1), 1: (0, 2), 2: (1, 0)}),
        # An added partition goes on where the topic would have.
        (0, 0, 3, {3: (0, 2), 4: (1, 0), 5: (2, 1)}),
    ],
)
def test_start_shift_and_first_choose_the_place(
    start: int, shift: int, first: int, expected: dict[int, tuple[int, ...]]
) -> None:
    assert place(3, 2, dict.fromkeys(range(3)), start=start, shift=shift, first=first) == expected


def test_brokers_of_any_ids_and_a_single_one() -> None:
    assert place(2, 1, {7: None}, start=0, shift=0) == {0: (7,), 1: (7,)}
    assert place(2, 2, {40: None, 7: None}, start=0, shift=0) == {0: (7, 40), 1: (40, 7)}


def test_racks_are_left_alone_where_only_some_brokers_name_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        placed = place(3, 2, {0: "a", 1: "a", 2: None}, start=0, shift=0)
    assert placed == place(3, 2, dict.fromkeys(range(3)), start=0, shift=0)
    assert "brokers [2] name no rack" in caplog.text


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_more_replicas_than_brokers_are_refused(factor: int) -> None:
    with pytest.raises(ValueError, match="there are 3"):
        place(1, factor, dict.fromkeys(range(3)), start=0, shift=0)


clusters = st.dictionaries(st.integers(0, 99), st.none() | st.sampled_from("abc"), min_size=1, max_size=8)


@given(data=st.data(), brokers=clusters, partitions=st.integers(1, 40), first=st.integers(0, 20))
def test_replicas_are_distinct_and_leaders_spread(
    data: st.DataObject, brokers: dict[int, str | None], partitions: int, first: int
) -> None:
    count = len(brokers)
    factor = data.draw(st.integers(1, count))
    start, shift = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, count - 1))
    placed = place(partitions, factor, brokers, start=start, shift=shift, first=first)
    assert [*placed] == [*range(first, first + partitions)]
    for replicas in placed.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert brokers.keys() >= set(replicas)
    leads = Counter(dict.fromkeys(brokers, 0) | Counter(replicas[0] for replicas in placed.values()))
    assert max(leads.values()) - min(leads.values()) <= 1
    racks = set(brokers.values())
    if None not in racks:
        for replicas in placed.values():
            assert len({brokers[broker] for broker in replicas}) == min(factor, len(racks))
    elif partitions % count == 0 and first % count == 0:
        holds = Counter(broker for replicas in placed.values() for broker in replicas)
        assert set(holds.values()) == {partitions // count * factor}
