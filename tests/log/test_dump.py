"""Looking at segment files: batches with positions, and every kind of damage found."""

from pathlib import Path

import pytest

from kafka_classic.log.dump import SegmentFile, verify
from kafka_classic.log.log import Log
from kafka_classic.records.batch import seal
from kafka_classic.records.codecs import Codec
from tests.log.batches import SMALL, SMALL_CLASSIC, a_clock, batch, fill


def a_segment(tmp_path: Path, classic: bool = False) -> Path:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC if classic else SMALL, clock=a_clock())
    fill(log, 60, codec=Codec.GZIP)
    log.close()
    return log.segments[1].path


def test_batches_and_records_are_listed_with_their_places(tmp_path: Path) -> None:
    segment = SegmentFile(a_segment(tmp_path))
    position, offset = 0, segment.base
    for found in segment.batches():
        assert (found.position, found.header.base_offset) == (position, offset)
        assert [r.offset for r in segment.records(found)] == list(range(offset, found.header.next_offset))
        position, offset = position + found.header.size, found.header.next_offset
    assert position == segment.size


@pytest.mark.parametrize("classic", [False, True])
def test_a_sound_segment_has_no_findings(tmp_path: Path, classic: bool) -> None:
    path = a_segment(tmp_path, classic)
    for each in path.parent.glob("*.log"):
        assert verify(each, records=True) == []


def test_a_file_that_is_no_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no segment file"):
        SegmentFile(tmp_path / "notes.txt")


def test_every_kind_of_damage_is_found(tmp_path: Path) -> None:
    path = a_segment(tmp_path)
    good = {suffix: path.with_suffix(suffix).read_bytes() for suffix in (".log", ".index", ".timeindex")}

    def problems(suffix: str, data: bytes) -> list[str]:
        path.with_suffix(suffix).write_bytes(data)
        found = [str(finding) for finding in verify(path)]
        path.with_suffix(suffix).write_bytes(good[suffix])
        return found

    log, index, times = good[".log"], good[".index"], good[".timeindex"]
    (torn,) = problems(".log", log[:-1])[:1]
    assert "only" in torn
    assert any("crc" in p for p in problems(".log", log[:70] + bytes([log[70] ^ 1]) + log[71:]))
    assert any("a gap" in p for p in problems(".log", log[:6] + b"\x01" + log[7:]))
    assert any("middle of an entry" in p for p in problems(".index", index[:-1]))
    assert any("begins at" in p for p in problems(".index", index[:-1] + bytes([index[-1] ^ 1])))
    assert any("does not come after" in p for p in problems(".index", index + index[-8:]))
    assert any("middle of an entry" in p for p in problems(".timeindex", times[:-1]))
    assert any("is missing" in p for p in problems(".timeindex", times[:-12]))
    assert any("is not that of" in p for p in problems(".timeindex", times[:7] + bytes([times[7] ^ 1]) + times[8:]))
    assert any("does not come after" in p for p in problems(".timeindex", times + times[-12:]))
    assert verify(path) == []


def test_the_last_segment_of_a_running_broker_has_no_findings(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 60)
    assert log.segments[-1].path_of(".index").exists()
    for segment in log.segments:
        assert verify(segment.path, records=True) == []


def test_a_batch_that_lies_about_its_records_is_found_when_they_are_looked_at(tmp_path: Path) -> None:
    lying = batch(b"a", b"b")
    seal(lying, record_count=3, last_offset_delta=2)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(lying)
    assert verify(path) == []
    assert len(verify(path, records=True)) == 1
