"""Appending: offsets, the write, rolling, and what the indexes hold afterwards."""

import os
from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import OffsetsOutOfOrder
from kafka_classic.log.index import OffsetIndex, TimeIndex
from kafka_classic.log.log import Log
from kafka_classic.log.segment import IndexBuilder
from kafka_classic.records.batch import CorruptBatch, iter_batches
from kafka_classic.records.codecs import Codec
from tests.log.batches import NOW_MS, SMALL, a_clock, batch, fill, header_of, names, records, reopen, values


def test_offsets_count_records_from_zero(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    assert [log.append(batch(b"a", b"b")), log.append(batch(b"c")), log.append(batch(b"d"))] == [0, 2, 3]
    assert log.end_offset == log.exposed_offset == 4
    assert [r.offset for r in records(log)] == [0, 1, 2, 3]


def test_nothing_staged_is_seen_before_the_commit(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    first, second = batch(b"a"), batch(b"b")
    assert log.stage(first, header_of(first), 3) == 0
    assert log.stage(memoryview(second), header_of(second), 3) == 1
    assert log.end_offset == 0
    assert log.read(0, 1000) is None
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == 0
    log.commit()
    assert values(log) == [b"a", b"b"]
    assert [h.leader_epoch for _, h in iter_batches(first + second)] == [3, 3]


def test_a_big_batch_stays_unseen_too_though_it_is_written_at_once(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    small, big = batch(b"a"), batch(bytes(200_000))
    log.stage(small, header_of(small), 0)
    log.stage(big, header_of(big), 0)
    assert log.segments[0].path.stat().st_size == len(small) + len(big)
    assert log.read(0, 1 << 20) is None
    log.commit()
    assert values(log) == [b"a", bytes(200_000)]


def test_the_bytes_on_disk_are_the_batches_with_offset_and_epoch_set(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    data = batch(b"a", b"b", codec=Codec.GZIP) + batch(b"c")
    log.append(data, 9)
    stored = log.segments[0].path.read_bytes()
    assert len(stored) == len(data)
    assert [(h.base_offset, h.leader_epoch) for _, h in iter_batches(stored)] == [(0, 9), (2, 9)]
    for at, header in iter_batches(stored):
        assert stored[at + 16 : at + header.size] == data[at + 16 : at + header.size]


def test_a_segment_is_rolled_before_it_grows_too_large(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 100)
    assert len(log.segments) > 3
    assert all(0 < segment.size <= 2000 for segment in log.segments)
    assert [s.base for s in log.segments] == [int(name[:20]) for name in names(log.dir, ".log")]
    assert values(log) == written


def test_staged_batches_of_one_commit_may_fill_several_segments(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    for n in range(60):
        one = batch(b"%d" % n)
        log.stage(one, header_of(one), 0)
    assert log.end_offset == 0
    assert len(log.segments) > 1
    assert log.read(0, 1000) is None
    log.commit()
    assert values(log) == [b"%d" % n for n in range(60)]


def test_a_batch_larger_than_a_segment_gets_a_segment_of_its_own(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL)
    log.append(batch(b"a"))
    log.append(batch(bytes(100_000)))
    log.append(batch(b"b"))
    assert [s.base for s in log.segments] == [0, 1, 2]
    assert values(log) == [b"a", bytes(100_000), b"b"]


def test_a_segment_is_rolled_by_the_age_of_its_first_timestamp(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_ms=1000), clock=a_clock())
    log.append(batch(b"a", timestamp=NOW_MS))
    log.append(batch(b"b", timestamp=NOW_MS + 1000))
    assert len(log.segments) == 1
    log.append(batch(b"c", timestamp=NOW_MS + 1001))
    assert [s.base for s in log.segments] == [0, 2]


def test_without_timestamps_a_segment_is_rolled_by_the_time_it_was_made(tmp_path: Path) -> None:
    now = [1000.0]
    log = Log.open(tmp_path / "t-0", LogConfig(segment_ms=5000), clock=lambda: now[0])
    log.append(batch(b"a", timestamp=-1))
    log.append(batch(b"b", timestamp=-1))
    now[0] += 5.001
    log.append(batch(b"c", timestamp=-1))
    assert [s.base for s in log.segments] == [0, 2]


def test_jitter_lets_a_segment_be_rolled_earlier_but_never_later(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_ms=1000, segment_jitter_ms=1000), clock=a_clock())
    for n in range(20):
        log.append(batch(b"a", timestamp=NOW_MS + 1001 * n))
    assert len(log.segments) == 20


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_index_bytes=120, index_interval_bytes=0))
    written = fill(log, 35)
    assert len(log.segments) > 2
    assert all(len(s.index) <= 10 for s in log.segments)
    assert values(log) == written


def test_an_offset_too_far_for_the_index_rolls_the_segment(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    offsets = [0, 2**31 - 1, 2**31, 2**40]
    for offset in offsets:
        log.append_as_follower(batch(b"far", base_offset=offset))
    assert [s.base for s in log.segments] == [0, 2**31, 2**40]
    assert [r.offset for r in records(log)] == offsets
    again = reopen(log)
    assert [r.offset for r in records(again)] == offsets
    assert again.end_offset == 2**40 + 1


def test_an_empty_log_takes_a_leaders_batch_from_far_ahead(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append_as_follower(batch(b"far", base_offset=2**40))
    assert [r.offset for r in records(log)] == [2**40]
    assert log.end_offset == 2**40 + 1


def test_the_index_is_what_the_plain_builder_makes_of_the_same_batches(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=300), clock=a_clock())
    for n in range(200):  # timestamps that rise and fall, sizes that differ
        log.append(batch(bytes(n * 37 % 500), timestamp=NOW_MS + n * 7919 % 1000))
    log.close()
    stored = log.segments[0].path.read_bytes()
    index = OffsetIndex.empty()
    builder = IndexBuilder(0, 300, index)
    for position, header in iter_batches(stored):
        builder.add(position, header)
    builder.times.add(builder.max_timestamp, builder.max_timestamp_offset)
    assert log.segments[0].path_of(".index").read_bytes() == index.dump()
    assert log.segments[0].path_of(".timeindex").read_bytes() == builder.times.dump()
    assert len(index) > 50
    last = TimeIndex.map(log.segments[0].path_of(".timeindex")).last
    assert last is not None
    assert last[0] == NOW_MS + max(n * 7919 % 1000 for n in range(200))


def test_a_follower_keeps_offsets_and_epochs_as_they_are(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    data = batch(b"a", b"b", base_offset=5, leader_epoch=2) + batch(b"c", base_offset=9, leader_epoch=4)
    log.append_as_follower(bytes(data))
    assert log.segments[-1].path.read_bytes() == data
    assert log.end_offset == 10
    assert log.epoch_end_offset(2) == (2, 9)
    assert [r.offset for r in records(log)] == [5, 6, 9]
    assert [r.offset for r in records(log, 7)] == [9]  # a gap is passed over


def test_a_follower_ignores_half_a_batch_at_the_end_of_a_fetch(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    data = batch(b"a", base_offset=0) + batch(b"b", base_offset=1)
    for cut in range(1, 78):
        piece = bytes(data[:-cut]) if cut < 70 else bytes(data[: len(data) // 2 + 3])
        log.truncate_fully_at(0)
        log.append_as_follower(piece)
        assert values(log) == [b"a"]


def test_a_follower_refuses_batches_that_do_not_continue_its_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(batch(b"a", b"b"))
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(batch(b"c", base_offset=1))
    wrong = batch(b"c", base_offset=2)
    wrong[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(wrong)
    assert values(log) == [b"a", b"b"]


def test_a_wrong_batch_is_refused_whole_by_append(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    wrong = batch(b"b")
    wrong[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append(batch(b"a") + wrong)
    assert log.end_offset == 0


def test_new_settings_hold_from_the_next_batch_on(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(), clock=a_clock())
    fill(log, 30)
    assert len(log.segments) == 1
    log.config = SMALL
    written = fill(log, 30, start=30)
    assert len(log.segments) > 1
    assert values(log)[-len(written) :] == written


def test_old_segments_hold_no_files_open_but_the_last_few_read(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    fill(log, 400)
    assert len(log.segments) > 15
    records(log)
    log.max_timestamp()
    log.offset_for_timestamp(NOW_MS + 2000)
    log.clean(NOW_MS / 1000)
    assert len(os.listdir("/proc/self/fd")) - before < 12  # noqa: PTH208
