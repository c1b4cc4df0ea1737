"""The simple consumer: any offset of any partition, as often as one likes (P11).

    with SimpleConsumer("127.0.0.1:9092") as consumer:
        messages = consumer.fetch("page-views", 0, offset=0)
        (offset,) = consumer.offsets_before("page-views", 0, yesterday_ms)
        consumer.seek("page-views", 0, offset)
        for message in consumer.messages(idle=1.0):      # from there on, once more
            ...

No group, no ZooKeeper registry, nothing committed: the broker does not know who has read what, so reading again is
nothing special to it. Who wants to go on later keeps `position()` himself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType

from kafka_classic.client import simple
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import DEFAULT_CLIENT_ID
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.offsets import EARLIEST, LATEST, list_offsets
from kafka_classic.consumer.message import Message
from kafka_classic.records.record import Record


class SimpleConsumer:
    """Reads partitions from offsets that the caller chooses. For one thread."""

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        zookeeper: str | None = None,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout: float = 30.0,
    ) -> None:
        if (bootstrap is None) == (zookeeper is None):
            raise ValueError("give the brokers' addresses as bootstrap=, or ZooKeeper's as zookeeper=")
        if bootstrap is None:
            assert zookeeper is not None
            bootstrap = registered_brokers(zookeeper)
        self._cluster = Cluster(bootstrap, client_id, request_timeout=timeout)
        self._positions: dict[TopicPartition, int] = {}

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = 1 << 20, *, max_wait_ms: int = 0
    ) -> list[Message]:
        """Return the messages from an offset on, of about so many bytes (one at least); none at the end of the log.

        Every checksum is verified (P22). Go on at the `next_offset` of the last one.
        """
        limits = FetchLimits(max_wait_ms=max_wait_ms, max_bytes=max(max_bytes, 1), partition_max_bytes=max_bytes)
        while True:
            found = simple.fetch(self._cluster, topic, partition, offset, limits)
            if found.records or found.next_offset == offset:
                return [_message(topic, partition, record) for record in found.records]
            # A batch without a message from here on: the last one's end, in a classic log, or one of control records.
            offset = found.next_offset

    def offsets_before(self, topic: str, partition: int, time: int, max_offsets: int = 1) -> list[int]:
        """Return offsets to begin from so as to miss nothing since a time, the nearest first and then the log's start.

        The time is in milliseconds, or EARLIEST or LATEST. Where no message is that late it is the end of the log.
        """
        at = topic, partition
        nearest = list_offsets(self._cluster, {at: time})[at].offset
        if nearest < 0:
            nearest = list_offsets(self._cluster, {at: LATEST})[at].offset
        start = list_offsets(self._cluster, {at: EARLIEST})[at].offset if max_offsets > 1 else nearest
        return list(dict.fromkeys((nearest, start)))[: max(max_offsets, 0)]

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        return [partition.index for partition in self._cluster.topic(topic).partitions]

    def seek(self, topic: str, partition: int, offset: int) -> int:
        """Let messages() read this partition from an offset, EARLIEST or LATEST on; returns the offset itself."""
        at = topic, partition
        self._positions[at] = list_offsets(self._cluster, {at: offset})[at].offset if offset < 0 else offset
        return self._positions[at]

    def position(self, topic: str, partition: int) -> int:
        """Return the offset to go on from: that of the message in hand, until the next one is asked for."""
        return self._positions[topic, partition]

    def messages(
        self, *, until: Mapping[TopicPartition, int] | None = None, count: int | None = None, idle: float | None = None
    ) -> Iterator[Message]:
        """Read on in all partitions that were sought, in order within each (P21), for ever or until an end.

        The end is whichever comes first: every partition has reached its offset in `until`, `count` messages were
        read, or none came for `idle` seconds. Called again it goes on from there, or from where seek() put it.
        """
        for topic, partition, record in simple.consume(
            self._cluster, self._positions, until=until, count=count, idle=idle
        ):
            self._positions[topic, partition] = record.offset
            yield _message(topic, partition, record)
            if self._positions[topic, partition] == record.offset:
                self._positions[topic, partition] = record.offset + 1

    def close(self) -> None:
        self._cluster.close()

    def __enter__(self) -> SimpleConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def registered_brokers(zookeeper: str) -> str:
    """Return the addresses of the brokers that are registered in ZooKeeper now (P15)."""
    from kafka_classic.zk.brokers import BrokerRegistry, bootstrap_of
    from kafka_classic.zk.session import Session

    with Session(zookeeper) as session:
        live = bootstrap_of(BrokerRegistry(session).live())
    if not live:
        raise LookupError(f"no broker is registered in ZooKeeper at {zookeeper}: is one running, and the chroot right?")
    return live


def _message(topic: str, partition: int, record: Record) -> Message:
    return Message(topic, partition, record.offset, record.key, record.value, record.headers, record.timestamp)
