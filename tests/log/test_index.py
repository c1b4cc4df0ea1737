"""The index files: Kafka's bytes, the same answers from memory and from the mapped file."""

import random
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from kafka_classic.log.classic import BatchStarts
from kafka_classic.log.index import GrowingOffsetIndex, GrowingTimeIndex, OffsetIndex, TimeIndex


def test_the_offset_index_has_kafkas_bytes(tmp_path: Path) -> None:
    index = OffsetIndex.empty()
    index.add(5, 4200)
    index.add(2**31 - 1, 2**31)
    assert index.dump() == struct.pack(">IIII", 5, 4200, 2**31 - 1, 2**31)
    path = tmp_path / "0.index"
    path.write_bytes(index.dump())
    assert GrowingOffsetIndex.read(path).dump() == index.dump()


def test_the_time_index_has_kafkas_bytes(tmp_path: Path) -> None:
    times = TimeIndex.empty()
    times.add(1_700_000_000_000, 5)
    times.add(1_700_000_000_000, 6)  # not larger: no entry
    times.add(1_700_000_000_001, 7)
    times.add(-1, 8)
    assert times.dump() == struct.pack(">qIqI", 1_700_000_000_000, 5, 1_700_000_000_001, 7)
    path = tmp_path / "0.timeindex"
    path.write_bytes(times.dump())
    assert GrowingTimeIndex.read(path).dump() == times.dump()


def test_memory_and_mapped_file_answer_as_a_plain_search_does(tmp_path: Path) -> None:
    rng = random.Random(1)
    offsets = sorted(rng.sample(range(1, 10_000), 300))
    positions = sorted(rng.sample(range(1, 100_000), 300))
    index = OffsetIndex.empty()
    for offset, position in zip(offsets, positions, strict=True):
        index.add(offset, position)
    path = tmp_path / "0.index"
    path.write_bytes(index.dump())
    rows = [(0, 0), *zip(offsets, positions, strict=True)]
    for either in (index, OffsetIndex.map(path)):
        assert len(either) == 300
        for probe in rng.sample(range(10_100), 500):
            assert either.at_offset(probe) == max(row for row in rows if row[0] <= probe)
            assert either.at_position(probe * 10) == max(row for row in rows if row[1] <= probe * 10)


def test_the_time_index_names_an_offset_before_which_all_is_older(tmp_path: Path) -> None:
    times = TimeIndex.empty()
    for n in range(100):
        times.add(1000 + 10 * n, 3 * n)
    path = tmp_path / "0.timeindex"
    path.write_bytes(times.dump())
    for either in (times, TimeIndex.map(path)):
        assert either.before(999) == 0
        assert either.before(1010) == 3
        assert either.before(1019) == 3
        assert either.before(10**9) == 297
        assert either.last == (1990, 297)
    assert TimeIndex.empty().last is None


def test_an_index_that_ends_inside_an_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(bytes(13))
    for read in (OffsetIndex.map, GrowingOffsetIndex.read, TimeIndex.map, GrowingTimeIndex.read):
        with pytest.raises(ValueError, match="in the middle of an entry"):
            read(path)


def test_an_empty_index_file_has_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"")
    assert OffsetIndex.map(path).at_offset(5) == (0, 0)
    assert TimeIndex.map(path).last is None


def test_a_column_is_a_sequence(tmp_path: Path) -> None:
    index = OffsetIndex.empty()
    for n in range(1, 5):
        index.add(n, 10 * n)
    path = tmp_path / "0.index"
    path.write_bytes(index.dump())
    column = OffsetIndex.map(path).positions
    assert list(column) == [10, 20, 30, 40]  # type: ignore[call-overload]
    assert column[-1] == 40
    with pytest.raises(IndexError):
        column[4]


def test_learnt_batch_starts_stay_sorted_and_sparse() -> None:
    starts = BatchStarts()
    for position in random.Random(2).sample(range(0, 100_000, 10), 10_000):
        starts.learn(position, 1000)
    known = list(starts.positions)
    assert known == sorted(set(known))
    assert all(b - a > 1000 for a, b in pairwise(known))
    assert 40 < len(known) < 100
