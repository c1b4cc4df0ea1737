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


def call(*arguments: str | Path, code: int = 0, stdin: str = "") -> str:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, input=stdin, env=ENVIRONMENT, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_detached_cluster_is_found_again_and_keeps_its_data(folder: Path, port: int) -> None:
    bootstrap = f"127.0.0.1:{port}"
    said = call("up", "--brokers", "2", "--port", str(port), "--dir", folder, "--detach")
    assert f"{bootstrap},127.0.0.1:{port + 1}" in said

    told = json.loads(call("status", "--dir", folder, "--json"))
    assert [broker[0] for broker in told["cluster"]["brokers"]] == [0, 1]
    assert told["cluster"]["controller"] in (0, 1)
    assert [row["server"] for row in told["servers"]] == ["zookeeper", "broker 0", "broker 1"]
    assert told["down"] == []
    assert bootstrap in call("status", "--bootstrap", bootstrap)

    assert "runs in" in call("up", "--dir", folder, code=1)

    call("topics", "create", "kept", "--partitions", "2", "--bootstrap", bootstrap)
    call("produce", "kept", "--bootstrap", bootstrap, stdin="a\nb\n")
    assert "stopped 2 brokers" in call("down", "--dir", folder)
    assert "is stopped" in call("status", "--dir", folder, code=1)
    assert "already" in call("down", "--dir", folder)

    # As many brokers and the same ports as before, without being told again.
    call("up", "--dir", folder, "--detach")
    read = call("consume", "kept", "--from", "earliest", "--count", "2", "--bootstrap", bootstrap)
    assert sorted(read.split()) == ["a", "b"]
    LocalCluster.find(folder).brokers[1].kill()  # type: ignore[union-attr]
    assert "broker 1" in call("status", "--dir", folder, code=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_cleanly(folder: Path, port: int, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, "up", "--port", str(port), "--dir", str(folder)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as up:
        assert up.stdout is not None
        lines = []
        for line in up.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        assert any(f"127.0.0.1:{port}" in line for line in lines)
        up.send_signal(number)
        rest = up.stdout.read()
        assert up.wait(60) == 0
    assert "stopped" in rest
    found = LocalCluster.find(folder)
    assert found is not None
    assert not found.alive()
    assert (folder / "broker-0" / ".kafka_cleanshutdown").exists()


def test_a_port_in_use_is_named_with_what_to_do(folder: Path, port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        said = call("up", "--port", str(port), "--dir", folder, code=1)
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
