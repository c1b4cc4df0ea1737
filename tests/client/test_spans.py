"""Arithmetic on runs of numbered messages, beside the same on plain sets."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.client.spans import Run, Span, add_run, common, covered, in_order, repeated, size, without

spans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 8)).map(lambda t: Span(t[0], t[1], t[1] + t[2])),
    max_size=12,
)


def names(found: list[Span]) -> Counter[tuple[int, int]]:
    return Counter((span.epoch, number) for span in found for number in range(span.first, span.next))


@given(spans)
def test_what_is_covered_is_each_name_once_in_as_few_spans_as_can_be(found: list[Span]) -> None:
    whole = covered(found)
    assert names(whole) == Counter(set(names(found)))
    assert whole == covered(whole)
    assert all(a.epoch != b.epoch or a.next < b.first for a, b in pairwise(whole))


@given(spans)
def test_every_further_copy_is_a_repeat(found: list[Span]) -> None:
    assert names(repeated(found)) == names(found) - Counter(set(names(found)))


@given(spans, spans)
def test_differences_and_what_is_common_are_those_of_sets(one: list[Span], other: list[Span]) -> None:
    mine, theirs = set(names(one)), set(names(other))
    assert set(names(without(covered(one), covered(other)))) == mine - theirs
    assert set(names(common(covered(one), covered(other)))) == mine & theirs
    assert size(common(covered(one), covered(other))) == len(mine & theirs)


def test_runs_that_follow_on_grow_together_unless_offsets_go_back() -> None:
    runs: list[Run] = []
    add_run(runs, Run(0, 0, 5, 100, 104))
    add_run(runs, Run(0, 5, 9, 110, 113))
    assert runs == [Run(0, 0, 9, 100, 113)]
    add_run(runs, Run(0, 9, 12, 50, 52))
    assert len(runs) == 2
    assert in_order([Run(0, 3, 4, 3, 3), Run(0, 0, 3, 0, 2)]) == [Run(0, 0, 4, 0, 3)]
