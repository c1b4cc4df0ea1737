"""The producer's face.

    with Producer(bootstrap="127.0.0.1:9092", compression_type="lz4") as producer:
        future = producer.send("page-views", b"a message")
        producer.send_batch("page-views", [b"a", b"set"])     # published by one call (P1)
        print(future.result().offset)

Thread-safe. No setting is needed; all have Kafka's names, as keyword arguments or in a dict.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.producer.batch import Batch
from kafka_classic.producer.errors import RecordTooLarge, WindowShut, forked
from kafka_classic.producer.futures import RecordFuture, SetFuture
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.partitioners import Partitioner, PartitionFunction
from kafka_classic.producer.scout import Scout, TopicView
from kafka_classic.producer.sender import Sender
from kafka_classic.producer.settings import ProducerSettings
from kafka_classic.records.batch import HEADER_SIZE
from kafka_classic.records.encode import Header, NewRecord
from kafka_classic.settings import SettingsError
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.producer.auditing import Auditor
    from kafka_classic.producer.registry import WatchedRegistry

# What a record takes besides its key, value and headers, at the most: length, attributes, deltas, lengths.
_RECORD_OVERHEAD = 21
_HEADER_OVERHEAD = 10
# To say who leads what takes a broker milliseconds: one that takes so long is paused or cut off, and another is asked.
_QUESTION_S = 5.0
_MAX_TIMESTAMP = 2**63 - 1

Value = bytes | bytearray | memoryview | None
Headers = Mapping[str, bytes | None] | Iterable[Header]


class Producer:
    """Sends messages to the topics of one cluster.

    `partitioner` is "sticky", "random" (the paper's, P12) or "round_robin" for messages without a key (a key decides
    as in the Java client), or a function of (topic, key, partitions). With `sync` each call is a request of its own
    that is written before the call returns; its answer is still the future's. With `audit` it counts what it sends
    and tells it to the topic `__audit`, for `kafka-classic audit` to compare; its batches are numbered with any acks.
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        zookeeper: str | None = None,
        partitioner: str | PartitionFunction = "sticky",
        sync: bool = False,
        audit: bool = False,
        **more_settings: Any,
    ) -> None:
        given = {**(settings or {}), **more_settings}
        bootstrap = bootstrap or given.pop("bootstrap.servers", given.pop("bootstrap_servers", None))
        if (bootstrap is None) == (zookeeper is None):
            raise SettingsError("name the brokers by bootstrap='HOST:PORT,…' or by zookeeper='HOST:PORT', one of both")
        self.settings = ProducerSettings.load(given)
        rng = random.Random()
        self._partitioner = Partitioner(partitioner, self.settings.partitioner_ignore_keys, rng)
        self._sync = sync
        self._max_block = self.settings.max_block_ms / 1000
        self._largest = min(self.settings.max_request_size - HEADER_SIZE, self.settings.buffer_memory)
        self._registry: WatchedRegistry | None = None
        if zookeeper is not None:
            from kafka_classic.producer.registry import WatchedRegistry  # kazoo's import is as dear as all the rest

            self._registry = WatchedRegistry(zookeeper, self.settings.zookeeper_session_timeout_ms / 1000)
        try:
            self._cluster = Cluster(
                bootstrap or (self._registry.bootstrap() if self._registry else ""),
                self.settings.client_id,
                request_timeout=min(_QUESTION_S, self.settings.request_timeout_ms / 1000),
                deadline=self._max_block,
                backoff=Backoff(self.settings.retry_backoff_ms / 1000, self.settings.retry_backoff_max_ms / 1000),
                rng=rng,
            )
            self._auditor = self._audited() if audit else None
        except BaseException:
            if self._registry is not None:
                self._registry.close()
            raise
        self._scout = Scout(
            self._cluster,
            max_age=self.settings.metadata_max_age_ms / 1000,
            client_id=self.settings.client_id,
            producer=self._auditor.producer if self._auditor else None,
        )
        self._sender = Sender(
            self.settings,
            find=self._scout.find,
            batch_closed=self._partitioner.batch_closed,
            rng=rng,
            auditor=self._auditor,
        )
        self._scout.start(self._sender)
        _living.add(self)
        self._closed = self._forked = False
        self._ending = threading.Lock()  # taken once
        if self._registry is not None:
            try:
                self._registry.watch(self._brokers_changed, self._scout.refresh)
            except BaseException:
                self.close(0)
                raise

    def send(
        self,
        topic: str,
        value: Value,
        key: Value = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> RecordFuture:
        """Send one message; the future's result is its RecordMetadata. Waits only for memory and for metadata."""
        if value is not None and type(value) is not bytes:
            value = _bytes(value, "a value")
        if key is not None and type(key) is not bytes:
            key = _bytes(key, "a key")
        size = _RECORD_OVERHEAD + (len(value) if value else 0) + (len(key) if key else 0)
        pairs: Sequence[Header] = ()
        if headers:
            pairs = tuple(_header(pair) for pair in (headers.items() if isinstance(headers, Mapping) else headers))
            size += sum(_HEADER_OVERHEAD + 3 * len(name) + len(word or b"") for name, word in pairs)
        now = int(time.time() * 1000) if timestamp is None else _timestamp(timestamp)
        if size > self._largest:
            raise self._too_large(size)
        lane = self._lane(topic, key, partition)
        record: NewRecord = (key, value, pairs, now)
        if self._sync:
            return RecordFuture(self._append_set(lane, [record], size), 0)
        while True:
            try:
                return RecordFuture(*self._sender.append(lane, record, size))
            except WindowShut as shut:
                shut.open_it()

    def send_batch(
        self,
        topic: str,
        values: Iterable[Value],
        key: Value = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> SetFuture:
        """Publish a set of messages by one call (P1): to one partition, in order, as one batch.

        Without waiting for more to come; a set larger than max.request.size is cut into several batches.
        """
        if key is not None and type(key) is not bytes:
            key = _bytes(key, "a key")
        whole = [value if type(value) is bytes else _bytes(value, "a value") for value in values]
        if not whole:
            return SetFuture(())
        now = int(time.time() * 1000) if timestamp is None else _timestamp(timestamp)
        lane = self._lane(topic, key, partition)
        overhead = _RECORD_OVERHEAD + (len(key) if key else 0)
        parts: list[Batch] = []
        for part, size in self._cut(whole, overhead):
            records: list[NewRecord] = [(key, value, (), now) for value in part]
            parts.append(self._append_set(lane, records, size))
        self._partitioner.batch_closed(topic)
        return SetFuture(parts)

    def flush(self, timeout: float | None = None) -> None:
        """Send all that is gathered and wait until each message is acknowledged or given up; futures tell which."""
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        if self._forked:
            return
        if not self._sender.flush(deadline) and not self._closed:
            raise TimeoutError(f"not all was decided within {timeout} s")

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has."""
        return self._topic(topic).partitions

    def close(self, timeout: float | None = None) -> None:
        """Flush for `timeout` seconds at most, give up the rest, and end. May be called twice."""
        if self._closed:
            return
        try:
            self._sender.flush(float("inf") if timeout is None else time.monotonic() + timeout)
        finally:
            self._closed = True
            # Of two who close at once, one ends it: the connections are needed until the audit's last word is out.
            if self._ending.acquire(blocking=False):
                self._end()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside

    def _end(self) -> None:
        if self._registry is not None:
            self._registry.close()
        self._sender.close()
        if self._auditor is not None:
            self._auditor.close()
        self._scout.stop()

    def _audited(self) -> Auditor:
        """Have batches numbered, and counted under a producer id that is known from the start."""
        from kafka_classic.client.producer_id import init_producer_id
        from kafka_classic.producer.auditing import Auditor

        in_flight = min(5, self.settings.max_in_flight_requests_per_connection)
        self.settings = replace(self.settings, enable_idempotence=True, max_in_flight_requests_per_connection=in_flight)
        return Auditor(self._cluster, self.settings, init_producer_id(self._cluster))

    def _topic(self, name: str) -> TopicView:
        return self._scout.topics.get(name) or self._scout.learn(name, self._max_block)

    def _lane(self, topic: str, key: bytes | None, partition: int | None) -> Lane:
        if self._forked:
            raise forked()
        view = self._scout.topics.get(topic) or self._scout.learn(topic, self._max_block)
        if partition is None:
            partition = self._partitioner.partition(topic, key, view.partitions, view.available)
        elif not 0 <= partition < view.partitions:
            # It may have been added since.
            view = self._scout.learn(topic, self._max_block)
            if not 0 <= partition < view.partitions:
                raise UnknownTopic(
                    Error.unknown_topic_or_partition,
                    f"topic {topic!r} has no partition {partition}: it has {view.partitions}, numbered from 0",
                )
        return self._sender.lanes.get((topic, partition)) or self._sender.lane(topic, partition)

    def _append_set(self, lane: Lane, records: list[NewRecord], size: int) -> Batch:
        while True:
            try:
                return self._sender.append_set(lane, records, size, at_once=self._sync)
            except WindowShut as shut:
                shut.open_it()

    def _too_large(self, size: int) -> RecordTooLarge:
        name = "max.request.size" if size + HEADER_SIZE > self.settings.max_request_size else "buffer.memory"
        return RecordTooLarge(
            Error.message_too_large, f"a message of {size} bytes is larger than {name}: raise it, or send less"
        )

    def _cut(self, values: list[bytes | None], overhead: int) -> Iterable[tuple[list[bytes | None], int]]:
        """The set in parts that a request can hold, with their sizes; mostly one."""
        try:
            total = overhead * len(values) + sum(map(len, values))  # type: ignore[arg-type]  # a null raises
        except TypeError:
            total = overhead * len(values) + sum(len(value or b"") for value in values)
        if total <= self._largest:
            return [(values, total)]
        parts: list[tuple[list[bytes | None], int]] = []
        part: list[bytes | None] = []
        size = 0
        for value in values:
            one = overhead + len(value or b"")
            if one > self._largest:
                raise self._too_large(one)
            if part and size + one > self._largest:
                parts.append((part, size))
                part, size = [], 0
            part.append(value)
            size += one
        return [*parts, (part, size)]

    def _brokers_changed(self, bootstrap: str) -> None:
        self._cluster.found_at(bootstrap)
        self._scout.refresh()


_living: weakref.WeakSet[Producer] = weakref.WeakSet()


def _after_fork() -> None:
    """A child would write into the parent's connections, under its numbers, and end its waiting by closing."""
    for producer in list(_living):
        producer._closed = producer._forked = True
        producer._sender.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _header(pair: Header) -> Header:
    name, word = pair
    if not isinstance(name, str):
        raise TypeError(f"a header's name is str, not {type(name).__name__}")
    return name, word if word is None or type(word) is bytes else _bytes(word, "a header's value")


def _timestamp(ms: int) -> int:
    if not isinstance(ms, int):
        raise TypeError(f"a timestamp is a whole number of milliseconds, not {type(ms).__name__}")
    if not 0 <= ms <= _MAX_TIMESTAMP:
        raise ValueError(f"a timestamp counts milliseconds since 1970, from 0 to 2**63 - 1, not {ms}")
    return ms


def _bytes(value: Any, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{what} is bytes, not {type(value).__name__}" + (": encode it" if isinstance(value, str) else ""))
