"""A follower's fetching: whose turn it is, when a leader's answer has not room for all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import gevent
import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.encode import encode_batch
from kafka_classic.replication.fetcher import Fetcher
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import BrokerSettings, TopicSettings
from kafka_classic.testing.waiting import until
from kafka_classic.wire.bodies import read_request_header
from kafka_classic.wire.fetch import PartitionOut, read_fetch, write_fetch_response
from kafka_classic.wire.replica_fetch import VERSION

TOPIC_ID = UUID(int=7)
COUNT = 5


class FullLeader:
    """Stands for the connection to a leader that always has more of everything than fits into an answer: one batch."""

    def __init__(self) -> None:
        self.served: list[int] = []

    def next_id(self) -> int:
        return 1

    def close(self) -> None:
        pass

    def exchange(self, frame: bytes, timeout: float) -> bytearray:
        gevent.sleep(0)
        body = frame[4:]
        first = read_fetch(body, read_request_header(body).body_at, len(body), VERSION).partitions[0]
        self.served.append(first.partition)
        now = int(time.time() * 1000)
        batch = encode_batch([(None, b"x", (), now)], base_offset=first.fetch_offset, leader_epoch=1)
        row = PartitionOut(first.partition, 0, first.fetch_offset, first.fetch_offset, 0, len(batch))
        pieces = write_fetch_response(VERSION, 1, 0, 0, 0, [(TOPIC_ID, [row])])
        return bytearray((pieces[0] + batch + b"".join(pieces[1:]))[4:])


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[list[Partition]]:
    """Partitions that broker 1 leads."""
    found = []
    for index in range(COUNT):
        log = Log.open(tmp_path / f"t-{index}", LogConfig())
        partition = Partition("t", index, TOPIC_ID, log, TopicSettings(), BrokerSettings())
        partition.take(Leadership(1, 1, (1, 0), (1, 0), 0), time.monotonic())
        found.append(partition)
    yield found
    for partition in found:
        partition.log.close()


def test_partitions_take_turns_where_an_answer_has_no_room_for_all(followed: list[Partition]) -> None:
    everybody: Any = SimpleNamespace(
        settings=BrokerSettings(), address=lambda _: None, appended=lambda _: None, save_cuts=lambda: None
    )
    leader: Any = FullLeader()
    fetcher = Fetcher(everybody, 1)
    fetcher._peer = leader
    for partition in followed:
        fetcher.add(partition)
    try:
        until(lambda: len(leader.served) >= 4 * COUNT, "answers", sleep=gevent.sleep)
    finally:
        fetcher.stop()
    turns = [leader.served[at : at + COUNT] for at in range(0, 4 * COUNT, COUNT)]
    assert all(sorted(turn) == list(range(COUNT)) for turn in turns), leader.served
