"""Reading: from any offset, up to a limit, whole batches, out of files that may be deleted meanwhile."""

from pathlib import Path

import pytest

from kafka_classic.log import timestamps
from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import OffsetOutOfRange
from kafka_classic.log.log import FileSlice, Log
from kafka_classic.records.batch import iter_batches
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record, decode_batch
from tests.log.batches import (
    NOW_MS,
    SMALL,
    SMALL_CLASSIC,
    a_clock,
    batch,
    fill,
    first,
    header_of,
    records,
    reopen,
    values,
)


@pytest.fixture(params=["ordinary", "classic"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    opened = Log.open(tmp_path / "t-0", SMALL if request.param == "ordinary" else SMALL_CLASSIC, clock=a_clock())
    fill(opened, 100)
    opened.flush()
    return opened


def test_every_offset_leads_to_the_batch_that_holds_it(log: Log) -> None:
    everything = records(log)
    assert [first(log, record.offset) for record in everything] == everything
    for max_bytes in (1, 300, 10_000):
        for n in range(0, len(everything), 13):
            assert records(log, everything[n].offset, max_bytes) == everything[n:]


def test_the_same_holds_after_a_crash_and_after_a_clean_restart(log: Log) -> None:
    everything = records(log)
    crashed = reopen(log)
    assert [first(crashed, r.offset) for r in everything] == everything
    crashed.close()
    closed = reopen(crashed, clean=True)
    assert [first(closed, r.offset) for r in everything] == everything
    assert records(closed) == everything


def test_the_first_batch_comes_whole_though_it_is_too_large(log: Log) -> None:
    piece = log.read(log.start_offset, 1)
    assert piece is not None
    assert len(list(iter_batches(piece.bytes()))) == 1
    assert log.read(log.start_offset, 1, min_one=False) is None


def test_no_more_than_the_wanted_bytes_come_otherwise(log: Log) -> None:
    for max_bytes in range(100, 3000, 50):
        piece = log.read(log.start_offset, max_bytes)
        assert piece is not None
        assert piece.length <= max_bytes
        whole = [header.next_offset for _, header in iter_batches(piece.bytes())]
        assert whole[-1] == piece.next_offset


def test_nothing_at_or_above_the_limit_is_returned(log: Log) -> None:
    everything = records(log)
    for limit in [r.offset for r in everything[::7]]:
        got = records(log, upto=limit, max_bytes=100_000)
        assert got == everything[: len(got)]
        assert all(r.offset < limit for r in got)
        # only the batch that the limit cuts may be missing
        assert len(got) >= len([r for r in everything if r.offset < limit]) - 2


def test_outside_of_the_log_is_out_of_range(log: Log) -> None:
    assert log.read(log.end_offset, 1000) is None
    for offset in (-1, log.end_offset + 1):
        with pytest.raises(OffsetOutOfRange, match="is not in"):
            log.read(offset, 1000)


def test_a_fetch_ends_on_an_index_entry_so_that_the_next_one_scans_nothing(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=500), clock=a_clock())
    fill(log, 200)
    entries = {log.segments[0].index.offsets[i] for i in range(len(log.segments[0].index))}
    offset = 0
    while log.end_offset - offset > 50:
        piece = log.read(offset, 2000)
        assert piece is not None
        offset = piece.next_offset
        assert offset in entries


def test_a_slice_still_reads_after_its_segment_was_deleted(log: Log) -> None:
    piece = log.read(log.start_offset, 1000)
    assert piece is not None
    before = piece.bytes()
    path = log.segments[0].path
    log.advance_start_offset(log.segments[1].base)
    assert log.clean(NOW_MS / 1000)[0] == 0
    assert not path.exists()
    assert piece.bytes() == before
    assert piece.file.fileno() >= 0


def test_a_slice_of_a_deleted_log_still_reads(log: Log) -> None:
    piece = log.read(log.start_offset, 1000)
    assert isinstance(piece, FileSlice)
    before = piece.bytes()
    log.delete()
    assert not log.dir.exists()
    assert list(log.dir.parent.iterdir()) == []
    assert piece.bytes() == before


def test_a_timestamp_finds_the_first_record_that_has_it_or_a_later_one(log: Log) -> None:
    everything = records(log)
    for timestamp in range(NOW_MS - 5, NOW_MS + 1010, 3):
        expected = next(((r.offset, r.timestamp) for r in everything if r.timestamp >= timestamp), None)
        assert log.offset_for_timestamp(timestamp) == expected, timestamp


@pytest.mark.parametrize("codec", list(Codec))
def test_a_timestamp_finds_the_record_inside_a_compressed_batch(tmp_path: Path, codec: Codec) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(batch(*[b"x"] * 50, timestamp=NOW_MS, codec=codec))
    log.append(batch(*[b"y"] * 50, timestamp=NOW_MS + 100, codec=codec))
    assert log.offset_for_timestamp(NOW_MS + 17) == (17, NOW_MS + 17)
    assert log.offset_for_timestamp(NOW_MS + 120) == (70, NOW_MS + 120)
    assert log.offset_for_timestamp(NOW_MS + 150) is None
    assert log.max_timestamp() == (99, NOW_MS + 149)


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_timestamps_may_fall_and_the_first_that_is_late_enough_is_found(tmp_path: Path, config: LogConfig) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    for n in range(150):
        log.append(batch(b"v", timestamp=NOW_MS + n * 7919 % 1009))
    log.flush()
    everything = records(log)

    def agrees(log: Log) -> None:
        for timestamp in range(NOW_MS, NOW_MS + 1012, 11):
            expected = next(((r.offset, r.timestamp) for r in everything if r.timestamp >= timestamp), None)
            assert log.offset_for_timestamp(timestamp) == expected
        largest = max(r.timestamp for r in everything)
        assert log.max_timestamp() == next((r.offset, largest) for r in everything if r.timestamp == largest)

    agrees(log)
    log.close()
    again = reopen(log, clean=True)
    agrees(again)
    agrees(reopen(again))


def test_deleted_records_are_not_found_by_timestamp(log: Log) -> None:
    everything = records(log)
    log.advance_start_offset(everything[30].offset)
    assert log.offset_for_timestamp(NOW_MS - 1) == (everything[30].offset, everything[30].timestamp)
    log.advance_start_offset(log.end_offset)
    assert log.offset_for_timestamp(NOW_MS - 1) is None
    assert log.max_timestamp() is None


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_waiting_consumers_find_their_offset_without_a_scan(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    for n in range(1000):
        at = log.end_offset
        log.append(batch(b"%d" % n))
        piece = log.read(at, 1000)
        assert piece is not None
        assert piece.next_offset == at + 1
    assert values(log, max_bytes=100_000) == [b"%d" % n for n in range(1000)]


@pytest.mark.parametrize("config", [SMALL, LogConfig(), LogConfig(classic=True)])
def test_few_batches_are_decoded_to_find_the_largest_timestamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: LogConfig
) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 300)
    log.flush()
    newest = max(records(log), key=lambda record: record.timestamp)
    log.advance_start_offset(records(log)[4].offset)  # inside of a batch
    log.append(batch(b"old", b"old", timestamp=NOW_MS))
    decoded = []

    def counted(data: bytes, max_size: int) -> list[Record]:
        decoded.append(data)
        return decode_batch(data, max_size=max_size)

    monkeypatch.setattr(timestamps, "decode_batch", counted)
    assert log.max_timestamp() == (newest.offset, newest.timestamp)
    assert len(decoded) <= 4


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1000])
def test_timestamps_are_found_while_newer_batches_are_only_staged(tmp_path: Path, segment_bytes: int) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(segment_bytes=segment_bytes, index_interval_bytes=150), clock=a_clock())
    fill(log, 5)
    newest = max(records(log), key=lambda record: record.timestamp)
    for n in range(10):
        newer = batch(b"newer", timestamp=NOW_MS + 1000 + n)
        log.stage(newer, header_of(newer), 0)
        assert log.max_timestamp() == (newest.offset, newest.timestamp)
        assert log.offset_for_timestamp(newest.timestamp) == (newest.offset, newest.timestamp)
        assert log.offset_for_timestamp(NOW_MS + 1000) is None
    log.commit()
    assert log.offset_for_timestamp(NOW_MS + 1000) == (newest.offset + 1, NOW_MS + 1000)
