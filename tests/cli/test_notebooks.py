"""`kafka-classic notebooks`: what is listed is what is copied, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import CommandLine


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch)


def test_the_notebooks_listed_are_those_copied(command: CommandLine, tmp_path: Path) -> None:
    listed = command("notebooks").splitlines()
    assert "2-the-log-on-disk.ipynb" in listed
    command("notebooks", "--copy", str(tmp_path / "walk"))
    assert sorted(path.name for path in (tmp_path / "walk").iterdir()) == listed


def test_a_notebook_that_somebody_works_on_is_not_overwritten(command: CommandLine, tmp_path: Path) -> None:
    mine = tmp_path / "2-the-log-on-disk.ipynb"
    mine.write_text("my notes")
    assert "2-the-log-on-disk.ipynb" in command("notebooks", "--copy", str(tmp_path), code=1)
    assert mine.read_text() == "my notes"
    assert [path.name for path in tmp_path.glob("*.ipynb")] == [mine.name]
