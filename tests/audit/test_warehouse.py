"""Whose folder a warehouse is, and what a load is refused for before Spark is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafka_classic.audit.load import LoaderAtWork, await_no_loader, batch, prepare, reason
from kafka_classic.audit.warehouse import LOCK, NotAWarehouse, Origin, claim, origin
from kafka_classic.client.errors import UnknownTopic, Unreachable
from tests.audit.topics import new_topic
from tests.cli.command import CommandLine

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster

MINE = Origin("cluster", ("a", "b"), "parquet")


def test_an_empty_folder_becomes_a_warehouse_that_says_what_it_was_loaded_from(tmp_path: Path) -> None:
    claim(tmp_path / "new", MINE)
    assert origin(tmp_path / "new") == MINE
    assert claim(tmp_path / "new", MINE) == MINE


def test_topics_may_be_added_to_a_warehouse_and_none_left_out(tmp_path: Path) -> None:
    claim(tmp_path, MINE)
    assert claim(tmp_path, MINE._replace(topics=("a", "b", "c"))).topics == ("a", "b", "c")
    with pytest.raises(NotAWarehouse, match="is loaded from a, b, c: name b, c too"):
        claim(tmp_path, MINE._replace(topics=("a",)))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (MINE._replace(cluster="other"), "was loaded from cluster cluster, and this is other: their offsets would mix"),
        (MINE._replace(format="json"), "holds parquet: load with --format parquet, or into another folder"),
    ],
)
def test_a_warehouse_of_another_kind_is_left_alone(tmp_path: Path, wanted: Origin, message: str) -> None:
    claim(tmp_path, MINE)
    with pytest.raises(NotAWarehouse, match=message):
        claim(tmp_path, wanted)
    assert origin(tmp_path) == MINE


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(NotAWarehouse, match="holds something else: load into an empty or a new folder"):
        claim(tmp_path, MINE)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_folder_at_which_a_loader_is_at_work_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / LOCK)]  # as Java locks
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LoaderAtWork, match="another loader is at work on"):
            await_no_loader(tmp_path, patience=0)
    finally:
        holder.kill()
        holder.communicate()
    await_no_loader(tmp_path, patience=0)


def test_what_is_wrong_is_said_before_spark_is_started(
    kafka_bootstrap: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic 'nowhere'"):
        prepare(kafka_bootstrap, ["nowhere"], tmp_path / "w")
    assert not (tmp_path / "w").exists()
    with pytest.raises(Unreachable, match="connection refused"):
        prepare("127.0.0.1:1", ["nowhere"], tmp_path / "w")
    with pytest.raises(NotAWarehouse, match="is no folder of this machine"):
        prepare(kafka_bootstrap, [new_topic(cluster)], Path("hdfs://host/x"))
    command = CommandLine(tmp_path, monkeypatch, kafka_bootstrap)
    assert "exclude each other" in command("load", "x", "--to", str(tmp_path / "w"), "--once", "--every", "5s", code=1)
    assert "--every 'soon' is no time" in command("load", "x", "--to", str(tmp_path / "w"), "--every", "soon", code=1)
    assert "there is no topic 'x'" in command("load", "x", "--to", str(tmp_path / "w"), code=1)


def test_what_one_of_ours_said_is_found_in_pages_of_stack_traces() -> None:
    text = (
        "Job aborted: Traceback (most recent call last):\n  File x\n"
        "kafka_classic.audit.source.fetch.DataLost: OFFSET_OUT_OF_RANGE: offsets 1 to 2 of a-0 are lost\n\tat java"
    )
    assert reason(text) == "OFFSET_OUT_OF_RANGE: offsets 1 to 2 of a-0 are lost"
    assert reason("[NO_SPACE] disk full\n\tat x") == "[NO_SPACE] disk full"


@pytest.mark.parametrize("latest", [None, "null"])
def test_a_batch_that_an_earlier_life_planned_is_told_without_the_topics_end(latest: str | None) -> None:
    source = SimpleNamespace(endOffset='{"a": {"0": 9}}', latestOffset=latest)
    assert batch(3, 7, 1500, source) == (3, 7, 1.5, {"a": {"0": 9}}, 0)
    source.latestOffset = '{"a": {"0": 12}}'
    assert batch(4, 7, 1500, source).behind == 3
