"""Records to partitions, in order: gathered into batches, several requests in flight, sent again when that may help.

    with Writer(cluster, acks=-1, codec=Codec.LZ4) as writer:
        for line in lines:
            writer.write("page-views", 0, (None, line, (), now_ms))

One thread at a time. write() sends whenever a batch is full and waits only while too many requests are in flight;
flush() returns when all is acknowledged, and raises what could not be delivered.

After a failure that may pass (a leader moved, a connection was lost) everything in flight is waited for, and what was
not acknowledged is sent again in its order, one request at a time. With `idempotent` the brokers recognise what they
already have by its sequence numbers; without, a lost acknowledgement may become a duplicate.

This is not the producer: it has no thread, waits in its caller and is told the partitions. So a command or a benchmark
that writes to partitions it names, over the connections it has, knows at once what became of it; and this room must not
import the producer, which stands upon it. Applications use kafka_classic.Producer: any thread, futures, partitioners,
bounded memory, a deadline for each message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.connection import Pending
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.client.produce_packed import VERSION, Produced, pack_produce, read_produced
from kafka_classic.client.producer_id import ProducerId, init_producer_id
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError

_RECORD_OVERHEAD = 16


class Batch(NamedTuple):
    """Encoded records on their way to one partition."""

    at: TopicPartition
    data: bytes
    records: int


class Acknowledged(NamedTuple):
    """Records that their leader has; with acks=0 nobody tells the offset: -1."""

    topic: str
    partition: int
    base_offset: int
    records: int


@dataclass(slots=True)
class _Gathering:
    records: list[NewRecord]
    bytes: int = 0


class Writer:
    """Writes to any number of partitions; `batch_bytes` counts before compression."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        idempotent: bool = False,
        batch_bytes: int = 512 << 10,
        in_flight: int = 5,
        timeout: float = 30.0,
        on_acknowledged: Callable[[Acknowledged], object] | None = None,
    ) -> None:
        if idempotent and acks != -1:
            raise KafkaError(Error.invalid_required_acks, "an idempotent producer needs acks=all (-1)")
        self._cluster = cluster
        self._acks = acks
        self._codec = codec
        self._level = level
        self._idempotent = idempotent
        self._batch_bytes = batch_bytes
        # A broker remembers the last five batches of a producer: more in flight could not be told from new ones.
        self._most_in_flight = min(in_flight, 5) if idempotent else in_flight
        self._timeout = timeout
        self._on_acknowledged = on_acknowledged
        self._gathering: dict[TopicPartition, _Gathering] = {}
        self._in_flight: deque[tuple[list[Batch], Pending[dict[TopicPartition, Produced]]]] = deque()
        self._producer: ProducerId | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def write(self, topic: str, partition: int, record: NewRecord) -> None:
        """Add one (key, value, headers, timestamp in ms) record."""
        at = topic, partition
        gathering = self._gathering.get(at)
        if gathering is None:
            gathering = self._gathering[at] = _Gathering([])
        key, value, headers, _ = record
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        if headers:
            size += sum(len(name) + len(word or b"") + 4 for name, word in headers)
        if gathering.records and gathering.bytes + size > self._batch_bytes:
            self._send([self._seal(at)])
            gathering = self._gathering[at] = _Gathering([])
        gathering.records.append(record)
        gathering.bytes += size

    def flush(self) -> None:
        """Send what is gathered and wait until all is acknowledged."""
        self.send()
        self._drain()

    def send(self) -> None:
        """Send what is gathered, one request to each leader, without waiting for the acknowledgements."""
        batches = [self._seal(at) for at in list(self._gathering)]
        by_leader: dict[int, list[Batch]] = {}
        for batch in batches:
            by_leader.setdefault(self._cluster.leader(*batch.at), []).append(batch)
        for share in by_leader.values():
            self._send(share)

    def close(self) -> None:
        self.flush()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def _seal(self, at: TopicPartition) -> Batch:
        records = self._gathering.pop(at).records
        if not self._idempotent:
            return Batch(at, encode_batch(records, self._codec, level=self._level), len(records))
        if self._producer is None:
            self._producer = init_producer_id(self._cluster)
        sequence = self._sequences.get(at, 0)
        self._sequences[at] = (sequence + len(records)) & 0x7FFFFFFF
        data = encode_batch(
            records,
            self._codec,
            level=self._level,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
        )
        return Batch(at, data, len(records))

    def _send(self, batches: list[Batch]) -> None:
        """Send batches that have one leader."""
        if not self._acks:
            self._cluster.retrying(lambda: self._fire(batches), self._timeout)
            return
        while len(self._in_flight) >= self._most_in_flight:
            self._settle()
        try:
            leader = self._cluster.leader(*batches[0].at)
            pending = self._request(leader, batches)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._recover([], batches)
        else:
            self._in_flight.append((batches, pending))

    def _request(self, leader: int, batches: list[Batch]) -> Pending[dict[TopicPartition, Produced]]:
        body = pack_produce({batch.at: batch.data for batch in batches}, self._acks, int(self._timeout * 1000))
        connection = self._cluster.connection(leader)
        return connection.send_packed(Api.PRODUCE, VERSION, body, read_produced)

    def _fire(self, batches: list[Batch]) -> None:
        connection = self._cluster.connection(self._cluster.leader_now(*batches[0].at))
        connection.require(Api.PRODUCE, VERSION)
        connection.send_unanswered(Api.PRODUCE, VERSION, pack_produce({b.at: b.data for b in batches}, 0, 0))
        for batch in batches:
            self._acknowledge(batch, -1)

    def _drain(self) -> None:
        while self._in_flight:
            self._settle()

    def _settle(self) -> None:
        """Wait for the oldest request; when something in it failed, wait for all and send again what is missing."""
        failed = self._outcome(*self._in_flight.popleft())
        if failed:
            self._recover(failed, [])

    def _outcome(
        self, batches: list[Batch], pending: Pending[dict[TopicPartition, Produced]], behind: bool = False
    ) -> list[Batch]:
        """Acknowledge what its leader has and return what is to be sent again; raises what no attempt can mend."""
        try:
            answers: Mapping[TopicPartition, Produced] = pending.result()
        except KafkaError as error:
            if not error.retriable:
                raise
            self._cluster.forget()
            return batches
        again: list[Batch] = []
        for batch in batches:
            answer = answers.get(batch.at)
            code = Error.unknown_server_error if answer is None else answer.error
            if answer is not None and code in (Error.none, Error.duplicate_sequence_number):
                self._acknowledge(batch, answer.base_offset)
                continue
            failure = partition_error(code, *batch.at, answer.message if answer else None)
            # Behind a batch that failed, the next one is out of order until that one has been sent again.
            if not failure.retriable and not (behind and code == Error.out_of_order_sequence_number):
                raise failure
            self._cluster.forget()
            again.append(batch)
        return again

    def _recover(self, oldest: list[Batch], newest: list[Batch]) -> None:
        """Send again what failed before all that is in flight, then what fails of that, then what was never sent."""
        missing = list(oldest)
        while self._in_flight:
            missing += self._outcome(*self._in_flight.popleft(), behind=bool(missing))
        missing += newest
        for batch in missing:
            self._cluster.retrying(lambda batch=batch: self._send_alone(batch), self._timeout)  # type: ignore[misc]

    def _send_alone(self, batch: Batch) -> None:
        answer = self._request(self._cluster.leader_now(*batch.at), [batch]).result().get(batch.at)
        code = Error.unknown_server_error if answer is None else answer.error
        if answer is None or code not in (Error.none, Error.duplicate_sequence_number):
            raise partition_error(code, *batch.at, answer.message if answer else None)
        self._acknowledge(batch, answer.base_offset)

    def _acknowledge(self, batch: Batch, base_offset: int) -> None:
        if self._on_acknowledged is not None:
            self._on_acknowledged(Acknowledged(*batch.at, base_offset, batch.records))
