"""The rules of replication through thousands of cluster lives: nothing acknowledged is lost, nothing read changes.

A failure prints its seed and the shortest schedule found; KAFKA_CLASSIC_SEED=<seed> plays that one first.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.replication.mutants import MUTANTS
from tests.replication.simulation import Cluster
from tests.replication.walk import Failed, play, schedule, walk

FIRST = int(os.environ.get("KAFKA_CLASSIC_SEED", random.randrange(1 << 40)))
BUDGET = 4000  # schedules in which a broken rule must show


def test_nothing_is_lost_and_nothing_read_changes_in_thousands_of_schedules() -> None:
    assert walk(range(1000)) == 1000  # the same ones each time
    assert walk(range(FIRST, FIRST + 1000)) == 1000  # others each time


@pytest.mark.soak
def test_nothing_is_lost_and_nothing_read_changes_in_a_hundred_thousand_schedules() -> None:
    walk(range(FIRST, FIRST + 100_000))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_noticed(mutant: str) -> None:
    with pytest.raises(Failed):
        walk(range(BUDGET), MUTANTS[mutant], heal=False)


def test_a_failing_schedule_is_made_small_and_fails_again_when_it_is_played() -> None:
    make = MUTANTS["CutsToHighWatermark"]
    with pytest.raises(Failed) as failed:
        walk(range(BUDGET), make)
    size, min_isr, steps = schedule(failed.value.seed)
    assert len(failed.value.steps) < len(steps) / 4
    with pytest.raises(type(failed.value.reason), match=r".") as again:
        play(make(size, min_isr), failed.value.steps)
    assert str(again.value) == str(failed.value.reason)
    assert f"seed {failed.value.seed}:" in str(failed.value)
    play(Cluster(size, min_isr), steps)


numbers = st.integers(0, 59)
actions = st.sampled_from(sorted(Cluster.ACTIONS))


class ClusterLife(RuleBasedStateMachine):
    """The same cluster with hypothesis as its fate, which looks for the simplest life that goes wrong."""

    @initialize(size=st.integers(3, 5), min_isr=st.integers(1, 2))
    def begin(self, size: int, min_isr: int) -> None:
        self.cluster = Cluster(size, min_isr)

    @rule(action=actions, a=numbers, b=numbers)
    def happens(self, action: str, a: int, b: int) -> None:
        self.cluster.step(action, a, b)

    @rule(a=numbers, b=numbers)
    def writes(self, a: int, b: int) -> None:
        self.cluster.step("produce", a, b)
        self.cluster.step("all_but_one_follow", b, a)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.heal()


TestClusterLife = ClusterLife.TestCase
TestClusterLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
