"""Recovery: a torn tail is cut, what is derived is rebuilt, what is not ours is left alone (P22)."""

import os
import shutil
from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import StorageError
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from tests.log.batches import (
    NOW_MS,
    SMALL,
    SMALL_CLASSIC,
    a_clock,
    batch,
    fill,
    first,
    header_of,
    names,
    records,
    reopen,
    values,
)

KINDS = [
    pytest.param(SMALL, Codec.NONE, id="uncompressed"),
    pytest.param(SMALL, Codec.GZIP, id="compressed"),
    pytest.param(SMALL_CLASSIC, Codec.NONE, id="classic"),
    pytest.param(SMALL_CLASSIC, Codec.LZ4, id="classic-compressed"),
]


def last_batch_of(log: Log) -> tuple[Path, int]:
    """The file of the last batch and its position in it."""
    segment = log.segments[-1]
    return segment.path, max(at for at, _ in segment.batches(0))


@pytest.mark.parametrize(("config", "codec"), KINDS)
def test_a_tail_torn_at_any_byte_is_cut_at_the_last_good_batch(tmp_path: Path, config: LogConfig, codec: Codec) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 25, codec=codec)
    log.flush()
    everything = records(log)
    path, start = last_batch_of(log)
    whole = path.read_bytes()
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        again = reopen(log, recovery_point=0)
        assert path.stat().st_size == start
        last = [r for r in everything if r.offset < again.end_offset]
        assert records(again) == last == everything[: len(last)]
        assert 0 < len(everything) - len(last) <= 3
    assert again.append(batch(b"goes on")) == again.end_offset - (len(batch(b"goes on")) if config.classic else 1)


@pytest.mark.parametrize(("config", "codec"), KINDS)
def test_a_tail_damaged_at_any_byte_is_cut_or_does_not_matter(tmp_path: Path, config: LogConfig, codec: Codec) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 25, codec=codec)
    log.flush()
    everything = records(log)
    path, start = last_batch_of(log)
    whole = path.read_bytes()
    before = [r for r in everything if r.offset < log.segments[-1].base or r.offset < _base_at(whole, start)]
    for at in range(start, len(whole)):
        wrong = bytearray(whole)
        wrong[at] ^= 0xA5
        path.write_bytes(wrong)
        again = reopen(log, recovery_point=0)
        got = records(again)
        if 12 <= at - start < 16:
            assert got == everything  # the leader epoch is outside of the crc, and of no concern to a reader
        elif at - start < 8 and not config.classic:
            # a base offset that is larger is not to be told from a gap; the records are still right ones
            assert [r.value for r in got] in ([r.value for r in everything], [r.value for r in before])
        else:
            assert got == before, at - start


def _base_at(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "big")


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_segments_behind_a_cut_are_removed(tmp_path: Path, config: LogConfig) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 100)
    assert len(log.segments) > 4
    path = log.segments[1].path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = reopen(log, recovery_point=0)
    assert len(again.segments) == 2
    assert names(log.dir, ".log") == [s.path.name for s in again.segments]
    assert not [name for name in names(log.dir, ".index") if int(name[:20]) > again.segments[-1].base]
    got = values(again)
    assert got == values(reopen(again))
    written = fill(again, 10, start=500)
    again.flush()
    assert values(again) == got + written


def test_a_segment_that_lost_its_tail_at_a_batchs_border_ends_the_log(tmp_path: Path) -> None:
    """Power loss may take whole batches of an older segment though a later one survived."""
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 100)
    segment = log.segments[2]
    cut = max(at for at, _ in segment.batches(0))
    data = segment.path.read_bytes()
    segment.path.write_bytes(data[:cut])
    again = reopen(log, recovery_point=0)
    assert len(again.segments) == 3
    assert again.end_offset == header_of(bytearray(data[cut:])).base_offset


def test_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 100)
    point = log.segments[-2].base + 1
    log.flush()
    path = log.segments[0].path
    data = bytearray(path.read_bytes())
    data[100] ^= 1  # damage that a scan would see
    path.write_bytes(data)
    assert reopen(log, recovery_point=point).end_offset == log.end_offset
    assert reopen(log, recovery_point=0).end_offset < log.end_offset


def test_what_was_recovered_is_flushed_before_it_is_exposed(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    fill(log, 20)
    again = reopen(log)
    assert again.recovery_point == again.exposed_offset == again.end_offset == log.end_offset


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC], ids=["ordinary", "classic"])
def test_a_log_that_was_idle_before_a_crash_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: LogConfig
) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    fill(log, 10)
    log.flush()
    waits: list[int] = []
    monkeypatch.setattr(os, "fdatasync", waits.append)
    idle = reopen(log)
    assert waits == []
    assert idle.recovery_point == idle.exposed_offset == idle.end_offset == log.end_offset
    fill(idle, 1)
    busy = reopen(idle)
    assert waits
    assert busy.recovery_point == busy.exposed_offset == busy.end_offset == idle.end_offset


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "torn", "short", "empty", "wrong", "too long", "garbage"])
@pytest.mark.parametrize("which", [".index", ".timeindex"])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_bad_index_is_built_anew(tmp_path: Path, clean: bool, damage: str, which: str, number: int) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 60)
    log.close()
    path = log.segments[number].path_of(which)
    good = path.read_bytes()
    entry = 8 if which == ".index" else 12
    if damage == "missing":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(good[:-3])
    elif damage == "short":
        path.write_bytes(good[: len(good) // entry // 2 * entry])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "wrong":
        path.write_bytes(good[:-entry] + bytes(x ^ 1 for x in good[-entry:]))
    elif damage == "too long":
        path.write_bytes(good + good[-entry:-4] + b"\x00\x7f\xff\xff")
    else:
        path.write_bytes(b"\xff" * len(good))
    again = reopen(log, clean=clean)
    everything = records(again)
    assert [first(again, r.offset) for r in everything] == everything
    assert again.max_timestamp() == (everything[-1].offset, everything[-1].timestamp)
    for record in everything[::5]:
        found = next(r for r in everything if r.timestamp >= record.timestamp)
        assert again.offset_for_timestamp(record.timestamp) == (found.offset, found.timestamp)
    again.close()
    if damage != "garbage":  # of garbage the end may by chance look right; its answers were right all the same
        assert path.read_bytes() == good


def test_leftovers_are_removed_and_strange_files_left_alone(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 40)
    log.close()
    leftovers = [
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.log.swap",
        "00000000000000000000.index.swap",
        "leader-epoch-checkpoint.123.tmp",
        "00000000000000009999.index",  # of a segment that is gone
        "00000000000000009999.timeindex",
    ]
    strange = ["notes.txt", "123.log", "0000000000000000000x.log", "partition.metadata"]
    for name in leftovers + strange:
        (log.dir / name).write_bytes(b"whatever")
    for clean in (True, False):
        again = reopen(log, clean=clean)
        assert values(again) == written
        again.close()
        present = {path.name for path in log.dir.iterdir()}
        assert not present & set(leftovers)
        assert present >= set(strange)


def test_a_swap_that_a_crash_interrupted_is_finished(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 40)
    log.close()
    path = log.segments[0].path
    path.rename(path.with_name(path.name + ".swap"))
    assert values(reopen(log)) == written


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_an_empty_active_segment_is_no_trouble(tmp_path: Path, clean: bool, config: LogConfig) -> None:
    log = Log.open(tmp_path / "t-0", config, clock=a_clock())
    written = fill(log, 40)
    log.roll()
    assert log.segments[-1].size == 0
    log.close()
    again = reopen(log, clean=clean)
    assert values(again) == written
    assert again.end_offset == log.end_offset
    more = fill(again, 5, start=100)
    again.flush()
    assert values(again) == written + more


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_with_nothing_but_an_empty_file_is_an_empty_log(tmp_path: Path, clean: bool) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for suffix in ("log", "index", "timeindex"):
        (folder / f"00000000000000000042.{suffix}").touch()
    log = Log.open(folder, SMALL, clean=clean)
    assert (log.start_offset, log.end_offset) == (42, 42)
    assert log.append(batch(b"a")) == 42


def test_segments_missing_at_the_front_move_the_start(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 60)
    log.close()
    log.segments[0].path.unlink()
    again = reopen(log, clean=True)
    assert again.start_offset == log.segments[1].base
    assert records(again)[0].offset == log.segments[1].base


def test_a_log_that_ends_below_its_start_begins_anew_there(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 20)
    again = Log.open(log.dir, SMALL, log_start=10_000)
    assert (again.start_offset, again.end_offset) == (10_000, 10_000)
    assert again.append(batch(b"a")) == 10_000


def test_a_clean_log_whose_tail_is_torn_all_the_same_is_recovered(tmp_path: Path) -> None:
    for config in (SMALL, SMALL_CLASSIC):
        log = Log.open(tmp_path / f"t-{config.classic:d}", config, clock=a_clock())
        fill(log, 20)
        log.close()
        path, start = last_batch_of(log)
        path.write_bytes(path.read_bytes()[:-1])
        again = reopen(log, clean=True)
        assert path.stat().st_size == start
        assert again.end_offset < log.end_offset


def test_an_ordinary_log_is_not_opened_as_a_classic_one(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 40)
    log.close()
    for clean in (True, False):
        with pytest.raises(StorageError, match="cannot become one"):
            Log.open(log.dir, SMALL_CLASSIC, clean=clean)
    assert values(reopen(log)) == written


def test_batches_larger_than_any_buffer_are_recovered_whole(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(), clock=a_clock())
    log.append(batch(b"before"))
    log.append(batch(b"\x5a" * 11_000_000))
    log.append(batch(b"after"))
    again = reopen(log)
    assert again.end_offset == 3
    path = log.segments[0].path
    with path.open("r+b") as file:
        file.seek(9_000_000)
        file.write(b"\x00")
    cut = reopen(again, recovery_point=0)
    assert cut.end_offset == 1
    assert values(cut) == [b"before"]


def test_a_copied_log_is_the_same_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 50)
    shutil.copytree(log.dir, tmp_path / "t-1")
    copied = Log.open(tmp_path / "t-1", SMALL)
    assert values(copied) == written
    assert copied.max_timestamp() == log.max_timestamp()
    assert copied.offset_for_timestamp(NOW_MS + 100) == log.offset_for_timestamp(NOW_MS + 100)


def test_an_index_of_a_log_that_is_empty_is_not_believed(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=100), clock=a_clock())
    for _ in range(10):
        log.append(batch(b"a", timestamp=-1))  # without timestamps only the index of offsets has entries
    log.close()
    os.truncate(log.segments[0].path, 0)
    again = reopen(log, clean=True)
    assert again.end_offset == 0
    assert again.append(batch(b"b")) == 0
