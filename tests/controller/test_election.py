"""Who leads, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.controller.election import (
    NO_LEADER,
    Choice,
    elect,
    elect_among,
    elect_first,
    elect_for_shutdown,
    elect_preferred,
    elect_without_the_dead,
    imbalance,
)

Ids = tuple[int, ...]


@pytest.mark.parametrize(
    ("replicas", "live", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), Choice(1, (1, 2, 3))),
        ((1, 2, 3), (3, 2), Choice(2, (2, 3))),
        ((1, 2, 3), (4,), None),
    ],
)
def test_a_new_partition(replicas: Ids, live: Ids, expected: Choice | None) -> None:
    assert elect_first(replicas, live) == expected


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 3), False, Choice(2, (2, 3))),
        ((1, 2, 3), (3, 2, 1), (3, 2), False, Choice(2, (3, 2))),  # the replica list's order, not the ISR's
        ((1, 2, 3), (1, 3), (2, 3), False, Choice(3, (3,))),  # 2 lives but is out of sync
        ((1, 2, 3), (1,), (2, 3), False, None),
        ((1, 2, 3), (1,), (2, 3), True, Choice(2, (2,))),  # records are lost, as was chosen
        ((1, 2, 3), (1, 3), (2, 3), True, Choice(3, (3,))),  # not unclean where it need not be
        ((1, 2, 3), (1,), (), True, None),
        ((1, 2, 3), (1,), (4,), True, None),
    ],
)
def test_a_partition_without_a_leader(
    replicas: Ids, isr: Ids, live: Ids, unclean: bool, expected: Choice | None
) -> None:
    assert elect(replicas, isr, live, unclean=unclean) == expected


@pytest.mark.parametrize(
    ("isr", "live", "expected"),
    [
        ((2, 1), (1, 2), Choice(1, (2, 1))),
        ((2, 1), (2,), None),
        ((2,), (1, 2), None),
    ],
)
def test_the_preferred_leader(isr: Ids, live: Ids, expected: Choice | None) -> None:
    assert elect_preferred((1, 2), isr, live) == expected


@pytest.mark.parametrize(
    ("targets", "leader", "isr", "live", "expected"),
    [
        ((2, 3), 2, (1, 2, 3), (1, 2, 3), Choice(2, (2, 3))),  # the leader stays
        ((3, 2), 1, (1, 2, 3), (1, 2, 3), Choice(3, (2, 3))),  # the leader goes: the targets' order
        ((3, 2), 1, (1, 2, 3), (1, 2), Choice(2, (2, 3))),
        ((4, 5), 1, (1,), (1, 4, 5), None),
    ],
)
def test_a_reassigned_partition(targets: Ids, leader: int, isr: Ids, live: Ids, expected: Choice | None) -> None:
    assert elect_among(targets, leader, isr, live) == expected


@pytest.mark.parametrize(
    ("leader", "isr", "registered", "live", "unclean", "expected"),
    [
        (1, (1, 2, 3), (2, 3), (2, 3), False, Choice(2, (2, 3))),  # the leader died
        (1, (1, 2, 3), (1, 3), (1, 3), False, Choice(1, (1, 3))),  # a follower died
        (1, (1, 3), (1, 3), (1, 3), False, None),  # one out of sync died
        (1, (1,), (2, 3), (2, 3), False, Choice(NO_LEADER, (1,))),  # the last in sync stays in the ISR
        (1, (1, 2), (3,), (3,), False, Choice(NO_LEADER, (1, 2))),  # both at once: either may come back to lead
        (NO_LEADER, (1, 2), (3,), (3,), False, None),
        (NO_LEADER, (1, 2), (2, 3), (2, 3), False, Choice(2, (2,))),
        (1, (1,), (2, 3), (2, 3), True, Choice(2, (2,))),
        (1, (1, 2), (1, 3), (3,), False, Choice(1, (1,))),  # 1 is about to stop, but leads until it does
        (2, (1, 2), (1, 3), (3,), False, Choice(NO_LEADER, (1, 2))),  # and takes nothing over
        (1, (2, 3), (1, 2, 3), (1, 2, 3), False, Choice(2, (2, 3))),  # the leader left: its disk fails it
        (1, (3,), (1, 2, 3), (1, 2, 3), True, Choice(3, (3,))),
        (1, (3,), (1, 2), (1, 2), False, Choice(NO_LEADER, (3,))),
    ],
)
def test_a_partition_whose_brokers_died(
    leader: int, isr: Ids, registered: Ids, live: Ids, unclean: bool, expected: Choice | None
) -> None:
    assert elect_without_the_dead((1, 2, 3), leader, isr, registered, live, unclean=unclean) == expected


@pytest.mark.parametrize(
    ("leader", "isr", "live", "expected"),
    [
        (1, (1, 2, 3), (1, 2, 3), Choice(2, (2, 3))),
        (1, (1, 3), (1, 2, 3), Choice(3, (3,))),
        (1, (1,), (1, 2, 3), None),  # nobody can take over
        (1, (1, 2), (1,), None),  # 2 cannot lead now
        (2, (1, 2), (1, 2), Choice(2, (2,))),  # it leaves the ISR before it stops
        (2, (2,), (1, 2), None),
        (NO_LEADER, (1,), (1, 2), None),
    ],
)
def test_before_broker_1_stops(leader: int, isr: Ids, live: Ids, expected: Choice | None) -> None:
    assert elect_for_shutdown(1, (1, 2, 3), leader, isr, live) == expected


def test_the_imbalance_of_a_broker() -> None:
    assert imbalance(1, []) == 0
    assert imbalance(1, [1, 1]) == 0
    assert imbalance(1, [1, 2, 3, NO_LEADER]) == 75


ids = st.lists(st.integers(0, 5), unique=True, max_size=5).map(tuple)


@given(replicas=ids, data=st.data(), live=ids)
def test_a_clean_election_takes_a_live_replica_in_sync_and_keeps_no_dead_one(
    replicas: Ids, data: st.DataObject, live: Ids
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(replicas), unique=True))) if replicas else ()
    choice = elect(replicas, isr, live, unclean=False)
    assert (choice is None) == (not set(isr) & set(live))
    if choice is not None:
        assert choice.leader in choice.isr
        assert set(choice.isr) == set(isr) & set(live)
