"""The end of a turn: an error in one partition is told to its own producers, and holds up no other's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import gevent
import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.produce import Outcome, Produced
from kafka_classic.broker.turn import Turn
from kafka_classic.log.directory import LogDir
from kafka_classic.log.log import Log
from kafka_classic.records.batch import check_batch
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response
from tests.broker.raw import batch
from tests.broker.test_review import hosting


def test_an_error_that_nobody_thought_of_is_not_answered_as_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDir(tmp_path, 0, "cluster")
    hosted = hosting(directory)
    partitions: list[Partition] = []
    for index in range(3):
        hosted.take("t", UUID(int=7), index, Leadership(0, 0, (0,), (0,), 0), 0.0)
        partition, _ = hosted.find("t", index)
        assert partition is not None
        partitions.append(partition)
    commit, bad = Log.commit, partitions[1].log

    def fails(log: Log) -> None:
        if log is bad:
            raise ZeroDivisionError("nobody thought of this")
        commit(log)

    monkeypatch.setattr(Log, "commit", fails)
    woken: list[Partition] = []
    turn = Turn(woken.append, gevent.get_hub().loop)
    sent: list[bytes] = []
    connection: Any = SimpleNamespace(send=sent.append)
    for partition in partitions:
        view = memoryview(bytearray(batch(b"x")))
        base = partition.log.stage(view, check_batch(view, 0), 0)
        partition.dirty = True
        turn.dirty.append(partition)
        answer = Produced(8, [("t", [Outcome(partition.index, partition, Error.none, base)])])
        turn.answers.append((connection, answer, 7, 0))
    turn.end()
    assert codes(b"".join(sent)) == [Error.none, Error.kafka_storage_error, Error.none]
    assert [partition.log.end_offset for partition in partitions] == [1, 0, 1]
    assert [partition.dirty for partition in partitions] == [False] * 3
    assert woken == partitions
    assert "ZeroDivisionError" in str(bad.failed)
    monkeypatch.undo()
    directory.close()


def codes(frames: bytes) -> list[Error]:
    found = []
    while frames:
        size = int.from_bytes(frames[:4], "big")
        _, response = read_response(Api.PRODUCE, 8, frames[4 : 4 + size])
        found += [row.error_code for topic in response.responses for row in topic.partition_responses]
        frames = frames[4 + size :]
    return found
