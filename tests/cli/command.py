"""The command line run inside the test's own process: a process a command would spend most of its time on imports."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kafka_classic.cli.main import run


class CommandLine:
    """Runs commands with a file for standard input; returns what was printed, or the error when it had to fail."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, bootstrap: str | None = None) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._patch = patch

    def __call__(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        source = self._folder / "stdin"
        source.write_bytes(stdin)
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with open(source) as given, self._patch.context() as patch:
            patch.setattr(sys, "stdin", given)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            if self._bootstrap is not None:
                patch.setenv("KAFKA_CLASSIC_BOOTSTRAP", self._bootstrap)
            patch.delenv("KAFKA_CLASSIC_DEBUG", raising=False)
            ended = run(arguments)
            out.flush()
        text = out.buffer.getvalue().decode(errors="surrogateescape")
        assert ended == code, err.getvalue()
        return text if code == 0 else err.getvalue()
