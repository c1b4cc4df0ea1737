"""The command line on a replicated cluster of real processes: a broker dies, leads again, and partitions move."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_classic.cli.cluster import replication_settings
from kafka_classic.cli.main import run
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.cli.command import CommandLine

LONG = 60.0
SETTINGS = {
    **replication_settings(3),
    "zookeeper.session.timeout.ms": "3000",
    # Leadership moves when the test says so.
    "auto.leader.rebalance.enable": "false",
}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("replicated"), 3, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cli(replicated: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, replicated.bootstrap)


def partitions(cli: CommandLine, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("topics", "describe", topic, "--json"))["partitions"]
    return found


def in_sync(cli: CommandLine, topic: str) -> bool:
    return all(sorted(one["isr"]) == sorted(one["replicas"]) for one in partitions(cli, topic))


def test_a_broker_dies_and_leads_again_when_it_is_asked_to(cli: CommandLine, replicated: LocalCluster) -> None:
    cli("topics", "create", "survives", "--partitions", "3")
    lines = cli("topics", "describe", "survives").splitlines()
    assert "\tReplicationFactor: 3\t" in lines[0]
    assert {len(line.rpartition("Isr: ")[2].split(",")) for line in lines[1:]} == {3}
    assert {one["leader"] for one in partitions(cli, "survives")} == {0, 1, 2}
    assert "all is well" in cli("status", "--bootstrap", replicated.bootstrap)

    victim = replicated.brokers[0]
    victim.kill()
    try:
        until(
            lambda: all(one["leader"] in (1, 2) and 0 not in one["isr"] for one in partitions(cli, "survives")),
            "the others do not take over",
        )
        assert len(cli("topics", "describe", "survives", "--under-replicated").splitlines()) == 3
        assert cli("topics", "describe", "survives", "--unavailable") == ""
        assert "3 acknowledged" in cli("produce", "survives", "--acks", "all", stdin=b"a\nb\nc\n")
        assert "broker 0" in cli("status", "--bootstrap", replicated.bootstrap, code=1)
        told = json.loads(_status(replicated))
        assert told["cluster"]["brokers_down"] == [0]
        assert len(told["cluster"]["under_replicated_partitions"]) >= 3
        assert told["cluster"]["offline_partitions"] == told["cluster"]["under_min_isr_partitions"] == []
        assert told["well"] is False
    finally:
        victim.start()
        victim.wait_ready(LONG)
    until(lambda: in_sync(cli, "survives"), "broker 0 does not come back into sync")

    assert 0 not in {one["leader"] for one in partitions(cli, "survives")}
    assert "is led by broker 0 now" in cli("topics", "elect-leaders", "survives")
    assert {one["leader"] for one in partitions(cli, "survives")} == {0, 1, 2}
    assert cli("topics", "elect-leaders", "survives") == "3 partitions needed no election\n"
    assert sorted(cli("consume", "survives", "--from", "earliest", "--count", "3").split()) == ["a", "b", "c"]


def _status(replicated: LocalCluster) -> str:
    """The JSON of a status that ends with code 1: told on standard output before the error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert run(["status", "--bootstrap", replicated.bootstrap, "--json"]) == 1
    return out.getvalue()


def test_partitions_move_with_everything_in_them(cli: CommandLine) -> None:
    cli("topics", "create", "moves", "--partitions", "2", "--replication-factor", "1")
    lines = b"".join(b"%d\n" % number for number in range(500))
    cli("produce", "moves", stdin=lines)
    cli("topics", "reassign", "moves", "--to-brokers", "0,1,2", "--replication-factor", "2", "--wait")
    assert all(len(one["replicas"]) == len(one["isr"]) == 2 for one in partitions(cli, "moves"))
    cli("topics", "reassign", "moves", "--partition", "1", "--replicas", "2,0,1", "--wait")
    assert partitions(cli, "moves")[1]["replicas"] == [2, 0, 1]
    assert cli("topics", "reassign", "--list") == "nothing is on its way\n"
    read = cli("consume", "moves", "--from", "earliest", "--count", "500").split()
    assert sorted(map(int, read)) == list(range(500))


def test_a_move_to_a_broker_that_is_not_there_is_refused(cli: CommandLine) -> None:
    cli("topics", "create", "stays", "--partitions", "1")
    said = cli("topics", "reassign", "stays", "--partition", "0", "--replicas", "0,9", code=1)
    assert "broker 9" in said


def test_a_single_replica_is_written_with_acks_all_though_two_in_sync_are_asked_for(cli: CommandLine) -> None:
    cli("topics", "create", "alone", "--partitions", "1", "--replication-factor", "1")
    assert "1 acknowledged" in cli("produce", "alone", "--acks", "all", stdin=b"x\n")
