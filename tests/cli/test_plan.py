"""Plans of where partitions shall live: Kafka's JSON there and back, and an even spread."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.cli.failure import CommandFailed
from kafka_classic.cli.plan import as_plan, names, read_brokers, read_plan, spread


def test_a_plan_is_the_json_of_kafkas_own_tool(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,0],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":0,"replicas":[1]}]}'
    )
    plan = read_plan(file)
    assert plan == {("t", 1): (2, 0), ("t", 0): (1,)}
    file.write_text(json.dumps(as_plan(plan)))
    assert read_plan(file) == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "is not JSON"),
        ("[]", "is not a plan"),
        ('{"partitions":[]}', "names no partition"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "is not a plan"),
        ('{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}', "is not a plan"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,"2"]}]}', "is not a plan"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "names no broker"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "names a broker twice"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            "names t-0 twice",
        ),
    ],
)
def test_a_plan_that_is_none_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(CommandFailed, match=said):
        read_plan(tmp_path / "plan.json")


def test_broker_ids_stand_between_commas() -> None:
    assert read_brokers("2, 3,1", "--replicas") == (2, 3, 1)
    for text in ("", "1,", "a", "1;2", "-1", "1,1"):
        with pytest.raises(CommandFailed, match="--replicas"):
            read_brokers(text, "--replicas")


@given(
    brokers=st.lists(st.integers(0, 50), min_size=1, max_size=8, unique=True),
    partitions=st.integers(1, 40),
    data=st.data(),
)
def test_a_spread_is_even_and_names_no_broker_twice(brokers: list[int], partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = spread(dict.fromkeys(range(partitions), (99,) * factor), brokers)
    assert sorted(placed) == list(range(partitions))
    assert all(len(set(replicas)) == len(replicas) == factor for replicas in placed.values())
    assert {broker for replicas in placed.values() for broker in replicas} <= set(brokers)
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1


@given(brokers=st.integers(1, 6), partitions=st.integers(1, 20), data=st.data())
def test_what_is_spread_already_stays_where_it_is(brokers: int, partitions: int, data: st.DataObject) -> None:
    factor, start = data.draw(st.integers(1, brokers)), data.draw(st.integers(0, brokers - 1))
    ids = list(range(brokers))
    placed = spread(dict.fromkeys(range(partitions), (0,) * factor), [*ids[start:], *ids[:start]])
    assert spread(placed, ids) == placed


def test_a_factor_may_grow_and_must_fit() -> None:
    assert spread({0: (1,), 1: (2,)}, [1, 2, 3], 3) == {0: (1, 2, 3), 1: (2, 3, 1)}
    with pytest.raises(CommandFailed, match="4 replicas do not fit on 3 brokers"):
        spread({0: (1,)}, [1, 2, 3], 4)


def test_of_many_partitions_the_first_few_are_named() -> None:
    assert names([("t", 1), ("t", 0)]) == "t-0, t-1"
    assert names([("t", index) for index in range(7)]) == "t-0, t-1, t-2, t-3, t-4 … (7 in all)"
