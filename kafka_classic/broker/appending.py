"""What a broker writes to a topic of its own: appended as with acks=all, done when it is replicated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafka_classic.broker.produce import reached
from kafka_classic.log.errors import StorageError
from kafka_classic.records.batch import read_header
from kafka_classic.records.encode import encode_batch
from kafka_classic.replication.partition import Partition
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker

Done = Callable[[Error, int], None]


def append(
    broker: Broker, partition: Partition, epoch: int, rows: Sequence[tuple[bytes, bytes | None]], done: Done
) -> None:
    """Write (key, value) rows if this broker leads the partition in that epoch.

    `done(error, first offset)` is called once, at the end of the turn at the earliest, however long it takes.
    """
    now_ms = int(broker.clock() * 1000)
    if partition.gone or not partition.leading or partition.leader_epoch != epoch:
        done(Error.not_leader_or_follower, -1)
        return
    if len(partition.isr) < partition.min_isr:
        done(Error.not_enough_replicas, -1)
        return
    batch = bytearray(encode_batch([(key, value, (), now_ms) for key, value in rows]))
    if len(batch) > partition.max_batch:
        done(Error.message_too_large, -1)
        return
    try:
        first = partition.log.stage(memoryview(batch), read_header(batch), epoch)
    except StorageError:
        partition.refresh()
        done(Error.kafka_storage_error, -1)
        return
    turn = broker.turn
    if not partition.dirty:
        partition.dirty = True
        turn.dirty.append(partition)
    turn.delay(Appended(broker, partition, first, first + len(rows), done))
    turn.soon()


class Appended:
    """Rows from their write until every in-sync replica has them, or this broker leads no more."""

    __slots__ = ("_broker", "_done", "_end", "_first", "_partition")

    def __init__(self, broker: Broker, partition: Partition, first: int, end: int, done: Done) -> None:
        self._broker = broker
        self._partition = partition
        self._first = first
        self._end = end
        self._done = done

    def begin(self, loop: Any) -> None:
        """The turn's writes are done."""
        self._partition.waiters[self] = None
        self.again()

    def again(self) -> None:
        known = reached(self._broker.fence, self._partition, self._end)
        if known is not None and self._partition.waiters.pop(self, self) is None:
            self._done(known[0], self._first)
