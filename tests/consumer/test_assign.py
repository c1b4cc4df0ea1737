"""Algorithm 1 of the paper (P17), over all sizes, and the plan of a whole group."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.consumer.assign import assign, consumer_id, plan, subscribed, thread_id, thread_of
from kafka_classic.zk.subscriptions import Subscription


def test_p17_for_all_sizes_every_partition_has_one_owner_in_order_and_the_remainder_goes_to_the_first() -> None:
    for count in range(41):
        partitions = list(range(count))
        for size in range(1, 41):
            consumers = [f"c{number:02}" for number in range(size)]
            assigned = assign(partitions[::-1], consumers[::-1])
            assert list(assigned) == consumers
            assert [partition for name in consumers for partition in assigned[name]] == partitions
            sizes = [len(assigned[name]) for name in consumers]
            assert sizes == [count // size + 1] * (count % size) + [count // size] * (size - count % size)


def test_p17_the_ranges_are_those_of_the_paper_when_it_comes_out_even() -> None:
    for size in range(1, 41):
        for each in range(1, 6):
            assigned = assign(range(size * each), [f"c{number:02}" for number in range(size)])
            for position, partitions in enumerate(assigned.values()):
                assert partitions == list(range(position * each, (position + 1) * each))


def test_nobody_gets_nothing_of_anything() -> None:
    assert assign([1, 2], []) == {}
    assert plan({}, {"a": Subscription({"t": 1})}) == {}
    assert plan({"t": [0]}, {}) == {}


def test_threads_share_a_topic_and_each_topic_is_divided_by_itself() -> None:
    members = {"b": Subscription({"t": 2, "u": 1}), "a": Subscription({"t": 1})}
    assert plan({"t": range(5), "u": [0], "v": [0]}, members) == {
        ("t", 0): "a-0",
        ("t", 1): "a-0",
        ("t", 2): "b-0",
        ("t", 3): "b-0",
        ("t", 4): "b-1",
        ("u", 0): "b-0",
    }


@pytest.mark.parametrize(
    ("pattern", "expression", "wanted"),
    [
        ("white_list", "ab.*", ["ab", "abc"]),
        ("white_list", "ab", ["ab"]),
        ("white_list", "ab, x", ["ab", "x"]),
        ("white_list", ".*", ["ab", "abc", "x"]),
        ("black_list", "ab.*", ["x"]),
        ("black_list", "", ["ab", "abc", "x"]),
        ("white_list", "(", []),
    ],
)
def test_a_pattern_matches_whole_names_and_no_internal_topic(pattern: str, expression: str, wanted: list[str]) -> None:
    topics = {"ab": [0], "abc": [0], "x": [0], "__consumer_offsets": [0]}
    subscription = Subscription({expression: 2}, pattern)  # type: ignore[arg-type]
    assert subscribed(subscription, topics) == dict.fromkeys(wanted, 2)


def test_names_are_kafkas() -> None:
    consumer = consumer_id("readers", "host-1", 1700000000000, 0xABCDEF0123456789)
    assert consumer == "readers_host-1-1700000000000-23456789"
    assert thread_of(thread_id(consumer, 12)) == (consumer, 12)


topic_names = st.sampled_from(["a", "ab", "b", "__consumer_offsets"])
subscriptions = st.one_of(
    st.builds(Subscription, st.dictionaries(topic_names, st.integers(0, 4), max_size=3)),
    st.builds(
        Subscription,
        st.dictionaries(st.sampled_from(["a.*", "b", ".*", "["]), st.integers(0, 3), min_size=1, max_size=1),
        st.sampled_from(["white_list", "black_list"]),
    ),
)


@given(
    st.dictionaries(topic_names, st.integers(0, 30).map(range)),
    st.dictionaries(st.text("ab-1", min_size=1, max_size=4), subscriptions, max_size=6),
)
def test_a_plan_covers_what_is_wanted_and_nothing_else(
    topics: dict[str, range], members: dict[str, Subscription]
) -> None:
    made = plan(topics, members)
    wanted = {name: subscribed(subscription, topics) for name, subscription in members.items()}
    for topic, partitions in topics.items():
        threads = {thread_id(name, n) for name, wants in wanted.items() for n in range(wants.get(topic, 0))}
        owners = [made.get((topic, partition)) for partition in partitions]
        if not threads:
            assert owners == [None] * len(partitions)
            continue
        assert {owner for owner in owners if owner} <= threads
        assert None not in owners
        sizes = [owners.count(thread) for thread in sorted(threads)]
        assert max(sizes) - min(sizes) <= 1
        assert all(first >= second for first, second in pairwise(sizes))
        assert owners == sorted(owners, key=str)
    assert set(made) <= {(topic, partition) for topic, partitions in topics.items() for partition in partitions}
    assert made == plan(dict(reversed(topics.items())), dict(reversed(members.items())))
