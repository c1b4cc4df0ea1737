"""A process is told apart, signalled, waited for and weighed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_classic.testing.process import Process, start_time, tail
from kafka_classic.testing.waiting import until

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    started: list[Process] = []

    def run(code: str) -> Process:
        log = tmp_path / f"{len(started)}.log"
        process = Process.spawn([sys.executable, "-c", code], log, os.environ)
        started.append(process)
        until(lambda: log.read_text() != "")
        return process

    yield run
    for process in started:
        process.kill()


def test_a_process_runs_in_a_session_of_its_own_so_ctrl_c_does_not_reach_it(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_a_process_ends_by_sigterm(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    assert process.terminate(30.0) is True
    assert not process.alive()
    assert process.exit_code == -signal.SIGTERM


def test_a_paused_process_still_ends_by_sigterm(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    process.signal(signal.SIGSTOP)
    assert process.terminate(30.0) is True


def test_a_process_that_ignores_sigterm_is_killed(spawn: Callable[[str], Process]) -> None:
    process = spawn(STUBBORN)
    assert process.terminate(0.05) is False
    assert process.exit_code == -signal.SIGKILL


def test_a_process_is_found_again_only_by_its_own_start_time(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    found = Process.find(process.pid, process.started)
    assert found is not None
    assert found.alive()
    assert Process.find(process.pid, process.started + 1) is None


def test_a_process_found_again_is_waited_for_though_it_is_not_our_child(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    found = Process.find(process.pid, process.started)
    assert found is not None
    assert found.wait(0.0) is False
    assert found.terminate(30.0) is True


def test_a_zombie_is_not_alive(spawn: Callable[[str], Process]) -> None:
    process = spawn(SLEEPER)
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: start_time(process.pid) is None)  # nobody has reaped it yet
    assert Process.find(process.pid, process.started) is None


def test_processor_time_and_memory_are_read(spawn: Callable[[str], Process]) -> None:
    process = spawn("sum(range(3_000_000))\n" + SLEEPER)
    assert process.cpu_seconds() > 0
    assert process.rss_bytes() > 1_000_000
    process.kill()
    with pytest.raises(ProcessLookupError, match="has ended"):
        process.rss_bytes()


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    assert tail(log) == ""
    log.write_text("".join(f"line {i}\n" for i in range(5000)))
    assert tail(log, 2) == "line 4998\nline 4999"
