"""What the notebooks share: watching, tables, spreads, timelines of owners."""

from __future__ import annotations

import pytest

from kafka_classic.notebooks import lab
from kafka_classic.testing.waiting import NeverCame


def test_a_watch_notes_what_it_sees_and_leaves_out_looks_that_fail() -> None:
    seen = iter(range(1000))

    def look() -> int:
        number = next(seen)
        if number % 2:
            raise ConnectionError("away just now")
        return number

    with lab.watching(look, every=0.001) as watch:
        lab.until(lambda: len(watch.samples) >= 3, "three samples", 30)
        watch.mark("here")
    assert watch.each(lambda number: number % 2) == [0] * len(watch.samples)
    assert watch.times == sorted(watch.times)
    assert watch.marks[0][1] == "here"


def test_a_wait_that_is_in_vain_says_what_for() -> None:
    with pytest.raises(NeverCame, match="a leader did not come"):
        lab.until(lambda: False, "a leader", timeout=0.05)


def test_a_table_is_shown_as_html_and_as_text() -> None:
    table = lab.Table(("offset", "message"), [(1234567, b"<b>"), (0.12345, "x")])
    assert repr(table) == "offset     message\n1,234,567  <b>\n0.123      x"
    assert "<td>&lt;b&gt;</td>" in table._repr_html_()


def test_a_spread_has_the_median_and_both_ends() -> None:
    assert lab.Spread.of([3.0, 1.0, 10.0]) == (3.0, 1.0, 10.0)


def test_the_small_form_is_asked_for_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.size(100, 3) == 100
    monkeypatch.setenv(lab.FORM, "small")
    assert lab.size(100, 3) == 3


def test_owners_seen_again_and_again_become_tenures() -> None:
    draw = pytest.importorskip(
        "kafka_classic.notebooks.draw", reason="matplotlib is not installed", exc_type=ImportError
    )
    samples = [(0.0, {0: "a", 1: "a"}), (1.0, {0: "a"}), (2.0, {0: "b", 1: "b"}), (3.0, {0: "b", 1: "b"})]
    assert [tuple(tenure) for tenure in draw.tenures(samples)] == [
        (0, "a", 0.0, 2.0),
        (0, "b", 2.0, 3.0),
        (1, "a", 0.0, 1.0),
        (1, "b", 2.0, 3.0),
    ]
