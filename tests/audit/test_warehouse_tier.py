"""What a warehouse holds and how far it has come, by its own books."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_classic.audit.warehouse_tier import committed_files, loaded, topic_of


def commit(folder: Path, name: str, *files: tuple[str, str]) -> None:
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    lines = [json.dumps({"path": (folder / file).as_uri(), "action": action}) for file, action in files]
    (log / name).write_text("\n".join(["v1", *lines]))


def test_files_are_those_of_the_last_compacted_list_and_of_what_came_after(tmp_path: Path) -> None:
    commit(tmp_path, "0", ("old", "add"))
    commit(tmp_path, "9.compact", ("a", "add"), ("b", "add"))
    commit(tmp_path, "10", ("c", "add"))
    commit(tmp_path, "11", ("b", "delete"))
    (tmp_path / "_spark_metadata" / ".12.tmp").write_text("v1")
    assert [path.name for path in committed_files(tmp_path)] == ["a", "c"]


def test_a_load_has_come_as_far_as_its_last_committed_batch(tmp_path: Path) -> None:
    for number, end in enumerate((5, 9, 20)):
        offsets = tmp_path / "offsets" / str(number)
        offsets.parent.mkdir(exist_ok=True)
        offsets.write_text(f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"events":{{"0":{end}}}}}')
    (tmp_path / "commits").mkdir()
    for number in (0, 1):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    assert loaded(tmp_path)["events", 0].end == 9
    assert set(loaded(tmp_path)) == {("events", 0)}
    assert loaded(tmp_path / "nothing") == {}


@pytest.mark.parametrize("topic", ["conf", "batchWatermarkMs", "2024"])
def test_a_topic_may_be_called_as_spark_calls_its_own_settings(tmp_path: Path, topic: str) -> None:
    for folder, text in (
        ("offsets", f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{{"{topic}":{{"0":7}}}}'),
        ("commits", "v1"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text)
    assert {at: bounds.end for at, bounds in loaded(tmp_path).items()} == {(topic, 0): 7}


def test_a_topic_is_told_by_its_folder_however_it_is_written() -> None:
    assert topic_of(Path("/w/topic=page%3Aviews/date=2026-01-01/hour=3/part-0.parquet")) == "page:views"
    assert topic_of(Path("/w/topic=2024/date=2026-01-01/hour=3/part-0.parquet")) == "2024"
    assert topic_of(Path("/data/topic=all/w/topic=views/date=2026-01-01/hour=3/part-0.parquet")) == "views"
