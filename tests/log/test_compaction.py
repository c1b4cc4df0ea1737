"""Compaction of one log: what stays, what goes, and what nobody notices of it."""

import dataclasses
import os
from pathlib import Path
from uuid import UUID

import pytest

from kafka_classic.log.checkpoint import CLEANED, read_checkpoint
from kafka_classic.log.compaction import Cancelled, Damaged
from kafka_classic.log.config import LogConfig
from kafka_classic.log.directory import LogDir
from kafka_classic.log.dump import verify
from kafka_classic.log.errors import StorageError
from kafka_classic.log.log import Log
from kafka_classic.records.batch import DELETE_HORIZON, BatchHeader, iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_records
from kafka_classic.records.encode import encode_batch
from tests.log.batches import NOW_MS, a_clock, batch, open_files, records, reopen
from tests.log.compacted import COMPACT, NOW, a_log, check_whole, closed, expected, keyed, last_of_each

DAY = 24 * 3600


def written(log: Log, count: int = 40, keys: int = 7, codec: Codec = Codec.NONE, start: int = 0) -> Log:
    for n in range(start, start + count):
        rows = [(b"key %d" % ((3 * n + i) % keys), b"value %d.%d" % (n, i)) for i in range(n % 4 + 1)]
        log.append(keyed(rows, codec, NOW_MS + 10 * n), 0)
        if n % 5 == 4:
            log.roll()  # small segments, several of which make one
    return closed(log)


def headers(log: Log) -> list[BatchHeader]:
    return [header for s in log.segments for _, header in iter_batches(s.path.read_bytes())]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_record_of_each_key_stays_where_it_was(tmp_path: Path, codec: Codec) -> None:
    log = written(a_log(tmp_path), codec=codec)
    before, end = records(log), log.end_offset
    done = log.compact(NOW)
    assert done is not None
    assert done.error is None
    assert records(log) == expected(before, end)
    assert last_of_each(records(log)) == last_of_each(before)
    assert (log.end_offset, log.start_offset, log.first_dirty) == (end, 0, end)
    assert {header.codec for header in headers(log) if header.record_count} == {codec}
    check_whole(log)
    log = reopen(log, recovery_point=0)
    assert records(log) == expected(before, end)
    assert log.end_offset == end


def test_the_active_segment_and_what_is_not_flushed_or_not_replicated_stay(tmp_path: Path) -> None:
    log = written(a_log(tmp_path))
    mark = log.segments[3].base
    assert log.compact(NOW, upto=mark + 1) is not None
    assert log.first_dirty == mark
    flushed = log.end_offset
    log.append(keyed([(b"key 1", b"later")]))
    log.roll()
    log.append(keyed([(b"key 2", b"in the active segment")]))
    before = records(log)
    log.compact(NOW)
    assert records(log) == expected(before, flushed)
    assert log.segments[-1].size > 0


def test_a_second_pass_keeps_what_the_first_kept_unless_it_was_replaced(tmp_path: Path) -> None:
    log = written(a_log(tmp_path))
    log.compact(NOW)
    for start in (40, 60, 61):
        written(log, count=5, start=start)
        before = records(log)
        assert log.compact(NOW) is not None
        assert records(log) == expected(before, log.end_offset)
        assert len(records(log)) == 7
    assert log.compact(NOW) is None
    check_whole(log)


def test_segments_are_put_together_up_to_the_size_of_one(tmp_path: Path) -> None:
    log = written(a_log(tmp_path), count=200, keys=3)
    assert len(log.segments) > 10
    for _ in range(4):
        written(log, count=1)
        log.compact(NOW)
    assert len(log.segments) == 2
    assert all(segment.size <= COMPACT.segment_bytes for segment in log.segments)


def test_a_tombstone_stays_until_its_horizon_and_its_key_is_gone_at_once(tmp_path: Path) -> None:
    config = dataclasses.replace(COMPACT, delete_retention_ms=1000)
    log = a_log(tmp_path, config)
    log.append(keyed([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]))
    log.append(keyed([(b"a", None), (b"b", b"2")], timestamp=NOW_MS - 10**9))
    closed(log).compact(NOW)
    assert [(r.offset, r.key, r.value) for r in records(log)] == [(2, b"c", b"1"), (3, b"a", None), (4, b"b", b"2")]
    assert [r.timestamp for r in records(log)] == [NOW_MS + 2, NOW_MS - 10**9, NOW_MS - 10**9 + 1]
    [marked] = [header for header in headers(log) if header.attributes & DELETE_HORIZON]
    assert (marked.base_timestamp, marked.max_timestamp) == (NOW_MS + 1000, NOW_MS - 10**9 + 1)
    for late, left in ((0.999, [b"c", b"a", b"b", b"x"]), (1.0, [b"c", b"b", b"x"])):
        log.append(keyed([(b"x", b"%f" % late)]))
        closed(log).compact(NOW + late)
        assert [r.key for r in records(log)] == left
    check_whole(log)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_with_the_brokers_time_keeps_it(tmp_path: Path, codec: Codec) -> None:
    log = a_log(tmp_path)
    rows = [(b"a", b"1"), (b"b", None), (b"a", b"2")]
    content = [(key, value, (("h", b"x"),), 5) for key, value in rows]
    log.append(encode_batch(content, codec, log_append_time=NOW_MS))
    closed(log).compact(NOW)
    assert [(r.offset, r.key, r.timestamp, r.headers) for r in records(log)] == [
        (1, b"b", NOW_MS, (("h", b"x"),)),
        (2, b"a", NOW_MS, (("h", b"x"),)),
    ]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.append(batch(b"no key"))
    log.append(keyed([(b"k", b"v"), (None, b"no key either"), (b"", b"the empty key")]))
    closed(log).compact(NOW)
    assert [(r.offset, r.key) for r in records(log)] == [(1, b"k"), (3, b"")]
    check_whole(log)


def test_long_keys_are_told_apart(tmp_path: Path) -> None:
    log = a_log(tmp_path, dataclasses.replace(COMPACT, segment_bytes=100_000))
    keys = [b"x" * 31, b"x" * 32, b"x" * 33, b"x" * 34, b"x" * 5000, b"x" * 4999 + b"y"]
    for value in (b"1", b"2"):
        for key in keys:
            log.append(keyed([(key, value)]))
    closed(log).compact(NOW)
    assert [(r.key, r.value) for r in records(log)] == [(key, b"2") for key in keys]


def test_what_does_not_fit_into_the_memory_waits_for_the_next_pass(tmp_path: Path) -> None:
    log = written(a_log(tmp_path), count=60, keys=100)
    everything, passes = records(log), 0
    while (done := log.compact(NOW, memory=4000)) is not None:
        passes += 1
        assert done.error is None
        assert records(log) == expected(everything, log.first_dirty)
        check_whole(log)
        if passes == 3:
            log = reopen(log)
            log.cleaned_to = done.upto
    assert passes > 3
    assert records(log) == expected(everything, log.end_offset)


class TestWhenItIsWorthIt:
    def test_only_above_the_dirty_ratio(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path, dataclasses.replace(COMPACT, min_cleanable_dirty_ratio=0.5)), keys=1000)
        assert log.compact(NOW) is not None  # all of it is dirty
        written(log, count=20, keys=1000, start=1000)
        dirt = log.dirt(NOW)
        assert dirt is not None
        assert 0.2 < dirt.ratio < 0.5
        assert dirt.clean_bytes + dirt.dirty_bytes == sum(segment.size for segment in log.segments[:-1])
        assert log.compact(NOW) is None
        written(log, count=40, keys=1000, start=2000)
        assert log.compact(NOW) is not None

    def test_not_before_the_records_are_old_enough(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path, dataclasses.replace(COMPACT, min_compaction_lag_ms=1000)))
        young = next(s for s in log.segments if s.largest_timestamp > NOW_MS + 200)
        assert log.compact(NOW) is None
        assert log.compact(NOW + 1.2) is not None
        assert log.first_dirty == young.base

    def test_at_once_if_they_are_too_old(self, tmp_path: Path) -> None:
        config = dataclasses.replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
        log = written(a_log(tmp_path, config))
        assert log.compact(NOW) is None
        assert log.compact(NOW + 1.1) is not None

    def test_never_in_a_topic_that_only_deletes(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path, dataclasses.replace(COMPACT, cleanup_policy=("delete",))))
        assert log.compact(NOW + 10**6) is None

    def test_not_while_a_closed_segment_waits_for_its_commit(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        for n in range(20):
            one = keyed([(b"k", b"v" * 100)], timestamp=NOW_MS + n)
            log.stage(one, next(iter_batches(one))[1], 0)
        assert log.dirt(NOW) is None
        log.commit()
        assert log.dirt(NOW) is not None


class TestProducers:
    def test_the_last_batch_of_a_producer_stays_if_empty_so_that_a_retry_is_known(self, tmp_path: Path) -> None:
        log = a_log(tmp_path)
        for sequence in range(0, 6, 2):
            for producer in (7, 8):
                log.append(
                    keyed(
                        [(b"a", b"%d" % sequence)] * 2, producer_id=producer, producer_epoch=3, base_sequence=sequence
                    )
                )
        log.append(keyed([(b"a", b"last")]))
        closed(log).compact(NOW)
        assert [r.value for r in records(log)] == [b"last"]
        kept = {h.producer_id: (h.producer_epoch, h.base_sequence, h.last_offset_delta) for h in headers(log)}
        assert (kept[7], kept[8]) == ((3, 4, 1), (3, 4, 1))
        for path in log.dir.glob("*.snapshot"):
            path.unlink()
        log = reopen(log, recovery_point=0)
        assert {number: p.due for number, p in log.producers.producers.items()} == {7: 6, 8: 6}
        check_whole(log)
        # Once it has written again, the empty one goes.
        log.append(keyed([(b"b", b"1")], producer_id=7, producer_epoch=3, base_sequence=6))
        closed(log).compact(NOW)
        assert [h.base_sequence for h in headers(log) if h.producer_id == 7] == [6]


class TestReading:
    def test_whoever_starts_where_records_were_removed_gets_the_next_that_is_kept(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        log.compact(NOW)
        left = [record.offset for record in records(log)]
        for offset in range(log.end_offset):
            found = [r.offset for r in records(log, offset, max_bytes=1)]
            assert found == [kept for kept in left if kept >= offset]

    def test_a_slice_of_an_old_file_is_read_to_its_end(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        piece = log.read(0, 10**6)
        assert piece is not None
        data = piece.bytes()
        log.compact(NOW)
        assert piece.bytes() == data
        assert [r.offset for r in decode_records(data)] != [r.offset for r in records(log)][: len(data)]

    def test_records_are_found_by_their_time(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path), codec=Codec.GZIP)
        log.compact(NOW)
        left = records(log)
        for timestamp in range(NOW_MS - 5, NOW_MS + 410, 3):
            found = next(((r.offset, r.timestamp) for r in left if r.timestamp >= timestamp), None)
            assert log.offset_for_timestamp(timestamp) == found
        newest = max(left, key=lambda r: (r.timestamp, -r.offset))
        assert log.max_timestamp() == (newest.offset, newest.timestamp)

    def test_no_file_stays_open_and_the_indexes_are_as_a_rebuild_makes_them(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        log.compact(NOW)
        log.clean(NOW)
        held = len(open_files())
        written(log, count=1)
        log.compact(NOW)
        log.clean(NOW)
        assert len(open_files()) == held
        log.close()
        found = {path.name: path.read_bytes() for path in log.dir.glob("*index")}
        for path in log.dir.glob("*index"):
            path.unlink()
        again = reopen(log, recovery_point=0)
        again.close()
        for name, data in found.items():
            assert (log.dir / name).read_bytes() == data
        assert not list(log.dir.glob("*.cleaned")) + list(log.dir.glob("*.swap"))


class TestMeanwhile:
    def test_a_cut_below_what_is_compacted_ends_the_pass_and_moves_the_checkpoint(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        log.compact(NOW)
        written(log, count=30, start=40)
        before = records(log)
        dirt = log.dirt(NOW)
        assert dirt is not None
        compaction = log.begin_compaction(dirt, NOW)
        compaction.read_keys()
        group = compaction.groups()[0]
        assert compaction.rewrite(group)
        log.truncate_to(20)
        with pytest.raises(Cancelled):
            log.swap(compaction, group)
        with pytest.raises(Cancelled):
            compaction.rewrite(compaction.groups()[-1])
        log.end_compaction(compaction, done=True)
        compaction.discard()
        assert log.first_dirty == 20
        assert records(log) == [r for r in before if r.offset < 20]
        written(log, count=5, start=100)
        now = records(log)
        assert log.compact(NOW) is not None
        assert records(log) == expected(now, log.end_offset)

    def test_a_cut_above_it_does_not_disturb_it(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        log.append(keyed([(b"x", b"1")]))
        log.append(keyed([(b"x", b"2")]))
        dirt = log.dirt(NOW)
        assert dirt is not None
        compaction = log.begin_compaction(dirt, NOW)
        log.truncate_to(log.end_offset - 1)
        assert not compaction.cancelled

    def test_retention_of_a_segment_that_it_reads_ends_the_pass(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path, dataclasses.replace(COMPACT, cleanup_policy=("compact", "delete"))))
        dirt = log.dirt(NOW)
        assert dirt is not None
        compaction = log.begin_compaction(dirt, NOW)
        compaction.read_keys()
        groups = compaction.groups()
        assert compaction.rewrite(groups[0])
        log.config = dataclasses.replace(log.config, retention_bytes=log.size // 2)
        log.clean(NOW)
        before = records(log)
        with pytest.raises(Cancelled):
            log.swap(compaction, groups[0])
        log.end_compaction(compaction, done=False)
        compaction.discard()
        assert records(log) == before
        assert log.compact(NOW) is not None
        check_whole(log)

    def test_a_log_that_is_deleted_or_closed_ends_the_pass(self, tmp_path: Path) -> None:
        for name, end in (("a", Log.delete), ("b", Log.close)):
            log = written(a_log(tmp_path / name))
            dirt = log.dirt(NOW)
            assert dirt is not None
            compaction = log.begin_compaction(dirt, NOW)
            end(log)
            with pytest.raises(Cancelled):
                compaction.read_keys()
            compaction.discard()
            log.end_compaction(compaction, done=False)

    def test_appends_go_on_and_deleted_records_stay_deleted(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        dirt = log.dirt(NOW)
        assert dirt is not None
        compaction = log.begin_compaction(dirt, NOW)
        compaction.read_keys()
        end = log.end_offset
        written(log, count=10, start=40)
        log.advance_start_offset(13)
        before = records(log)
        for group in compaction.groups():
            assert compaction.rewrite(group)
            log.swap(compaction, group)
            assert records(log, 13)[-1] == before[-1]
        log.end_compaction(compaction, done=True)
        compaction.discard()
        assert records(log) == expected(before, end)
        assert (log.start_offset, log.first_dirty) == (13, end)


class TestDamage:
    def test_a_damaged_batch_stops_it_and_everything_stays(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        for segment in (log.segments[2], log.segments[-2]):
            data = bytearray(segment.path.read_bytes())
            whole = bytes(data)
            data[-1] ^= 1
            segment.path.write_bytes(data)
            done = log.compact(NOW)
            assert done is not None
            assert isinstance(done.error, Damaged)
            assert segment.path.name in str(done.error)
            assert log.first_dirty == 0
            segment.path.write_bytes(whole)
        assert not list(log.dir.glob("*.cleaned"))
        before = records(log)
        assert log.compact(NOW) is not None
        assert records(log) == expected(before, log.end_offset)

    def test_a_disk_that_is_full_costs_nothing_but_the_pass(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = written(a_log(tmp_path))
        before = records(log)

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", full)
            with pytest.raises(OSError, match="space"):
                log.compact(NOW)
        assert log.failed is None
        assert not list(log.dir.glob("*.cleaned"))
        assert records(log) == before
        assert log.compact(NOW) is not None

    def test_a_swap_that_fails_takes_the_log_offline_and_the_next_start_finishes_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = written(a_log(tmp_path))
        before, real = records(log), Path.unlink

        def broken(path: Path, missing_ok: bool = False) -> None:
            if path.suffix == ".log":
                raise OSError(5, "Input/output error")
            real(path, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", broken)
            with pytest.raises(StorageError):
                log.compact(NOW)
        assert log.failed is not None
        log = reopen(log)
        check_whole(log)
        assert last_of_each(records(log)) == last_of_each(before)
        log.compact(NOW)
        assert records(log) == expected(before, log.end_offset)


class TestFollowers:
    def test_a_follower_takes_a_compacted_log_and_ends_where_it_ends(self, tmp_path: Path) -> None:
        leader = written(a_log(tmp_path / "leader"), count=60)
        leader.compact(NOW)
        follower = a_log(tmp_path / "follower")
        while (piece := leader.read(follower.end_offset, 300)) is not None:
            follower.append_as_follower(piece.bytes())
        assert records(follower) == records(leader)
        assert follower.end_offset == leader.end_offset
        check_whole(follower)
        closed(follower)
        assert reopen(follower, recovery_point=0).end_offset == leader.end_offset
        follower.compact(NOW)
        assert records(follower) == records(leader)

    def test_epochs_of_which_no_record_is_left_are_known_even_after_a_crash(self, tmp_path: Path) -> None:
        log = a_log(tmp_path, dataclasses.replace(COMPACT, segment_bytes=5000))
        for epoch in range(1, 7):
            for n in range(10):
                log.append(keyed([(b"key %d" % n, b"in epoch %d" % epoch)] * 3), epoch)
        closed(log)
        ends = [log.epoch_end_offset(epoch) for epoch in range(8)]
        log.compact(NOW)
        assert {header.leader_epoch for header in headers(log)} < set(range(1, 7))
        for one in (log, reopen(log, recovery_point=0)):
            assert [one.epoch_end_offset(epoch) for epoch in range(8)] == ends


class TestTheDirectory:
    def test_the_checkpoint_of_the_cleaner_outlives_a_crash_and_names_compacted_logs(self, tmp_path: Path) -> None:
        directory = LogDir(tmp_path, 1, "abc", clock=a_clock())
        directory.load()
        one = directory.open("t", 0, UUID(int=1), COMPACT)
        directory.open("plain", 0, UUID(int=2), LogConfig())
        written(one).compact(NOW)
        directory.checkpoint()
        assert read_checkpoint(tmp_path / CLEANED) == {("t", 0): one.end_offset}
        assert all(verify(segment.path, records=True) == [] for segment in one.segments)
        directory._unlock()
        again = LogDir(tmp_path, 1, "abc", clock=a_clock())
        again.load()
        assert again.open("t", 0, UUID(int=1), COMPACT).first_dirty == one.end_offset
        again.drop("t", 0)
        assert again.open("t", 0, UUID(int=3), COMPACT).first_dirty == 0
        again.close()

    def test_a_damaged_checkpoint_only_costs_a_longer_pass(self, tmp_path: Path) -> None:
        (tmp_path / CLEANED).write_text("nonsense")
        directory = LogDir(tmp_path, 1, "abc", clock=a_clock())
        directory.load()
        assert directory.open("t", 0, UUID(int=1), COMPACT).first_dirty == 0
        directory.close()

    def test_a_log_that_is_compacted_no_more_keeps_all_that_it_has_through_a_crash(self, tmp_path: Path) -> None:
        log = written(a_log(tmp_path))
        log.compact(NOW)
        left = records(log)
        log.config = LogConfig(segment_bytes=1000)
        assert records(reopen(log, recovery_point=0)) == left
