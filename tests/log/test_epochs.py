"""Leader epochs: where each began and ended, and the checkpoint file."""

from pathlib import Path

import pytest

from kafka_classic.log.checkpoint import CorruptCheckpoint
from kafka_classic.log.config import LogConfig
from kafka_classic.log.epochs import FILE_NAME, LeaderEpochs
from kafka_classic.log.log import Log
from tests.log.batches import batch, reopen


def epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    cache = LeaderEpochs()
    for epoch, start in pairs:
        cache.assign(epoch, start)
    return cache


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    cache = epochs((1, 0), (3, 10), (6, 25))
    assert cache.end_offset(1, 40) == (1, 10)
    assert cache.end_offset(2, 40) == (1, 10)
    assert cache.end_offset(5, 40) == (3, 25)
    assert cache.end_offset(6, 40) == (6, 40)
    assert cache.end_offset(0, 40) == (0, 0)
    assert cache.end_offset(7, 40) == (-1, -1)
    assert cache.end_offset(-1, 40) == (-1, -1)
    assert epochs().end_offset(0, 40) == (-1, -1)


def test_an_older_epoch_changes_nothing_and_an_empty_one_is_replaced() -> None:
    cache = epochs((4, 10), (3, 12), (4, 15), (5, 20), (7, 20))
    assert list(zip(cache.epochs, cache.starts, strict=True)) == [(4, 10), (7, 20)]


def test_cutting_the_log_at_either_end_cuts_its_epochs() -> None:
    cache = epochs((1, 0), (3, 10), (6, 25))
    cache.cut_end(25)
    assert cache.latest == 3
    cache.cut_start(5)
    assert (cache.epochs, cache.starts) == ([1, 3], [5, 10])
    cache.cut_start(15)
    assert (cache.epochs, cache.starts) == ([3], [15])
    cache.clear()
    assert cache.latest == -1


def test_the_file_is_kafkas_text(tmp_path: Path) -> None:
    cache = epochs((1, 0), (3, 10))
    save = cache.save_job(tmp_path)
    assert save is not None
    save()
    assert (tmp_path / FILE_NAME).read_text() == "0\n2\n1 0\n3 10\n"
    assert cache.save_job(tmp_path) is None
    again = LeaderEpochs.read(tmp_path)
    assert (again.epochs, again.starts) == (cache.epochs, cache.starts)
    assert again.save_job(tmp_path) is None


def test_a_slow_save_does_not_overwrite_a_later_one(tmp_path: Path) -> None:
    cache = epochs((1, 0))
    slow = cache.save_job(tmp_path)
    cache.assign(2, 5)
    quick = cache.save_job(tmp_path)
    assert slow is not None
    assert quick is not None
    quick()
    slow()
    assert LeaderEpochs.read(tmp_path).latest == 2


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("0\n1\nx 0\n")
    with pytest.raises(CorruptCheckpoint):
        LeaderEpochs.read(tmp_path)


def test_a_log_knows_its_epochs_after_a_crash_with_or_without_the_file(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    for epoch in (0, 0, 2, 2, 5):
        log.append(batch(b"a", b"b"), epoch)
    assert log.last_leader_epoch == 5
    expected = [log.epoch_end_offset(e) for e in range(-1, 7)]
    assert expected == [(-1, -1), (0, 4), (0, 4), (2, 8), (2, 8), (2, 8), (5, 10), (-1, -1)]
    assert not (log.dir / FILE_NAME).exists()  # written by the first flush
    again = reopen(log)
    assert [again.epoch_end_offset(e) for e in range(-1, 7)] == expected
    again.close()
    assert (log.dir / FILE_NAME).read_text() == "0\n3\n0 0\n2 4\n5 8\n"
    (log.dir / FILE_NAME).write_bytes(b"\x00" * 20)
    healed = reopen(again, clean=True)
    assert [healed.epoch_end_offset(e) for e in range(-1, 7)] == expected


def test_an_epoch_that_the_cut_tail_began_is_forgotten(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(batch(b"a"), 1)
    log.append(batch(b"b"), 2)
    log.close()
    path = log.segments[0].path
    path.write_bytes(path.read_bytes()[:-1])
    again = reopen(log, recovery_point=0)
    assert (again.end_offset, again.last_leader_epoch) == (1, 1)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 500])
def test_epochs_that_were_cut_off_do_not_come_back_after_a_crash(tmp_path: Path, segment_bytes: int) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=segment_bytes))
    for n in range(30):
        log.append(batch(b"a"), 1 if n < 20 else 3)
    log.flush()
    log.truncate_to(11)  # the leader of epoch 4 has never seen what that of 3 wrote, but something of 2
    for n in range(11, 40):
        log.append_as_follower(batch(b"b", base_offset=n, leader_epoch=2 if n < 35 else 4))
    log = reopen(log)
    assert list(zip(log.epochs.epochs, log.epochs.starts, strict=True)) == [(1, 0), (2, 11), (4, 35)]


def test_a_flush_that_outlives_its_log_leaves_the_next_one_of_that_name_alone(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(batch(b"a"), 7)
    job = log.begin_flush()
    log.delete()
    namesake = Log.open(tmp_path / "t-0", LogConfig())
    job.run()
    assert not (namesake.dir / FILE_NAME).exists()
