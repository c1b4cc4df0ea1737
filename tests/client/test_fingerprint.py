"""Fingerprints: the same however messages are cut and counted, another as soon as one differs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.client.fingerprint import NOTHING, Fingerprint, fingerprint, word, words_of

cells = st.one_of(st.none(), st.binary(max_size=6))
headers = st.lists(st.tuples(st.text(max_size=3), cells), max_size=2)
records = st.tuples(cells, cells, headers, st.integers(0, 2**63 - 1))


@given(st.lists(records, min_size=1, max_size=20))
def test_columns_give_the_words_of_single_messages(found: list[tuple[bytes | None, bytes | None, list, int]]) -> None:  # type: ignore[type-arg]
    assert words_of(found) == [word(*one) for one in found]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=30), st.integers(0, 30), st.integers(0, 2**31))
def test_parts_add_up_wherever_they_are_cut(words: list[int], cut: int, first: int) -> None:
    whole = fingerprint(words, range(first, first + len(words)))
    one = fingerprint(words[:cut]).moved(first)
    other = fingerprint(words[cut:]).moved(first + len(words[:cut]))
    assert one.plus(other) == other.plus(one) == whole
    assert Fingerprint.from_json(whole.to_json()) == whole
    assert whole.plus(NOTHING) == whole


def test_a_swap_of_two_messages_is_seen_though_sum_and_xor_stay() -> None:
    one, other = fingerprint([1, 2, 3]), fingerprint([2, 1, 3])
    assert (one.sum, one.xor) == (other.sum, other.xor)
    assert one != other


def test_null_empty_and_shifted_contents_differ() -> None:
    contents = [
        (None, None),
        (None, b""),
        (b"", None),
        (b"", b""),
        (b"a", b"b"),
        (b"ab", b""),
        (b"", b"ab"),
        (None, b"ab"),
    ]
    assert len({word(key, value, (), 5) for key, value in contents}) == len(contents)
    assert word(None, b"x", (), 5) != word(None, b"x", (), 6)
    assert word(None, b"x", (), 5) != word(None, b"x", (("h", None),), 5)
