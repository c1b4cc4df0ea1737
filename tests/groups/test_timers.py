"""One heap of timers."""

from __future__ import annotations

from kafka_classic.groups.timers import WORTH_CLEANING, Timer, Timers


def test_what_is_due_is_done_in_the_order_of_its_time() -> None:
    timers, done = Timers(), []
    for when in (3.0, 1.0, 2.0, 9.0):
        timers.at(when, lambda when=when: done.append(when))  # type: ignore[misc]
    timers.fire(3.0)
    assert done == [1.0, 2.0, 3.0]
    assert timers.next() == 9.0


def test_what_is_cancelled_is_not_done_and_not_counted() -> None:
    timers, done = Timers(), []
    kept, dropped = timers.at(1.0, lambda: done.append("kept")), timers.at(0.5, lambda: done.append("dropped"))
    timers.cancel(dropped)
    timers.cancel(dropped)
    timers.cancel(None)
    assert len(timers) == 1
    assert timers.next() == 1.0
    timers.fire(2.0)
    timers.cancel(kept)  # too late to matter
    assert done == ["kept"]
    assert len(timers) == 0
    assert timers.next() is None


def test_what_an_action_adds_and_is_due_is_done_in_the_same_go() -> None:
    timers, done = Timers(), []

    def first() -> None:
        timers.at(1.5, lambda: done.append("second"))

    timers.at(1.0, first)
    timers.fire(2.0)
    assert done == ["second"]


def test_whoever_waits_is_told_of_an_earlier_one_only() -> None:
    told: list[float | None] = []
    timers = Timers(lambda: told.append(timers.next()))
    for when in (5.0, 7.0, 3.0, 4.0):
        timers.at(when, lambda: None)
    assert told == [5.0, 3.0]


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    kept: list[Timer] = [timers.at(float(n), lambda: None) for n in range(10)]
    for n in range(100 * WORTH_CLEANING):
        timers.cancel(timers.at(1000.0 + n, lambda: None))
        assert len(timers._heap) <= 2 * WORTH_CLEANING + len(kept) + 2
    assert len(timers) == len(kept)
