"""Does a cluster keep its word? Producers write numbered records, consumers read along, and in the end all is compared.

    load = Load(cluster.bootstrap, "orders", partitions=3, idempotent=True)
    load.start(); ...break things...; load.stop()
    verdict = judge(load.history())
    assert verdict.kept, verdict

A record's value is `producer:number`, unique and rising for each producer and partition. What a producer was told of
it (acknowledged at an offset, or failed, and then nobody knows) and what consumers saw where is written down; the log
as it stands in the end is the truth that both are held against.

The clients are librdkafka's and, for producers that must not repeat anything, kafka-python's (`pip install
confluent-kafka kafka-python`): nothing here shares code with the brokers under test.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

Where = tuple[int, int]  # partition, offset

UNKNOWN = -1  # the offset of a record that is acknowledged, but nobody was told where it is
DELIVERY_MS = 120_000
PATIENCE_MS = 3_000
# So many may be on their way to one broker, and unless asked for no more are given to the client: librdkafka and
# kafka-python poll without a pause while they have what they may not send, and servers that get no processor time lose
# their sessions.
IN_FLIGHT = {True: 5, False: 1}  # of an idempotent producer, and of one that keeps order by waiting
PAUSE_S = 0.004
POLL_S = 0.1


@dataclass(slots=True)
class History:
    """What the clients of one topic were told and saw, and what is in its log in the end."""

    sent: dict[str, int] = field(default_factory=dict)  # value -> partition
    acknowledged: dict[str, Where] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # value -> why: it may be there or not
    seen: dict[Where, set[str]] = field(default_factory=dict)
    final: dict[Where, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many records there are of each kind, and the first few that should not be."""

    sent: int
    acknowledged: int
    unknown: int
    lost: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    out_of_order: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether all that was acknowledged is there once, in order, and nothing seen has gone."""
        return not any((self.lost, self.moved, self.duplicated, self.strange, self.out_of_order, self.vanished))

    def __str__(self) -> str:
        lines = [f"{self.sent} sent, {self.acknowledged} acknowledged, {self.unknown} with no or a bad answer"]
        for kind in ("lost", "moved", "duplicated", "strange", "out_of_order", "vanished"):
            rows = getattr(self, kind)
            if rows:
                lines.append(f"{len(rows)} {kind.replace('_', ' ')}: {'; '.join(rows[:5])}")
        return "\n".join(lines)


def judge(history: History) -> Verdict:
    """Hold what was told and seen against what is there."""
    places: dict[str, list[Where]] = {}
    for where in sorted(history.final):
        places.setdefault(history.final[where], []).append(where)
    return Verdict(
        sent=len(history.sent),
        acknowledged=len(history.acknowledged),
        unknown=len(history.sent) - len(history.acknowledged),
        lost=tuple(f"{v} told to be at {w}" for v, w in history.acknowledged.items() if v not in places),
        moved=tuple(
            f"{v} told to be at {w}, is at {places[v]}"
            for v, w in history.acknowledged.items()
            if v in places and w[1] >= 0 and w not in places[v]
        ),
        duplicated=tuple(f"{v} at {rows}" for v, rows in places.items() if len(rows) > 1),
        strange=tuple(
            f"{v} at {rows}"
            for v, rows in places.items()
            if any(history.sent.get(v) != partition for partition, _ in rows)
        ),
        out_of_order=tuple(_out_of_order(history.final)),
        vanished=tuple(
            f"{sorted(values)} seen at {where}, where {history.final.get(where, 'nothing')} is"
            for where, values in sorted(history.seen.items())
            if values != {history.final.get(where)}
        ),
    )


def _out_of_order(final: Mapping[Where, str]) -> Iterable[str]:
    last: dict[tuple[int, str], tuple[int, int]] = {}
    for (partition, offset), value in sorted(final.items()):
        producer, _, text = value.rpartition(":")
        number = int(text)
        before, at = last.get((partition, producer), (-1, -1))
        if number < before:
            yield f"{producer}:{number} at {(partition, offset)} after {producer}:{before} at {(partition, at)}"
        last[partition, producer] = number, offset


class Load:
    """Producers and a consumer at work on one topic, each on a thread of its own.

    Idempotent producers send again until it is acknowledged. Plain ones never do: what failed is left, because sent
    again it might be there twice. (librdkafka, even told not to, sends again what a leader took that lost its place
    before all had it, and Kafka's own brokers answer then as ours do: so these are kafka-python's.) `queued` is how
    many records more a producer is given than it may have under way.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        idempotent: bool,
        acks: str = "all",
        producers: int = 2,
        consume: bool = True,
        queued: int = 0,
    ) -> None:
        self.topic = topic
        self._most = IN_FLIGHT[idempotent] + queued
        self.idempotent = idempotent
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._acks = acks
        self._history = History()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._end = threading.Event()
        self._errors: list[BaseException] = []
        self._writers = [
            threading.Thread(target=self._guard, args=(self._repeat if idempotent else self._once, f"{topic}/{n}"))
            for n in range(producers)
        ]
        for thread in self._writers:
            thread.daemon = True
        self._reader = threading.Thread(target=self._guard, args=(self._read,), daemon=True) if consume else None

    def start(self) -> Load:
        for thread in (*self._writers, *([self._reader] if self._reader else [])):
            thread.start()
        return self

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged so far."""
        return len(self._history.acknowledged)

    def stop(self, timeout: float = 150.0) -> None:
        """Let the producers end what they have begun."""
        self._stop.set()
        for thread in self._writers:
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"a producer of {self.topic} does not come to an end")
        self._raise()

    def history(self, timeout: float = 90.0) -> History:
        """Stop the consumer, read the whole topic, and return all that is known."""
        self._end.set()
        if self._reader is not None:
            self._reader.join(timeout)
        self._raise()
        self._history.final = read_all(self._bootstrap, self.topic, self._partitions, timeout)
        return self._history

    def abandon(self) -> None:
        """End everything and wait for nothing: nobody will ask what became of it."""
        self._stop.set()
        self._end.set()

    def _guard(self, work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            self._errors.append(error)

    def _raise(self) -> None:
        if self._errors:
            raise self._errors[0]

    def _once(self, name: str) -> None:
        """A producer that sends each record once, whatever the answer."""
        from kafka.errors import KafkaError

        producer = plain_producer(
            self._bootstrap,
            self._acks,
            PATIENCE_MS,
            client_id=name,
            max_in_flight_requests_per_connection=IN_FLIGHT[False],
            linger_ms=5,
            max_block_ms=DELIVERY_MS,
            metadata_max_age_ms=1000,
            reconnect_backoff_max_ms=500,
        )
        waiting: set[str] = set()

        def told(value: str, answer: Any) -> None:
            with self._lock:
                waiting.discard(value)
                if isinstance(answer, BaseException):
                    self._history.failed[value] = str(answer)
                else:
                    self._history.acknowledged[value] = (answer.partition, answer.offset)

        number = 0
        while not self._stop.is_set():
            if len(waiting) < self._most:
                value, partition = f"{name}:{number}", number % self._partitions
                with self._lock:
                    self._history.sent[value] = partition
                    waiting.add(value)
                number += 1
                try:
                    sending = producer.send(self.topic, value.encode(), partition=partition)
                    sending.add_both(partial(told, value))
                except KafkaError as error:
                    told(value, error)
            self._stop.wait(PAUSE_S)
        producer.close(DELIVERY_MS / 1000)

    def _repeat(self, name: str) -> None:
        """A producer that sends each record until it is acknowledged, and is recognised when it repeats itself."""
        from confluent_kafka import KafkaException, Producer

        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "client.id": name,
            "enable.idempotence": True,
            "message.timeout.ms": DELIVERY_MS,
            "linger.ms": 5,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "retry.backoff.ms": 50,
            "socket.timeout.ms": 10_000,
            "log_level": 0,
        }
        producer = Producer(settings)
        number = 0
        while not self._stop.is_set():
            if len(producer) < self._most:
                value, partition = f"{name}:{number}", number % self._partitions
                with self._lock:
                    self._history.sent[value] = partition
                try:
                    producer.produce(self.topic, value.encode(), partition=partition, on_delivery=self._delivered)
                    number += 1
                except (BufferError, KafkaException) as error:
                    with self._lock:
                        self._history.failed[value] = str(error)
                    number += 1
            producer.poll(PAUSE_S)
        left = producer.flush((DELIVERY_MS + 10_000) / 1000)
        if left:
            raise TimeoutError(f"{name}: {left} records were neither acknowledged nor given up")

    def _delivered(self, error: Any, message: Any) -> None:
        value = message.value().decode()
        with self._lock:
            if error is None:
                # librdkafka takes the answer to a later batch for one to those before it, whose own was lost; where
                # these are it does not know, and says None.
                offset = message.offset()
                self._history.acknowledged[value] = (message.partition(), UNKNOWN if offset is None else offset)
            else:
                self._history.failed[value] = str(error)

    def _read(self) -> None:
        """Read along from the beginning; whoever loses its place goes on from there, and notes what it sees again."""
        consumer = _consumer(self._bootstrap, f"{self.topic}-reader", self.topic, range(self._partitions))
        try:
            while not self._end.is_set():
                for message in consumer.consume(500, POLL_S):
                    if message.error() is None:
                        where = (message.partition(), message.offset())
                        self._history.seen.setdefault(where, set()).add(message.value().decode())
        finally:
            consumer.close()


def plain_producer(bootstrap: str, acks: str, patience_ms: int, **settings: Any) -> Any:
    """kafka-python's producer, sending everything once and saying nothing of the faults that it meets."""
    from kafka import KafkaProducer

    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    return KafkaProducer(
        bootstrap_servers=bootstrap,
        acks=acks if acks == "all" else int(acks),
        retries=0,
        enable_idempotence=False,
        request_timeout_ms=patience_ms,
        delivery_timeout_ms=2 * patience_ms,
        **settings,
    )


def _consumer(bootstrap: str, name: str, topic: str, partitions: Iterable[int]) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
    return consumer


def read_all(bootstrap: str, topic: str, partitions: int, timeout: float = 90.0) -> dict[Where, str]:
    """All records of a topic as its leaders have them now."""
    from kafka_classic.client.admin import LATEST, list_offsets
    from kafka_classic.client.cluster import Cluster

    with Cluster(bootstrap, deadline=timeout) as cluster:
        ends = list_offsets(cluster, {(topic, index): LATEST for index in range(partitions)})
    missing = {index: ends[topic, index].offset for index in range(partitions) if ends[topic, index].offset > 0}
    found: dict[Where, str] = {}
    if not missing:
        return found
    deadline = time.monotonic() + timeout
    consumer = _consumer(bootstrap, f"{topic}-final", topic, missing)
    try:
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: the ends {missing} were not reached in {timeout:g} s")
            for message in consumer.consume(1000, POLL_S):
                if message.error() is None:
                    found[message.partition(), message.offset()] = message.value().decode()
                    if message.offset() + 1 >= missing.get(message.partition(), 1 << 62):
                        del missing[message.partition()]
    finally:
        consumer.close()
    return found


def log_bytes(data_dir: Path, topic: str, partition: int) -> bytes:
    """The log of one replica as it lies on its broker's disk."""
    return b"".join(file.read_bytes() for file in sorted((data_dir / f"{topic}-{partition}").glob("*.log")))


def diverged(data_dirs: Iterable[Path], topic: str, partitions: int) -> list[int]:
    """The partitions whose replicas are not equal byte for byte, as those of compacted topics need not be."""
    folders = list(data_dirs)
    return [index for index in range(partitions) if len({log_bytes(folder, topic, index) for folder in folders}) > 1]
