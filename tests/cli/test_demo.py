"""The demo of `make run` ends by itself, without a terminal, and checks what it shows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(180)
def test_the_demo_runs_to_its_end_and_leaves_nothing_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kafka_classic.cli", "demo"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for said in ("/brokers/ids/2", "60,000 acknowledged", "read:     60,000", "= next offset", "recovery cut 40 bytes"):
        assert said in done.stdout
    for said in ("the leader", "leads", "restarted", "lost 0, duplicated 0"):
        assert said in done.stdout.partition("Failover")[2]
    audit = done.stdout.partition("The audit")[2]
    assert "complete: " in audit
    report = Path(audit.partition("report: ")[2].splitlines()[0])
    assert "payments" in report.read_text()
    shutil.rmtree(report.parent)
