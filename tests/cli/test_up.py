"""`up`, `status` and `down` with real processes: addresses, Ctrl-C, data kept, ports in use."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.ports import PortLeases
from tests.cli.command import CommandLine

COMMAND = [sys.executable, "-P", "-m", "kafka_classic.cli"]
ENVIRONMENT = {**os.environ, "KAFKA_CLASSIC_DEBUG": "", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def port() -> Iterator[int]:
    """The first of two free ports in a row."""
    leases = PortLeases()
    first = leases.draw()
    while not leases.lease(first + 1):
        first = leases.draw()
    yield first
    leases.release_all()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    cluster = LocalCluster.find(tmp_path / "data")
    if cluster is not None:
        cluster.stop()


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch)


def up(*arguments: str | Path) -> str:
    """Starts a cluster from a process of its own, which is gone when its servers still run."""
    done = subprocess.run(
        [*COMMAND, "up", *map(str, arguments), "--detach"], capture_output=True, text=True, env=ENVIRONMENT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_detached_cluster_is_found_again_and_keeps_its_data(folder: Path, port: int, call: CommandLine) -> None:
    bootstrap = f"127.0.0.1:{port}"
    said = up("--brokers", "2", "--port", str(port), "--dir", str(folder))
    assert f"{bootstrap},127.0.0.1:{port + 1}" in said
    assert "new topics get 2 replicas (default.replication.factor=2, min.insync.replicas=1)" in said

    told = json.loads(call("status", "--dir", str(folder), "--json"))
    assert [broker[0] for broker in told["cluster"]["brokers"]] == [0, 1]
    assert told["cluster"]["controller"] in (0, 1)
    assert [row["server"] for row in told["servers"]] == ["zookeeper", "broker 0", "broker 1"]
    assert told["down"] == []
    assert bootstrap in call("status", "--bootstrap", bootstrap)

    assert "runs in" in call("up", "--dir", str(folder), code=1)

    call("topics", "create", "kept", "--partitions", "2", "--bootstrap", bootstrap)
    call("produce", "kept", "--bootstrap", bootstrap, stdin=b"a\nb\n")
    assert "stopped 2 brokers" in call("down", "--dir", str(folder))
    assert "is stopped" in call("status", "--dir", str(folder), code=1)
    assert "already" in call("down", "--dir", str(folder))

    # As many brokers and the same ports as before, without being told again.
    up("--dir", str(folder))
    read = call("consume", "kept", "--from", "earliest", "--count", "2", "--bootstrap", bootstrap)
    assert sorted(read.split()) == ["a", "b"]
    LocalCluster.find(folder).brokers[1].kill()  # type: ignore[union-attr]
    assert "up --detach --dir" in call("status", "--dir", str(folder), code=1)


def test_a_broker_that_ended_is_started_again_beside_the_others(folder: Path, port: int, call: CommandLine) -> None:
    once = ("--brokers", "2", "--port", str(port), "--dir", str(folder))
    up(*once)
    assert "runs in" in call("up", "--detach", "--dir", str(folder), code=1)
    before = LocalCluster.find(folder)
    assert before is not None
    before.brokers[1].kill()
    assert "runs in" in call("up", *once, "--detach", code=1)
    assert "started again: broker 1\n" in up("--dir", str(folder))
    after = LocalCluster.find(folder)
    assert after is not None
    assert after.brokers[0].pid == before.brokers[0].pid
    assert "running" not in call("status", "--dir", str(folder))


def test_a_zookeeper_that_ended_is_started_again_under_brokers_that_live(
    folder: Path, port: int, call: CommandLine
) -> None:
    up("--port", str(port), "--dir", str(folder))
    before = LocalCluster.find(folder)
    assert before is not None
    assert before.zookeeper_server is not None
    before.zookeeper_server.kill()
    assert "up --detach --dir" in call("status", "--dir", str(folder), code=1)
    assert "started again: zookeeper\n" in up("--dir", str(folder))
    after = LocalCluster.find(folder)
    assert after is not None
    assert after.brokers[0].pid == before.brokers[0].pid
    assert after.zookeeper == before.zookeeper
    bootstrap = f"127.0.0.1:{port}"
    call("topics", "create", "later", "--bootstrap", bootstrap)
    assert "running" not in call("status", "--dir", str(folder))


def test_a_setting_is_given_to_every_broker_and_kept_for_the_next_time(
    folder: Path, port: int, call: CommandLine
) -> None:
    bootstrap = f"127.0.0.1:{port}"
    once = ("--brokers", "2", "--port", str(port), "--dir", str(folder))
    assert "replicas" not in up(*once, "--set", "default.replication.factor=1", "--set", "num.partitions=4")
    assert "with 4 partitions" in call("topics", "create", "four", "--bootstrap", bootstrap)
    call("down", "--dir", str(folder))
    assert "replicas" not in up("--dir", str(folder))
    assert "with 4 partitions" in call("topics", "create", "again", "--bootstrap", bootstrap)


def test_ctrl_c_stops_everything_cleanly(folder: Path, port: int) -> None:
    with subprocess.Popen(
        [*COMMAND, "up", "--port", str(port), "--dir", str(folder)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        assert any(f"127.0.0.1:{port}" in line for line in lines)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert "stopped" in rest
    found = LocalCluster.find(folder)
    assert found is not None
    assert not found.alive()
    assert (folder / "broker-0" / ".kafka_cleanshutdown").exists()


def test_a_port_in_use_is_named_with_what_to_do(folder: Path, port: int, call: CommandLine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        said = call("up", "--port", str(port), "--dir", str(folder), code=1)
    assert f"port {port}" in said
    assert "--port" in said
    assert said.count("\n") == 1


def test_zookeeper_alone_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "zookeeper", "--port", "0", "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as server:
        assert server.stdout is not None
        ready = re.fullmatch(r"zookeeper ready on 127\.0\.0\.1:(\d+)\n", server.stdout.readline())
        assert ready
        with socket.create_connection(("127.0.0.1", int(ready[1]))) as question:
            question.sendall(b"ruok")
            assert question.recv(4) == b"imok"
        server.terminate()
        assert server.wait(30) == 0
