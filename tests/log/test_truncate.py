"""Truncation: a follower's log is cut where it left its leader's."""

from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from tests.log.batches import SMALL, SMALL_CLASSIC, a_clock, batch, fill, header_of, names, records, reopen, values


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_every_offset_can_be_cut_at_and_appended_after(tmp_path: Path, config: LogConfig) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 60)
    log.flush()
    everything = records(log)
    for record in reversed(everything):
        log.truncate_to(record.offset)
        assert record.offset - 100 <= log.end_offset <= record.offset
        assert log.recovery_point <= log.end_offset
        log.flush()
        left = [r for r in everything if r.offset < log.end_offset]
        assert records(log, max_bytes=100_000) == left
        assert len(names(log.dir, ".log")) == len(log.segments)
    assert log.end_offset == 0
    written = fill(log, 60)
    log.flush()
    assert values(log) == written
    assert values(reopen(log)) == written


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_a_cut_log_is_found_again_after_a_crash_and_after_a_clean_stop(tmp_path: Path, config: LogConfig) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 60)
    log.flush()
    everything = records(log)
    log.truncate_to(everything[40].offset)
    log.flush()
    left = records(log)
    assert records(reopen(log)) == left
    log.close()
    again = reopen(log, clean=True)
    assert records(again) == left
    assert again.max_timestamp() == max(((r.offset, r.timestamp) for r in left), key=lambda pair: pair[1])
    more = fill(again, 20, start=300)
    again.flush()
    assert values(again) == [r.value for r in left] + more


def test_above_the_end_nothing_is_cut(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 10)
    log.truncate_to(log.end_offset)
    log.truncate_to(log.end_offset + 10)
    assert values(log) == written


def test_epochs_are_cut_with_the_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    for epoch in (1, 2, 3):
        fill(log, 20, epoch=epoch)
    at = log.epoch_end_offset(1)[1]
    log.truncate_to(at)
    assert log.last_leader_epoch == 1
    log.append(batch(b"a"), 4)
    assert log.epoch_end_offset(3) == (1, at)


def test_fully_truncated_the_log_goes_on_at_the_given_offset(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 60)
    log.truncate_fully_at(5000)
    assert (log.start_offset, log.end_offset, log.size) == (5000, 5000, 0)
    assert names(log.dir, ".log") == ["00000000000000005000.log"]
    assert log.append(batch(b"a")) == 5000
    again = reopen(log)
    assert [r.offset for r in records(again)] == [5000]
    assert again.start_offset == 5000


def test_what_is_staged_must_be_committed_first(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL)
    one = batch(b"a")
    log.stage(one, header_of(one), 0)
    for cut in (log.truncate_to, log.truncate_fully_at):
        with pytest.raises(ValueError, match="commit what is staged"):
            cut(0)
    log.commit()
    log.truncate_to(0)
    assert log.end_offset == 0


def test_a_flush_that_was_under_way_does_not_count_for_what_was_written_after_the_cut(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    fill(log, 20)
    job = log.begin_flush()
    log.truncate_to(0)
    fill(log, 40)
    job.run()
    log.end_flush(job)
    assert log.recovery_point == log.exposed_offset == 0
    log.flush()
    assert log.exposed_offset == log.end_offset
