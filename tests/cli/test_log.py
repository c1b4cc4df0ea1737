"""`log dump` and `log verify` on segment files that the log itself wrote, and on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_classic.cli.main import run
from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import encode_batch

FIRST = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition's folder with three batches, the second compressed."""
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(bytearray(encode_batch([(b"k", b"one", [("h", b"1")], 1000)])))
    log.append(bytearray(encode_batch([(None, b"two", [], 2000), (b"\xff", None, [], 2001)], Codec.GZIP)))
    log.append(bytearray(encode_batch([(None, b"four", [], 3000)])))
    log.close()
    return tmp_path / "t-0"


def test_dump_prints_every_batch_and_record(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", str(partition / FIRST), "--records"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3 + 4
    assert lines[1].startswith("at 0: offsets 0..0, 1 record,")
    assert lines[2] == "  0: 'k' -> 'one' {h='1'}"
    assert "offsets 1..2, 2 records" in lines[3]
    assert "gzip" in lines[3]
    assert lines[5] == "  2: '\\\\xff' -> null"


def test_dump_as_json_is_one_object_a_line(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", str(partition), "--records", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["base_offset"] for each in told if "base_offset" in each] == [0, 1, 3]
    assert [each["value"] for each in told if "value" in each] == ["one", "two", None, "four"]
    assert next(each["position"] for each in told if "position" in each) == 0


def test_dump_tells_what_compaction_left_and_verify_takes_its_gaps_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    log = Log.open(tmp_path / "t-0", settings)
    for _ in range(2):
        log.append(bytearray(encode_batch([(b"a", b"1", [], 1000), (b"b", None, [], 1000), (b"c", b"", [], 1000)])))
    log.append(bytearray(encode_batch([(b"c", b"2", [], 1000)])))
    log.roll()
    log.flush()
    assert log.compact(2.0) is not None
    log.close()
    assert run(["log", "dump", str(tmp_path / "t-0" / FIRST)]) == 0
    [_, first, second] = capsys.readouterr().out.splitlines()
    assert "offsets 3..5, 2 records" in first
    assert first.endswith(f"compacted, tombstones until {2000 + settings.delete_retention_ms}")
    assert "compacted" not in second
    assert run(["log", "verify", str(tmp_path)]) == 1
    assert "a gap" in capsys.readouterr().out
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 7\n")  # as a broker writes it
    assert run(["log", "verify", str(tmp_path)]) == 0


def test_verify_finds_a_whole_log_whole(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(partition)]) == 0
    assert "1 segment, " in capsys.readouterr().out
    assert run(["log", "verify", "--json", str(partition / FIRST)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["findings"] == []


def test_verify_names_the_place_of_a_changed_byte(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((partition / FIRST).read_bytes())
    data[-1] ^= 1
    (partition / FIRST).write_bytes(data)
    assert run(["log", "verify", str(partition)]) == 1
    out, err = capsys.readouterr()
    assert FIRST in out
    assert err.startswith("error: faults in 1 of 1 segment")
    assert err.count("\n") == 1


def test_dump_stops_at_a_torn_tail_and_says_where(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (partition / FIRST).read_bytes()
    (partition / FIRST).write_bytes(data[:-3])
    assert run(["log", "dump", str(partition / FIRST)]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + 2
    assert "is not sound from byte" in err


def test_a_folder_without_segments_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(tmp_path)]) == 1
    assert "no segment files" in capsys.readouterr().err
