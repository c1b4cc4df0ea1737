"""The rebalancer through thousands of lives of a group: nobody reads what another reads, and it always converges.

A failure prints its seed and the shortest schedule found; KAFKA_CLASSIC_SEED=<seed> plays that one first.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.consumer.mutants import MUTANTS
from tests.consumer.simulation import World
from tests.consumer.walk import Failed, play, schedule, walk

FIRST = int(os.environ.get("KAFKA_CLASSIC_SEED", random.randrange(1 << 40)))
BUDGET = 1500  # schedules in which a broken rule must show


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "kafka_classic")  # what a broken group has to say, some thousand times over


def test_one_reader_a_partition_and_an_end_to_every_rebalance_in_thousands_of_schedules() -> None:
    assert walk(range(500)) == 500  # the same ones each time
    assert walk(range(FIRST, FIRST + 500)) == 500  # others each time


@pytest.mark.soak
def test_one_reader_a_partition_and_an_end_to_every_rebalance_in_a_hundred_thousand_schedules() -> None:
    walk(range(FIRST, FIRST + 100_000))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_noticed(mutant: str) -> None:
    with pytest.raises(Failed):
        walk(range(BUDGET), MUTANTS[mutant])


def test_a_failing_schedule_is_made_small_and_fails_again_when_it_is_played() -> None:
    make = MUTANTS["ReleasesBeforeItStops"]
    with pytest.raises(Failed) as failed:
        walk(range(BUDGET), make)
    steps = schedule(failed.value.seed)
    assert len(failed.value.steps) < len(steps) / 3
    with pytest.raises(type(failed.value.reason), match=r".") as again:
        play(make(failed.value.seed), failed.value.steps)
    assert str(again.value) == str(failed.value.reason)
    play(World(failed.value.seed), steps)


numbers = st.integers(0, 59)
actions = st.sampled_from(sorted(World.ACTIONS))


class GroupLife(RuleBasedStateMachine):
    """The same group with hypothesis as its fate, which looks for the simplest life that goes wrong."""

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.world = World(seed)

    @rule(action=actions, a=numbers, b=numbers)
    def happens(self, action: str, a: int, b: int) -> None:
        self.world.step(action, a, b)

    @rule(a=numbers, b=numbers)
    def goes_on(self, a: int, b: int) -> None:
        self.world.step("deliver_all", a, b)
        self.world.step("time_passes", a, 3)
        self.world.step("run_all", a, b)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            try:
                self.world.heal()
            finally:
                self.world.end()


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
