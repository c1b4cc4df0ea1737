"""Servers of the comparison are weighed with their children, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.peer import PeerFailed
from bench.peers.processes import Servers, cpu_seconds, disk_bytes, tree
from kafka_classic.testing.process import start_time
from kafka_classic.testing.waiting import until

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_the_time_of_children_counts_while_they_live_and_when_they_have_ended() -> None:
    # A parent that burns nothing, one child that has ended and one that lives on.
    program = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
alive = subprocess.Popen([sys.executable, "-c", {BURN!r} + "print(flush=True); import time; time.sleep(600)"],
                         stdout=subprocess.PIPE)
alive.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
alive.kill()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        assert len(tree(parent.pid)) == 2
        assert cpu_seconds([parent.pid]) >= 0.55  # two of 0.3 s, of which one is known to a tick
        parent.communicate()


def test_a_process_that_is_gone_weighs_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert cpu_seconds([child.pid]) == 0.0


def test_holes_of_files_take_no_room(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/written").write_bytes(os.urandom(10_000))
    with open(tmp_path / "made larger", "wb") as file:
        file.truncate(1 << 25)
    assert disk_bytes(tmp_path) == 10_000


SERVER = """
import socket, subprocess, sys, time
subprocess.Popen(["sleep", "600"])
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(600)
"""


def test_a_server_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    try:
        port = servers.port()
        process = servers.start("lonely", [sys.executable, "-c", SERVER, str(port)], dict(os.environ), port)
        family = tree(process.pid)
        assert len(family) == 2
    finally:
        servers.stop()
    until(lambda: [pid for pid in family if start_time(pid) is not None] == [], "the end of all")


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    try:
        with pytest.raises(PeerFailed, match="no room on this machine"):
            servers.start("full", [sys.executable, "-c", "exit('no room on this machine')"], {}, servers.port())
    finally:
        servers.stop()
