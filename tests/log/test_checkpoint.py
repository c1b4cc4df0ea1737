"""Checkpoint files: Kafka's text, replaced atomically, a damaged one noticed."""

from pathlib import Path

import pytest

from kafka_classic.log.checkpoint import CorruptCheckpoint, read_checkpoint, write_checkpoint


def test_what_is_written_is_kafkas_text_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {("b", 0): 7, ("a.b_c-d", 12): 2**40, ("a", 1): 0}
    write_checkpoint(path, offsets)
    assert path.read_text() == f"0\n3\na 1 0\na.b_c-d 12 {2**40}\nb 0 7\n"
    assert read_checkpoint(path) == offsets
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_has_no_offsets(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "text", ["", "0\n", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na zero 1\n", "x\ny\n", "\x00" * 50, "\xff\xfe"]
)
def test_a_damaged_file_is_noticed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptCheckpoint, match="delete it and start the broker again"):
        read_checkpoint(path)
