"""Servers end with the process that started them, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from kafka_classic.testing.keeper import Keeper
from kafka_classic.testing.process import Process, start_time
from kafka_classic.testing.waiting import until

PARENT = """
import os, sys, threading, time
from pathlib import Path
from kafka_classic.testing.keeper import Keeper
from kafka_classic.testing.process import Process
keeper = Keeper()
def start():
    for _ in range(2):
        child = Process.spawn([sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1]), os.environ)
        keeper.keep(child.pid, child.started)
        print(child.pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
if sys.argv[2] == "fork" and os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
if sys.argv[2] == "exit":
    sys.exit()
time.sleep(600)
"""


def _start(tmp_path: Path, how: str, lines: int) -> tuple[subprocess.Popen[bytes], list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT, str(tmp_path / "log"), how], stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(lines)]
    parent.stdout.close()
    return parent, pids


def test_children_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    parent, pids = _start(tmp_path, "stay", 2)
    assert all(start_time(pid) for pid in pids)  # though the thread that started them has ended
    parent.kill()
    parent.wait()
    until(lambda: not any(start_time(pid) for pid in pids))


def test_children_do_not_outlive_a_parent_that_ended_without_a_word(tmp_path: Path) -> None:
    parent, pids = _start(tmp_path, "exit", 2)
    parent.wait()
    until(lambda: not any(start_time(pid) for pid in pids))


def test_a_fork_of_the_parent_that_lives_on_keeps_no_servers_alive(tmp_path: Path) -> None:
    parent, pids = _start(tmp_path, "fork", 3)
    fork = pids.pop()
    try:
        parent.kill()
        parent.wait()
        until(lambda: not any(start_time(pid) for pid in pids))
        assert start_time(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_process_the_keeper_was_told_to_forget_lives_on(tmp_path: Path) -> None:
    keeper = Keeper()
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    kept = Process.spawn(command, tmp_path / "log", os.environ)
    forgotten = Process.spawn(command, tmp_path / "log", os.environ)
    try:
        keeper.keep(kept.pid, kept.started)
        keeper.keep(forgotten.pid, forgotten.started)
        keeper.forget(forgotten.pid)
        keeper.close()
        assert not kept.alive()
        assert forgotten.alive()
    finally:
        kept.kill()
        forgotten.kill()


def test_a_keeper_never_told_anything_starts_no_process() -> None:
    Keeper().close()
