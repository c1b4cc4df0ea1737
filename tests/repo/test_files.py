"""The tracked files: the ones that must be there are, none names the machine it was written on or is left undone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout: which files are tracked cannot be asked")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def _lines_with(pattern: str, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    return found


def test_no_file_names_a_path_of_the_machine_it_was_written_on(tracked: list[Path]) -> None:
    # Put together here, so that this file does not name them either.
    places = ["/work" + "/", "/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/", "/tmp" + "/t/", "/opt" + "/pypi"]
    assert _lines_with("|".join(rf"(?<![\w./-]){re.escape(place)}\w*" for place in places), tracked) == []


def test_no_file_is_left_undone(tracked: list[Path]) -> None:
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error"])
    assert _lines_with(rf"\b({marks})\b", [path for path in tracked if path.suffix in (".py", ".md", ".cfg")]) == []


def test_every_python_file_says_in_its_first_line_what_it_does(tracked: list[Path]) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked
        if path.suffix == ".py" and not path.read_text().startswith(('"""', 'r"""', "#!"))
    ]
    assert silent == []


@pytest.mark.parametrize(
    "name",
    [
        *("setup.cfg", "pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run"),
        *("compose/README.md", "compose/compose.yaml"),
        *("notebooks/README.md", "kafka_classic", "zk", "consumer", "audit", "tests", "bench"),
    ],
)
def test_the_top_level_is_as_described(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_ci_script_can_be_executed() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_make_lists_every_command_with_what_it_does() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    documented = {"docs", "notebooks-run", "notebooks-test"}
    assert {"run", "test", "test-compose", "lint", "bench", "soak", "clean", "help"} | documented <= listed
