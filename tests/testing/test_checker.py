"""The checker itself: it passes what is right, and fails each kind of broken word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_classic.testing.checker import History, Load, diverged, judge, log_bytes


def history() -> History:
    """Two producers, one partition, all acknowledged but b:1, which is there all the same."""
    return History(
        sent={"a:0": 0, "b:0": 0, "a:1": 0, "b:1": 0, "b:2": 0},
        acknowledged={"a:0": (0, 0), "b:0": (0, 1), "a:1": (0, 2), "b:2": (0, 4)},
        failed={"b:1": "timed out"},
        seen={(0, 0): {"a:0"}, (0, 1): {"b:0"}, (0, 3): {"b:1"}},
        final={(0, 0): "a:0", (0, 1): "b:0", (0, 2): "a:1", (0, 3): "b:1", (0, 4): "b:2"},
    )


def test_a_word_that_was_kept() -> None:
    verdict = judge(history())
    assert verdict.kept
    assert (verdict.sent, verdict.acknowledged, verdict.unknown) == (5, 4, 1)
    assert str(verdict) == "5 sent, 4 acknowledged, 1 with no or a bad answer"


def test_what_nobody_promised_may_be_missing() -> None:
    told = history()
    del told.final[0, 3], told.seen[0, 3]
    assert judge(told).kept


def test_a_record_that_was_acknowledged_without_an_offset_must_be_there_all_the_same() -> None:
    class Message:
        def value(self) -> bytes:
            return b"b:2"

        def partition(self) -> int:
            return 0

        def offset(self) -> None:
            return None

    load = Load("127.0.0.1:1", "t", 1, idempotent=True)
    load._history = told = history()
    load._delivered(None, Message())
    assert judge(told).kept
    del told.final[0, 4]
    assert judge(told).lost


def lose(told: History) -> None:
    del told.final[0, 4]


def move(told: History) -> None:
    told.acknowledged["b:2"] = (0, 7)


def double(told: History) -> None:
    told.final[0, 5] = "b:2"


def invent(told: History) -> None:
    told.final[0, 5] = "c:9"


def stray(told: History) -> None:
    told.sent["b:2"] = 1


def swap(told: History) -> None:
    told.final[0, 3], told.final[0, 4] = "b:2", "b:1"


def vanish(told: History) -> None:
    told.seen[0, 9] = {"b:1"}


def change(told: History) -> None:
    told.seen[0, 1].add("a:7")


@pytest.mark.parametrize(
    ("breaks", "kinds"),
    [
        (lose, {"lost"}),
        (move, {"moved"}),
        (double, {"duplicated"}),
        (invent, {"strange"}),
        (stray, {"strange"}),
        (swap, {"moved", "out_of_order", "vanished"}),
        (vanish, {"vanished"}),
        (change, {"vanished"}),
    ],
)
def test_a_word_that_was_broken(breaks: Callable[[History], None], kinds: set[str]) -> None:
    told = history()
    breaks(told)
    verdict = judge(told)
    assert not verdict.kept
    found = {"lost", "moved", "duplicated", "strange", "out_of_order", "vanished"}
    assert {kind for kind in found if getattr(verdict, kind)} == kinds
    for kind in kinds:
        assert kind.replace("_", " ") in str(verdict)


def test_replicas_are_compared_byte_for_byte(tmp_path: Path) -> None:
    for broker in ("x", "y"):
        for partition in (0, 1):
            folder = tmp_path / broker / f"t-{partition}"
            folder.mkdir(parents=True)
            (folder / "00000000000000000005.log").write_bytes(b"second")
            (folder / "00000000000000000000.log").write_bytes(b"first,")
    folders = [tmp_path / "x", tmp_path / "y"]
    assert log_bytes(folders[0], "t", 0) == b"first,second"
    assert diverged(folders, "t", 2) == []
    (tmp_path / "y" / "t-1" / "00000000000000000005.log").write_bytes(b"secont")
    assert diverged(folders, "t", 2) == [1]
