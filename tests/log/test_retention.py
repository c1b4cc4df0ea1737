"""Retention: by time, by size, by the log's start; whole segments, oldest first."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_classic.log import retention
from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import OffsetOutOfRange
from kafka_classic.log.log import Log
from tests.log.batches import NOW_MS, SMALL, a_clock, batch, fill, header_of, names, records, reopen, values


class Piece(NamedTuple):
    base: int
    next_offset: int
    size: int
    largest_timestamp: int


PIECES = [Piece(0, 10, 100, 1000), Piece(10, 20, 200, 3000), Piece(20, 30, 50, 2000), Piece(30, 30, 0, -1)]


def test_segments_older_than_the_retention_time_go_up_to_the_first_that_is_not() -> None:
    assert retention.expired(PIECES, retention.too_old(3001, 2000), 30) == 1
    assert retention.expired(PIECES, retention.too_old(9000, 2000), 30) == 3
    assert retention.expired(PIECES, retention.too_old(9000, -1), 30) == 0
    assert retention.expired(PIECES, retention.too_old(9000, 2000), 25) == 2  # not above the limit


def test_segments_go_while_the_log_without_them_is_still_large_enough() -> None:
    assert retention.expired(PIECES, retention.too_much(350, 250), 30) == 1
    assert retention.expired(PIECES, retention.too_much(350, 251), 30) == 0
    assert retention.expired(PIECES, retention.too_much(350, 0), 30) == 3
    assert retention.expired(PIECES, retention.too_much(350, -1), 30) == 0


def test_segments_below_the_start_go() -> None:
    assert retention.expired(PIECES, retention.below_start(19), 30) == 1
    assert retention.expired(PIECES, retention.below_start(20), 30) == 2


@pytest.mark.parametrize("classic", [False, True])
def test_old_segments_are_deleted_with_all_their_files(tmp_path: Path, classic: bool) -> None:
    config = LogConfig(segment_bytes=2000, retention_ms=1000, classic=classic)
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 100)  # timestamps over one second
    log.flush()
    kept = [r.value for r in records(log)]
    third = log.segments[2]
    deleted = log.clean((third.max_timestamp + 1000) / 1000)
    assert deleted == [s for s in deleted if s < third.base]
    assert len(deleted) == 2
    assert log.start_offset == third.base
    remaining = values(log)
    assert remaining == kept[-len(remaining) :]
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        assert not [name for name in names(log.dir, suffix) if int(name[:20]) < third.base]
    assert reopen(log).start_offset == third.base


def test_an_expired_active_segment_is_rolled_and_deleted(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(retention_ms=1000), clock=a_clock())
    fill(log, 5)
    end = log.end_offset
    assert log.clean(NOW_MS / 1000 + 2) == [0]
    assert (log.start_offset, log.end_offset, log.size) == (end, end, 0)
    assert log.clean(NOW_MS / 1000 + 3) == []
    log.append(batch(b"new"))
    assert values(log) == [b"new"]
    assert [r.offset for r in records(reopen(log))] == [end]


def test_a_fresh_batch_that_is_only_staged_does_not_go_with_the_old_segment(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(retention_ms=1000), clock=a_clock())
    fill(log, 5)
    end = log.end_offset
    fresh = batch(b"fresh", timestamp=NOW_MS + 5000)
    assert log.stage(fresh, header_of(fresh), 0) == end
    log.clean(NOW_MS / 1000 + 5)
    log.commit()
    assert values(log, end) == [b"fresh"]


def test_the_log_is_kept_at_its_largest_size(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=2000, retention_bytes=5000), clock=a_clock())
    fill(log, 100)
    log.clean(NOW_MS / 1000)
    assert 5000 <= log.size < 7000


def test_what_went_by_age_does_not_count_again_when_the_size_is_looked_at(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(retention_ms=16_000), clock=a_clock())
    for n in range(4):
        log.append(batch(b"x" * 100, timestamp=NOW_MS + 10_000 * n))
        log.roll()
    size = log.segments[0].size
    log.config = replace(log.config, retention_bytes=2 * size)
    assert log.clean(NOW_MS / 1000 + 30) == [0, 1]
    assert log.size == 2 * size


def test_a_topic_that_is_only_compacted_keeps_old_segments(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2000, retention_ms=1, retention_bytes=1, cleanup_policy=("compact",))
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 100)
    assert log.clean(NOW_MS / 1000 + 100) == []
    log.advance_start_offset(log.segments[2].base)
    assert len(log.clean(NOW_MS / 1000 + 100)) == 2


def test_without_timestamps_age_counts_from_the_last_write(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(retention_ms=1000))
    log.append(batch(b"a", timestamp=-1))
    written = log.segments[0].path.stat().st_mtime
    assert log.clean(written + 0.5) == []
    assert log.clean(written + 1.5) == [0]


def test_a_classic_segment_found_on_disk_is_aged_by_its_last_write_without_being_read(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2000, retention_ms=1000, classic=True)
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 100)
    log.close()
    again = reopen(log, clean=True)
    written = again.segments[-1].path.stat().st_mtime
    assert again.clean(written - 10) == []
    assert len(again.clean(written + 10_000_000)) == len(log.segments)


def test_delete_records_hides_at_once_and_deletes_whole_segments_later(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 100)
    everything = records(log)
    middle = everything[len(everything) // 2].offset
    log.advance_start_offset(middle)
    assert log.start_offset == middle
    with pytest.raises(OffsetOutOfRange):
        log.read(middle - 1, 100)
    assert records(log) == everything[len(everything) // 2 :]
    log.advance_start_offset(3)  # never backwards
    assert log.start_offset == middle
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_offset(log.end_offset + 1)
    deleted = log.clean(NOW_MS / 1000)
    assert deleted
    assert log.segments[0].next_offset > middle
    again = reopen(log)
    assert records(again) == everything[len(everything) // 2 :]


def test_nothing_above_the_given_limit_is_deleted(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=2000, retention_ms=1), clock=a_clock())
    fill(log, 100)
    log.clean(NOW_MS / 1000 + 100, upto=log.segments[1].next_offset)
    assert log.start_offset == log.segments[0].base > 0
    assert len(log.segments) > 1
