"""A group that is known by its committed offsets alone: what it passed, what is still before it, what none can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_classic.audit.committed import Passed, passed_by, tier_of, without_the_impossible
from kafka_classic.audit.findings import AtTier, Cell, Verdict, worst
from kafka_classic.audit.judge import LOG, Dossier, judge
from kafka_classic.client.spans import UNNUMBERED, Run
from kafka_classic.client.tally import Tally
from tests.audit.worlds import CellKey, World

TIER = tier_of("others")


def tally(*runs: Run) -> Tally:
    return Tally(sum(run.size for run in runs), 0, list(runs))


def passed(offset: int, published: Run, *log: Run, unread: str = "") -> AtTier:
    return passed_by({0: Passed(offset)}, {0: tally(published)}, {0: list(log)}, {0: unread})


NUMBERS = Run(0, 40, 50, 100, 109)


def test_what_lies_below_the_offset_is_passed_and_what_lies_above_is_not_here_yet() -> None:
    for offset in range(90, 120):
        found = passed(offset, NUMBERS, NUMBERS)
        behind = min(10, max(0, offset - 100))
        assert (found.count, found.expected) == (behind, 10)
        assert found.verdict is (Verdict.PASSED if behind == 10 else Verdict.UNKNOWN)
        assert (f"committed offset {offset} of partition 0" in found.why) == (behind < 10)


def test_of_numbers_that_lie_scattered_the_least_that_can_be_passed_is_claimed() -> None:
    scattered = Run(0, 0, 10, 100, 199)
    assert [passed(offset, scattered, scattered).count for offset in (100, 150, 191, 195, 199, 200)] == [
        0,
        0,
        1,
        5,
        9,
        10,
    ]


def test_messages_without_numbers_are_passed_by_their_offsets() -> None:
    run = Run(UNNUMBERED, 7, 20, 7, 19)
    assert [passed(offset, run, run).count for offset in (0, 7, 10, 20)] == [0, 0, 3, 13]


def test_what_the_log_does_not_have_the_group_may_have_passed_or_not() -> None:
    found = passed(1000, NUMBERS, Run(0, 40, 45, 100, 104))
    assert (found.verdict, found.count, found.missing) == (Verdict.UNKNOWN, 5, 0)
    assert "may have passed or not" in found.why
    assert passed(1000, NUMBERS).verdict is Verdict.UNKNOWN


def test_a_partition_without_an_offset_or_without_a_readable_log_is_unknown() -> None:
    reference = {0: tally(NUMBERS), 1: tally(NUMBERS)}
    log = {0: [NUMBERS], 1: [NUMBERS]}
    nothing = {0: Passed(200), 1: Passed(-1, "the group has committed nothing of partition 1")}
    found = passed_by(nothing, reference, log, {})
    assert (found.verdict, found.count) == (Verdict.UNKNOWN, 10)
    assert found.why == "the group has committed nothing of partition 1"
    assert passed_by({0: Passed(200)}, reference, log, {}).verdict is Verdict.UNKNOWN
    assert passed(200, NUMBERS, NUMBERS, unread="no leader").why == "no leader"
    # A partition in which nothing was published is none's concern.
    assert passed_by({0: Passed(200)}, {0: tally(NUMBERS), 1: tally()}, log, {}).verdict is Verdict.PASSED


def test_an_offset_beyond_the_logs_end_proves_nothing() -> None:
    found = {"t": {TIER: {0: Passed(10), 1: Passed(11), 2: Passed(12)}}}
    checked = without_the_impossible(found, {("t", 0): 10, ("t", 1): 10})
    assert checked["t"][TIER][0] == Passed(10)
    assert checked["t"][TIER][1] == Passed(-1, "the group has committed offset 11 of partition 1, whose log ends at 10")
    assert checked["t"][TIER][2] == Passed(12)  # whose log cannot be read: that makes it unknown


def cells_of(dossiers: list[Dossier], offset: int) -> list[Cell]:
    found = []
    for dossier in dossiers:
        counts = {**dossier.counts, TIER: {}}
        places = {partition: Passed(offset) for partition in dossier.bounds[LOG]}
        found += judge(replace(dossier, counts=counts, committed={TIER: places}))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_message_is_behind_or_before_the_offset_and_no_window_is_passed_too_early(seed: int) -> None:
    world = World(seed)
    dossiers = world.dossiers()
    ends = [read.run().last_offset + 1 for read in world.made]
    for offset in (0, 1, max(ends) // 3, max(ends) // 2, max(ends) - 1, max(ends)):
        for cell in cells_of(dossiers, offset):
            batches = world.batches_of(CellKey(cell.topic, cell.window, cell.producer))
            behind = sum(min(made.run().size, max(0, offset - made.run().first_offset)) for made in batches)
            told = cell.tiers[TIER]
            assert told.verdict is (Verdict.PASSED if behind == cell.published else Verdict.UNKNOWN)
            assert told.count <= behind
            assert told.verdict is Verdict.UNKNOWN or told.count == behind


def test_a_group_that_passed_everything_makes_nothing_complete_and_a_dead_producers_window_is_unknown() -> None:
    world = World(5)
    dead = world.made[0].key
    world.open.add(dead)
    cells = cells_of(world.dossiers(), 2**40)
    verdicts = {cell.tiers[TIER].verdict for cell in cells if (cell.topic, cell.window, cell.producer) != dead}
    assert verdicts == {Verdict.PASSED}
    (cell,) = [cell for cell in cells if (cell.topic, cell.window, cell.producer) == dead]
    assert cell.tiers[TIER].verdict is Verdict.UNKNOWN
    assert worst([Verdict.COUNTED, Verdict.PASSED]) is Verdict.PASSED  # and that is no exit code 0
    assert worst([Verdict.COMPLETE, Verdict.PASSED]) is Verdict.COMPLETE
