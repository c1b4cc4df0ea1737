"""acks=all in purgatory: what became of each partition is settled once, whatever comes of it later."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import gevent
import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.broker.hosted import HostedPartitions
from kafka_classic.broker.produce import DelayedProduce, Outcome
from kafka_classic.log.directory import LogDir
from kafka_classic.replication.partition import Partition
from kafka_classic.replication.replica import Leadership
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import RequestHeader, read_response
from tests.broker.raw import batch
from tests.broker.test_review import hosting

TOPIC = UUID(int=7)
ME, OTHER = 0, 1


class Connection:
    """Takes an answer in place of a client's."""

    delayed: Any = None
    answer: bytes | None = None

    def mute(self) -> None:
        pass

    def unmute(self, parts: list[bytes]) -> None:
        self.answer = b"".join(parts)

    def codes(self) -> dict[int, Error]:
        """By partition."""
        assert self.answer is not None
        _, response = read_response(Api.PRODUCE, 8, self.answer[4:])
        return {row.index: row.error_code for topic in response.responses for row in topic.partition_responses}


def told(hosted: HostedPartitions, index: int, leader: int, epoch: int) -> Partition:
    words = Leadership(leader, epoch, (ME, OTHER), (ME, OTHER), epoch)
    assert hosted.take("t", TOPIC, index, words, 0.0) is Error.none
    partition, _ = hosted.find("t", index)
    assert partition is not None
    return partition


@pytest.mark.parametrize("came_back", [False, True])
def test_a_batch_whose_leader_lost_its_place_is_never_acknowledged(tmp_path: Path, came_back: bool) -> None:
    """It leads again later, without the batch, while another partition of the same request is still waited for."""
    directory = LogDir(tmp_path, ME, "cluster")
    hosted = hosting(directory)
    lost, slow = (told(hosted, index, ME, 1) for index in (0, 1))
    for partition in (lost, slow):
        partition.log.append(batch(b"x"), 1)
    connection: Any = Connection()
    header = RequestHeader(Api.PRODUCE, 8, 7, "raw", 0)
    outcomes: Any = [("t", [Outcome(n, partition, Error.none, 0) for n, partition in enumerate((lost, slow))])]
    fence: Any = SimpleNamespace(closed=False, deserted=lambda _: False)
    waiting = DelayedProduce(fence, connection, header, outcomes, 60_000)
    waiting.begin(gevent.get_hub().loop)
    told(hosted, 0, OTHER, 2)
    if came_back:
        lost.log.truncate_to(0)
        lost.was_cut(done=True)
        told(hosted, 0, ME, 3)
        lost.log.append(batch(b"of another producer"), 3)
        assert lost.fetched(OTHER, 1, 0.0)
        lost.wake()
    assert connection.answer is None
    slow.fetched(OTHER, 1, 0.0)
    slow.wake()
    assert connection.codes() == {0: Error.not_leader_or_follower, 1: Error.none}
    assert not lost.waiters
    assert not slow.waiters
    directory.close()


def test_a_batch_whose_followers_have_gone_while_zookeeper_is_silent_sends_its_producer_on(tmp_path: Path) -> None:
    """Another leads by now. A producer that is only told that its time is over would come back here for minutes."""
    directory = LogDir(tmp_path, ME, "cluster")
    partition = told(hosting(directory), 0, ME, 1)
    partition.log.append(batch(b"x"), 1)
    fence: Any = SimpleNamespace(closed=True, deserted=lambda _: False)
    connection: Any = Connection()
    header = RequestHeader(Api.PRODUCE, 8, 7, "raw", 0)
    outcomes: Any = [("t", [Outcome(0, partition, Error.none, 0)])]
    DelayedProduce(fence, connection, header, outcomes, 60_000).begin(gevent.get_hub().loop)
    partition.wake()
    assert connection.answer is None
    fence.deserted = lambda _: True
    partition.wake()
    assert connection.codes() == {0: Error.not_leader_or_follower}
    assert not partition.waiters
    directory.close()


def test_a_batch_that_waits_for_one_who_is_out_of_sync_is_answered_by_the_word_that_says_so(tmp_path: Path) -> None:
    """The leader has written the ISR, and a new controller's greeting is quicker than ZooKeeper's answer."""
    directory = LogDir(tmp_path, ME, "cluster")
    hosted = hosting(directory)
    partition = told(hosted, 0, ME, 1)
    partition.log.append(batch(b"x"), 1)
    fence: Any = SimpleNamespace(closed=False, deserted=lambda _: False)
    connection: Any = Connection()
    header = RequestHeader(Api.PRODUCE, 8, 7, "raw", 0)
    outcomes: Any = [("t", [Outcome(0, partition, Error.none, 0)])]
    DelayedProduce(fence, connection, header, outcomes, 60_000).begin(gevent.get_hub().loop)
    partition.propose(frozenset({ME}))
    assert connection.answer is None
    hosted.take("t", TOPIC, 0, Leadership(ME, 1, (ME,), (ME, OTHER), 2), 0.0)
    assert connection.codes() == {0: Error.none}
    directory.close()
