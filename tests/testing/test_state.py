"""cluster.json is read back as it was written, and anything else is refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_classic.testing.state import ClusterState, ServerState, StateUnreadable, boot_id, read_state, write_state

STATE = ClusterState(
    zookeeper="127.0.0.1:2181",
    embedded=ServerState(-1, "127.0.0.1", 2181, 10, 100),
    brokers=(ServerState(0, "127.0.0.1", 9092, 11, 101), ServerState(1, "127.0.0.1", 9093, 12, 102)),
    settings={"num.partitions": "3"},
    detached=True,
    boot=boot_id(),
)


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE
    assert STATE.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "brokers": 3}', "\0\0"])
def test_a_state_that_is_not_ours_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(StateUnreadable, match="remove it and start again"):
        read_state(tmp_path)
