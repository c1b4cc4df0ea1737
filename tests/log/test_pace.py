"""How fast a compaction goes: so many bytes a second for all together, and a breath now and then in any case."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_classic.log.pace import BREATH_S, SLICE_S, Pace
from kafka_classic.records.codecs import Codec
from tests.log.compacted import NOW, a_log, closed, keyed


class Clock:
    """Time passes while somebody waits, and when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False


class Counting(Pace):
    """Notes what it is told."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(0.0, clock)
        self.counts: list[int] = []

    def took(self, count: int, wait: object) -> None:
        self.counts.append(count)


def test_no_more_bytes_a_second_than_allowed_however_they_come() -> None:
    clock = Clock()
    pace = Pace(1000.0, clock)
    for count in (100, 1, 2000, 0, 399, 2500):
        pace.took(count, clock.wait)
    assert clock.now - 100.0 == pytest.approx(5.0, abs=SLICE_S)


def test_time_in_which_nothing_was_done_is_not_saved_up() -> None:
    clock = Clock()
    pace = Pace(1000.0, clock)
    clock.now += 3600.0
    pace.took(2000, clock.wait)
    assert clock.waits == pytest.approx([2.0])


def test_a_wait_that_is_ended_early_is_still_owed() -> None:
    clock = Clock()
    pace = Pace(1000.0, clock)
    pace.took(1000, lambda seconds: True)
    pace.took(1000, clock.wait)
    assert clock.waits == pytest.approx([2.0])


def test_without_a_limit_it_takes_a_breath_after_each_slice_of_work() -> None:
    clock = Clock()
    pace = Pace(0.0, clock)
    pace.took(1 << 30, clock.wait)
    clock.waits.clear()
    for _ in range(5):
        clock.now += SLICE_S * 0.6
        pace.took(1 << 30, clock.wait)
    assert clock.waits == [BREATH_S, BREATH_S]


def test_a_compaction_tells_of_every_byte_that_it_reads_and_writes(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for n in range(200):
        log.append(keyed([(b"key %d" % (n % 9), b"%d" % n)], Codec.NONE))
    closed(log)
    held = sum(segment.size for segment in log.segments)
    dirt = log.dirt(NOW)
    assert dirt is not None
    pace = Counting(Clock())
    compaction = log.begin_compaction(dirt, NOW, pace=pace)
    compaction.read_keys()
    written = 0
    for group in compaction.groups():
        if compaction.rewrite(group):
            log.swap(compaction, group)
            written += group[0].path.stat().st_size
    log.end_compaction(compaction, done=True)
    compaction.discard()
    assert written > 0
    assert sum(pace.counts) == compaction.bytes_moved == 2 * held + written  # read for the keys, and for what stays
