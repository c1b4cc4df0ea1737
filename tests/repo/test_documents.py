"""Every command and every Python block of README.md and docs/ runs as it stands there, against a real cluster.

The blocks of one document run in order, in one folder, as a reader would run them. Two things differ: the ports 9092 to
9095 are replaced by free ones (the reader's may be taken), and a block after a comment that begins "not run by the
tests:" is left out. Each such comment says why. What a block leaves running ends with its document.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.state import read_state

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = ("console", "bash", "sh", "python")
PORTS = range(9092, 9096)
NOT_RUN = re.compile(r"<!-- not run by the tests: .+ -->")


class Block(NamedTuple):
    """A fenced block of a document."""

    line: int
    language: str
    text: str
    left_out: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    opened: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
            continue
        before = next((above for above in reversed(lines[:opened]) if above.strip()), "")
        body = "\n".join(lines[opened + 1 : number]) + "\n"
        found.append(Block(opened + 1, lines[opened][3:].strip(), body, NOT_RUN.fullmatch(before) is not None))
        opened = None
    return found


def commands(block: Block) -> list[str]:
    """The commands of a shell block: the lines after `$ ` where there are any, else all of it."""
    lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    return lines or [block.text]


def free_base_port(leases: PortLeases, count: int = len(PORTS)) -> int:
    """The first of some ports in a row that are free and leased."""
    while True:
        first = leases.draw()
        if all(leases.lease(first + i) for i in range(1, count)):
            return first


def test_the_blocks_of_a_document_are_found() -> None:
    text = "a\n```console\n$ one\nout\n$ two\n```\n<!-- not run by the tests: stays -->\n```sh\nx\n```\n"
    found = blocks(text)
    assert [(block.language, block.left_out) for block in found] == [("console", False), ("sh", True)]
    assert commands(found[0]) == ["one", "two"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_runs(document: Path, tmp_path: Path) -> None:
    leases = PortLeases()
    port = free_base_port(leases)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "KAFKA_CLASSIC_BOOTSTRAP": f"127.0.0.1:{port}",
        # kio imports hypothesis where it is installed, which computes for seconds in every folder that is new to it.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
    }
    groups: list[int] = []
    try:
        for block in blocks(document.read_text()):
            if block.left_out or block.language not in RUN:
                continue
            for command in [block.text] if block.language == "python" else commands(block):
                if "kcat" in command and shutil.which("kcat") is None:
                    continue
                argv = _argv(block.language, command, port, tmp_path)
                with (tmp_path / "said").open("w+") as said:
                    # To a file: what a block leaves running would keep a pipe open.
                    process = subprocess.Popen(
                        argv,
                        cwd=tmp_path,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                    groups.append(process.pid)
                    code = process.wait(400)
                    said.seek(0)
                    assert code == 0, f"{document.relative_to(ROOT)}:{block.line}: {command}\n{said.read()}"
    finally:
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        cluster = LocalCluster.find(tmp_path / "kafka-classic-data")
        if cluster is not None:
            cluster.stop()
        leases.release_all()


def _argv(language: str, text: str, port: int, folder: Path) -> list[str]:
    for number in PORTS:
        text = text.replace(str(number), str(port + number - PORTS.start))
    state = read_state(folder / "kafka-classic-data")
    if state is None:
        text = text.replace("kafka-classic up", f"kafka-classic up --port {port}")
    else:
        text = text.replace("127.0.0.1:2181", state.zookeeper)
    if language != "python":
        return ["bash", "-e", "-o", "pipefail", "-c", text]
    if "def test_" in text:
        (folder / "test_block.py").write_text(text)
        return [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_block.py"]
    (folder / "block.py").write_text(text)
    return [sys.executable, "-P", "block.py"]
