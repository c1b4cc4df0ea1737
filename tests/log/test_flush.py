"""Flushing: when it is due, what it covers, and that it may run on another thread while the log goes on."""

import os
import threading
from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import StorageError
from kafka_classic.log.log import Log
from tests.log.batches import NOW_MS, SMALL, a_clock, batch, fill, open_files, path_behind, reopen, values


def test_a_flush_is_due_after_so_many_messages(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(flush_messages=3), clock=a_clock())
    log.append(batch(b"a", b"b"))
    assert not log.needs_flush(NOW_MS / 1000)
    log.append(batch(b"c"))
    assert log.needs_flush(NOW_MS / 1000)
    job = log.begin_flush()
    assert not log.needs_flush(NOW_MS / 1000)  # one is under way
    job.run()
    log.end_flush(job)
    assert log.recovery_point == log.flushed_offset == 3
    assert not log.needs_flush(NOW_MS / 1000)


def test_a_flush_is_due_after_so_many_milliseconds(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(flush_ms=500), clock=a_clock())
    assert not log.needs_flush(NOW_MS / 1000 + 100)  # there is nothing to flush
    log.append(batch(b"a"))
    assert not log.needs_flush(NOW_MS / 1000 + 0.4)
    assert log.needs_flush(NOW_MS / 1000 + 0.6)


def test_a_flush_is_due_after_a_roll(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    log.append(batch(b"a"))
    assert not log.needs_flush(NOW_MS / 1000 + 10**6)
    fill(log, 40)
    assert log.needs_flush(NOW_MS / 1000)
    log.flush()
    assert log.recovery_point == log.end_offset
    assert not log.needs_flush(NOW_MS / 1000)


def test_what_comes_during_a_flush_is_not_taken_for_flushed(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 10)
    job = log.begin_flush()
    end = log.end_offset
    fill(log, 50)  # rolls, too
    job.run()
    log.end_flush(job)
    assert log.recovery_point == end


def test_the_files_of_every_unflushed_segment_are_synced_and_old_ones_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(path_behind(fd).rsplit("/", 1)[1])

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 40)
    log.flush()
    first = {segment.path.stem for segment in log.segments}
    assert {name[:20] for name in synced if name.endswith(".log")} == first
    assert {name[:20] for name in synced if name.endswith(".index")} == first - {log.segments[-1].path.stem}
    assert {name[:20] for name in synced if name.endswith(".timeindex")} == first - {log.segments[-1].path.stem}
    assert "t-0" in synced  # the names of new files, too
    active = log.segments[-1].path.stem
    synced.clear()
    fill(log, 1)
    log.flush()
    assert [name for name in synced if name.endswith(".log")] == [f"{active}.log"]


def test_a_flush_runs_on_another_thread_while_segments_roll_and_go(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    for round_ in range(20):
        fill(log, 20, start=20 * round_)
        job = log.begin_flush()
        runner = threading.Thread(target=job.run)
        runner.start()
        fill(log, 20, start=20 * round_)
        log.advance_start_offset(log.segments[-1].base)
        log.clean(NOW_MS / 1000)
        runner.join()
        log.end_flush(job)
        assert log.failed is None
    left = values(log)
    assert values(reopen(log)) == left


def test_a_failed_fsync_takes_the_log_offline_and_is_never_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 3)
    calls = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    job = log.begin_flush()
    job.run()
    log.end_flush(job)
    assert isinstance(log.failed, StorageError)
    assert log.recovery_point == 0
    assert len(calls) == 1
    for use in (
        lambda: log.flush(),
        lambda: log.append(batch(b"x")),
        lambda: log.read(0, 100),
        lambda: log.clean(0),
        lambda: log.commit(),
        lambda: log.begin_flush(),
        lambda: log.offset_for_timestamp(0),
        lambda: log.max_timestamp(),
        lambda: log.truncate_to(0),
        lambda: log.append_as_follower(b""),
        lambda: log.epoch_end_offset(0),
    ):
        with pytest.raises(StorageError, match="restart the broker"):
            use()
    assert not log.needs_flush(NOW_MS)
    log.close()
    assert len(calls) == 1


@pytest.mark.parametrize("classic", [False, True])
def test_what_is_appended_after_a_clean_start_is_fsynced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classic: bool
) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(classic=classic), clock=a_clock())
    fill(log, 3)
    log.close()
    log = reopen(log, clean=True)
    fill(log, 1, start=3)
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(path_behind(fd)))
    log.flush()
    assert synced == [str(log.segments[-1].path)]


def test_a_log_that_nothing_was_written_to_is_closed_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 50)
    log.close()
    log = reopen(log, clean=True)
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(path_behind(fd)))
    monkeypatch.setattr(os, "fsync", os.fdatasync)
    log.close()
    assert synced == []
    log = reopen(log, clean=True)
    log.truncate_to(log.end_offset - 1)
    written = written[: len(values(log))]
    written += fill(log, 1)
    log.close()
    assert synced
    assert values(reopen(log, clean=True)) == written


def test_however_many_segments_are_rolled_few_files_stay_open(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    before = len(open_files())
    written = fill(log, 1000)
    assert len(log.segments) > 40
    assert len(open_files()) - before < 10
    job = log.begin_flush()
    assert len(open_files()) - before < 10
    job.run()
    log.end_flush(job)
    assert log.recovery_point == log.end_offset
    assert values(log) == written
    assert len(open_files()) - before < 15
    log = reopen(log, recovery_point=0)
    assert len(open_files()) - before < 15


def test_a_flush_covers_segments_that_are_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 200)
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(path_behind(fd)))
    monkeypatch.setattr(os, "fsync", os.fdatasync)
    log.flush()
    assert {str(segment.path) for segment in log.segments} <= set(synced)
