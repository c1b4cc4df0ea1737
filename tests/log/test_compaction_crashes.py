"""A crash at every change to the disk during compaction: nothing is lost, and the next pass ends what this began."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kafka_classic.log.directory import LogDir
from kafka_classic.log.dump import verify
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record
from tests.log.batches import NOW_MS, a_clock, records
from tests.log.compacted import COMPACT, NOW, check_whole, closed, expected, keyed, last_of_each
from tests.log.disk import Disk, Killed, Left

ID = UUID(int=1)
CONFIG = replace(COMPACT, segment_bytes=1000, delete_retention_ms=0)


def open_in(path: Path) -> tuple[LogDir, Log]:
    directory = LogDir(path, 1, "abc", clock=a_clock())
    directory.load()
    return directory, directory.open("t", 0, ID, CONFIG)


def write(log: Log, first: int, count: int) -> None:
    for n in range(first, first + count):
        producer = log.producers.producers.get(5)
        due = producer.due if producer else 0
        sequence = (5, 1, due) if n % 6 else (-1, -1, -1)
        header = dict(zip(("producer_id", "producer_epoch", "base_sequence"), sequence, strict=True))
        value = None if n % 7 == 3 else b"%d" % n
        log.append(keyed([(b"key %d" % (n % 9), value)], Codec.NONE, NOW_MS + n, **header), n // 20)
        if n % 4 == 3:
            log.roll()
    closed(log)


def compacting(directory: LogDir, log: Log) -> None:
    log.compact(NOW)
    directory.checkpoint()


def compacting_twice(directory: LogDir, log: Log) -> None:
    log.compact(NOW)
    write(log, 60, 10)
    directory.checkpoint()
    log.compact(NOW)
    directory.checkpoint()


def compacting_and_deleting(directory: LogDir, log: Log) -> None:
    log.config = replace(CONFIG, cleanup_policy=("compact", "delete"), retention_bytes=600)
    log.compact(NOW)
    log.clean(NOW)
    directory.checkpoint()


DEEDS: list[Callable[[LogDir, Log], None]] = [compacting, compacting_twice, compacting_and_deleting]
every = pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
however = pytest.mark.parametrize("left", list(Left), ids=lambda left: left.value)


@however
@every
def test_a_crash_at_some_changes_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[LogDir, Log], None], left: Left
) -> None:
    first = 1 + DEEDS.index(deed) + 3 * list(Left).index(left)
    crash(tmp_path, monkeypatch, deed, left, range(first, 5000, 37))


@pytest.mark.soak
@however
@every
def test_a_crash_at_any_change_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[LogDir, Log], None], left: Left
) -> None:
    crash(tmp_path, monkeypatch, deed, left, range(1, 5000))


def crash(
    path: Path, patch: pytest.MonkeyPatch, deed: Callable[[LogDir, Log], None], left: Left, numbers: range
) -> None:
    """Compact again and again, each time to die at another change, until it is done before it dies."""
    disk = Disk(patch)
    for number in numbers:
        folder = path / str(number)
        directory, log = open_in(folder)
        write(log, 0, 60)
        directory.checkpoint()
        before = records(log)
        disk.dies_at = number
        died = False
        try:
            deed(directory, log)
        except Killed:
            died = True
        directory._unlock()
        disk.settle(folder, left)
        check(folder, before, log.start_offset)
        shutil.rmtree(folder)
        if not died:
            return
    raise AssertionError("it never ends")


def check(folder: Path, before: list[Record], start: int) -> None:
    """Of the records before, the last of each key is there; what is there is one of them, and a pass ends it all."""
    directory, log = open_in(folder)
    check_whole(log)
    found = records(log)
    old = [r for r in found if r.offset < 60]
    assert set(old) <= set(before)
    tombs = {r.key for r in before if last_of_each(before)[r.key].value is None}
    replaced = {r.key for r in found if r.offset >= 60}
    for key, record in last_of_each(before).items():
        if key not in tombs | replaced and record.offset >= start:
            assert record in old
    for key in tombs - replaced:
        assert last_of_each(old).get(key, last_of_each(before)[key]).value is None  # nothing deleted comes back
    assert log.end_offset >= 60
    assert log.producers.producers[5].due >= 50
    assert log.epochs.epochs[:1] == [0] or log.start_offset > 0
    assert [e for e in log.epochs.epochs if e < 3][-1] == 2
    # It goes on, is compacted to the end, stops cleanly, and is the same afterwards.
    write(log, log.end_offset, 5)
    found = records(log)
    log.compact(NOW + 1)
    left = records(log)
    last = last_of_each(expected(found, log.end_offset))
    values = {key: r.value for key, r in last.items() if r.value is not None}
    assert {key: r.value for key, r in last_of_each(left).items() if r.value is not None} == values
    assert len(left) == len({r.key for r in left})
    directory.close()
    directory, again = open_in(folder)
    assert directory.clean
    assert records(again) == left
    for segment in again.segments:
        assert verify(segment.path, records=True) == []
    assert not list(again.dir.glob("*.swap")) + list(again.dir.glob("*.cleaned"))
    directory.close()
