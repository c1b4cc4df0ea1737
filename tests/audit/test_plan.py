"""Which task reads which offsets: nothing left out, nothing twice, however ranges are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.audit.source.plan import Range, between, cut, limited, split

RANGES = st.builds(
    lambda sizes: [Range("t", index, start, start + size) for index, (start, size) in enumerate(sizes)],
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 5000)), max_size=6),
)


@given(RANGES, st.none() | st.integers(1, 50), st.none() | st.integers(1, 900))
def test_the_pieces_of_a_split_cover_every_offset_once_in_order(
    ranges: list[Range], least: int | None, largest: int | None
) -> None:
    pieces = split(ranges, least, largest)
    for whole in ranges:
        own = [piece for piece in pieces if piece.at == whole.at]
        ends = [whole.start, *[piece.end for piece in own]]
        assert [piece.start for piece in own] == ends[:-1]
        assert ends[-1] == (whole.end if whole.size else whole.start)
    assert all(piece.size for piece in pieces)
    if largest is not None:
        assert all(piece.size <= largest for piece in pieces)
    if least is not None:
        assert len(pieces) >= min(least, sum(whole.size for whole in ranges))


def test_without_a_wish_there_is_one_task_for_each_partition_that_has_something() -> None:
    assert split([Range("t", 0, 5, 9), Range("t", 1, 7, 7)]) == [Range("t", 0, 5, 9)]


def test_the_largest_partition_is_cut_first() -> None:
    pieces = split([Range("t", 0, 0, 10), Range("t", 1, 0, 1000)], least=5)
    assert [piece.partition for piece in pieces] == [0, 1, 1, 1, 1]


def test_a_range_is_cut_into_pieces_of_about_one_size() -> None:
    assert [piece.size for piece in cut(Range("t", 0, 100, 110), 3)] == [3, 3, 4]


def test_a_partition_that_was_added_is_read_from_its_first_offset() -> None:
    assert between({("t", 0): 4}, {("t", 0): 9, ("t", 1): 3}) == [Range("t", 0, 4, 9), Range("t", 1, 0, 3)]


def test_what_ends_before_it_starts_is_not_read() -> None:
    assert between({("t", 0): 9}, {("t", 0): 4}) == []


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10_000)), min_size=1, max_size=6), st.integers(1, 20_000))
def test_a_limit_is_shared_out_and_every_partition_moves_on(waiting: list[tuple[int, int]], most: int) -> None:
    start = {("t", index): at for index, (at, _) in enumerate(waiting)}
    end = {("t", index): at + size for index, (at, size) in enumerate(waiting)}
    until = limited(start, end, most)
    taken = {at: until[at] - start[at] for at in end}
    assert all(0 <= taken[at] <= end[at] - start[at] for at in end)
    assert all(taken[at] for at in end if end[at] > start[at])
    assert sum(taken.values()) <= most + len(end)
