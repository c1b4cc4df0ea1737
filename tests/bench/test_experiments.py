"""The experiments on our own brokers: turns, and one of them through its real path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.load.copying import copying
from bench.load.measure import Sample
from bench.load.setting import Setting
from bench.ours.clients import PARTITIONS, shares
from bench.ours.codecs import LINES, log_lines

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "experiments.py"


def test_cases_take_turns() -> None:
    told: list[str] = []
    order: list[str] = []

    def measure(case: str) -> Sample:
        order.append(case)
        return Sample({"rate": float(len(order))}, 0.0, 1.0, 1, "message")

    found = Setting(True, 3, None, told.append).in_turns(["a", "b"], measure)
    assert order == ["a", "b"] * 3
    assert [sample.values["rate"] for sample in found["b"]] == [2.0, 4.0, 6.0]
    assert told[-1] == "run 3 of 3, case 2 of 2: b"


def test_every_partition_has_one_client() -> None:
    for clients in (1, 4, 16, 64):
        found = shares(clients)
        assert len(found) == clients
        assert sorted(partition for share in found for partition in share) == list(range(PARTITIONS))


def test_a_codec_never_finds_the_same_line_twice() -> None:
    lines = log_lines(LINES)
    assert len(set(lines)) == LINES
    assert 180 < sum(map(len, lines)) / LINES < 200


def test_the_broker_that_copies_sends_what_sendfile_would(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(100)))
    out, into = os.pipe()
    try:
        with open(path, "rb") as file:
            assert copying(16)(into, file.fileno(), 10, 40) == 16
            assert copying(1000)(into, file.fileno(), 26, 40) == 40
        assert os.read(out, 1000) == bytes(range(10, 66))
    finally:
        os.close(out)
        os.close(into)


def test_an_experiment_keeps_every_case_with_the_time_of_servers_and_clients(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    command = [sys.executable, "-P", str(SCRIPT), "--quick", "--only", "replicas", "--repeats", "1"]
    command += ["--results", str(kept), "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    cases = [(line["case"]["replicas"], line["case"]["acks"]) for line in lines]
    assert cases == [(replicas, acks) for replicas in (1, 2, 3) for acks in ("1", "all")]
    assert all(line["runs"][0] > 0 and line["server_cpu_us"][0] > 0 and line["client_cpu_us"][0] > 0 for line in lines)
    assert [line["goal"] for line in lines] == [None] * 5 + [150_000]
    assert len({line["run"] for line in lines}) == 1
    assert lines[0]["machine"]["quick"] is True
    assert "run 1 of 1, case 6 of 6: 3 all" in done.stderr
    assert "replicas 3, acks all" in done.stdout
    assert list(tmp_path.iterdir()) == [kept]  # the servers' data is gone
