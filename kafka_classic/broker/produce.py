"""Produce: check each batch, give it its place in the log, answer once it is written; for acks=all, by all in sync.

Nothing here decodes a record unless the topic asks for another codec. Of a batch are checked its header, its CRC
(P22) and, uncompressed, that its records are as many as it says.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kafka_classic.broker.reshape import check_keys, reshape
from kafka_classic.log.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    StorageError,
    UnknownProducerId,
)
from kafka_classic.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    InvalidRecord,
    UnsupportedMagic,
    check_batch,
)
from kafka_classic.records.codecs import Codec
from kafka_classic.records.walk import count_records
from kafka_classic.replication.partition import SLOW, UNLESS_ALL, Partition
from kafka_classic.settings import INTERNAL_TOPICS, TopicSettings
from kafka_classic.wire.bodies import RequestHeader
from kafka_classic.wire.errors import Error
from kafka_classic.wire.produce import read_produce, write_produce_response
from kafka_classic.wire.shape import ProduceShape

if TYPE_CHECKING:
    from kafka_classic.broker.connection import Connection
    from kafka_classic.broker.fence import Fence
    from kafka_classic.broker.hosted import HostedPartitions
    from kafka_classic.broker.turn import Turn

# What the fast path leaves to the general one, which knows the answer to each.
FALL_BACK = (
    InvalidRecord,
    DuplicateSequence,
    OutOfOrderSequence,
    InvalidProducerEpoch,
    UnknownProducerId,
    StorageError,
)

# Whoever repairs the brokers' own topics by hand calls itself so, as in Kafka.
ADMIN_CLIENT = "__admin_client"
INTERNAL = "only brokers write to this topic"
DESERTED = "this broker has lost ZooKeeper and a follower: another leads by now"
ZSTD_SINCE = 7  # the version of Produce that may carry zstd


class ProducePlan:
    """What is known of a request that a connection repeats: one topic, one partition; only the records differ."""

    __slots__ = (
        "_has_start",
        "_mid",
        "_pack",
        "_size",
        "_tail",
        "acks",
        "flexible",
        "key_version",
        "partition",
        "prefix",
        "pressing",
        "records_at",
        "shape",
    )

    def __init__(self, shape: ProduceShape, partition: Partition, acks: int, flexible: bool) -> None:
        self.shape = shape
        self.partition = partition
        self.acks = acks
        self.pressing = UNLESS_ALL if acks == -1 else SLOW  # the partition's `fast` must be above this
        self.flexible = flexible
        self.key_version = shape.key_version
        self.prefix = shape.prefix
        self.records_at = 12 + len(shape.prefix)  # from the start of the frame, its size included
        # What shape.pack_ok() packs, without the call.
        self._pack = shape.response.pack
        self._size, self._mid, self._tail, self._has_start = shape.size, shape.mid, shape.tail, shape.has_start

    def answer(self, correlation_id: int, base_offset: int) -> bytes:
        log = self.partition.log
        if log.failed is None:
            if self._has_start:
                return self._pack(self._size, correlation_id, self._mid, base_offset, -1, log.start_offset, self._tail)
            return self.shape.pack_ok(correlation_id, base_offset, -1, -1)
        failed = Outcome(self.partition.index, self.partition, Error.kafka_storage_error)
        return Produced(self.key_version & 0xFFFF, [(self.shape.topic, [failed])]).answer(correlation_id, -1)


class Outcome(NamedTuple):
    """What became of one partition's batches."""

    number: int
    partition: Partition | None
    error: Error
    base_offset: int = -1
    log_append_time: int = -1
    message: str | None = None


class Produced:
    """The answer to a produce request of any shape, made once the turn's writes are done."""

    __slots__ = ("_outcomes", "_version")

    def __init__(self, version: int, outcomes: list[tuple[str | UUID, list[Outcome]]]) -> None:
        self._version = version
        self._outcomes = outcomes

    def answer(self, correlation_id: int, base_offset: int) -> bytes:
        topics = []
        for topic, outcomes in self._outcomes:
            rows: list[tuple[int, int, int, int, int, str | None]] = []
            for index, partition, error, base, appended_at, message in outcomes:
                if partition is not None and partition.log.failed is not None:
                    rows.append((index, Error.kafka_storage_error.value, -1, -1, -1, str(partition.log.failed)))
                else:
                    start = partition.log.start_offset if partition is not None and error is Error.none else -1
                    rows.append((index, error.value, base, appended_at, start, message))
            topics.append((topic, rows))
        return write_produce_response(self._version, correlation_id, topics)


def produce(
    hosted: HostedPartitions,
    turn: Turn,
    fence: Fence,
    connection: Connection,
    header: RequestHeader,
    buf: bytearray,
    view: memoryview,
    start: int,
    stop: int,
) -> ProducePlan | None:
    """Handle one request of any shape; returns a plan where the next of its kind can be recognised by its prefix."""
    version = header.api_version
    request = read_produce(buf, header.body_at, stop, version)
    if request.acks not in (0, 1, -1):
        every = [
            (topic, [Outcome(index, None, Error.invalid_required_acks) for index, _, _ in partitions])
            for topic, partitions in request.topics
        ]
        turn.answers.append((connection, Produced(version, every), header.correlation_id, 0))
        return None
    outcomes: list[tuple[str | UUID, list[Outcome]]] = []
    partition: Partition | None = None
    for topic, partitions in request.topics:
        row = []
        for index, at, end in partitions:
            partition, error = hosted.lead(topic, index)
            if partition is None:
                row.append(Outcome(index, None, error))
            elif partition.topic in INTERNAL_TOPICS and header.client_id != ADMIN_CLIENT:
                row.append(Outcome(index, None, Error.invalid_topic_exception, message=INTERNAL))
            elif request.transactional_id is not None:
                row.append(Outcome(index, None, Error.transactional_id_authorization_failed))
            elif request.acks == -1 and fence.deserted(partition):
                row.append(Outcome(index, None, Error.not_leader_or_follower, message=DESERTED))
            else:
                row.append(_append(partition, turn, view[at:end], index, version, request.acks))
        outcomes.append((topic, row))
    if request.acks == -1 and any(
        o.partition is not None and o.partition.replicated for _, row in outcomes for o in row
    ):
        turn.delay(DelayedProduce(fence, connection, header, outcomes, request.timeout_ms))
    elif request.acks:
        turn.answers.append((connection, Produced(version, outcomes), header.correlation_id, 0))
    elif any(o.error is not Error.none for _, row in outcomes for o in row):
        # With acks=0 there is no answer to carry the error; closing tells the client to look again, as Kafka does.
        connection.close()
        return None
    if partition is None or len(outcomes) != 1 or len(outcomes[0][1]) != 1:
        return None
    if version < ZSTD_SINCE or request.transactional_id is not None:
        return None  # the fast path asks for neither
    shape = ProduceShape.of(buf, start, stop, header, request)
    return None if shape is None else ProducePlan(shape, partition, request.acks, version >= 9)


def _append(partition: Partition, turn: Turn, view: memoryview, index: int, version: int, acks: int) -> Outcome:
    """Check one partition's batches, all before any is staged, then stage them."""
    if partition.log.failed is not None:
        return Outcome(index, partition, Error.kafka_storage_error)
    now_ms = int(time.time() * 1000)
    if acks == -1 and len(partition.isr) < partition.min_isr:
        there = _is_there(partition, view, version, now_ms)
        lack = Error.not_enough_replicas_after_append if there else Error.not_enough_replicas
        return Outcome(index, None, lack, message=_too_few(partition))
    try:
        batches = _checked(partition, view, version, now_ms)
    except UnsupportedMagic as error:
        return Outcome(index, None, Error.unsupported_for_message_format, message=str(error))
    except CorruptBatch as error:
        return Outcome(index, None, Error.corrupt_message, message=str(error))
    except InvalidRecord as error:
        return Outcome(index, None, Error.invalid_record, message=str(error))
    except Refused as error:
        return Outcome(index, None, error.code, message=str(error))
    appended_at = now_ms if partition.settings.message_timestamp_type == "LogAppendTime" else -1
    first = -1
    try:
        for batch, header in batches:
            base = partition.log.stage(batch, header, partition.leader_epoch)
            first = base if first < 0 else first
            if not partition.dirty:
                partition.dirty = True
                turn.dirty.append(partition)
    except DuplicateSequence as duplicate:
        # Already written: the producer only missed the answer.
        appended_at = duplicate.log_append_time if appended_at >= 0 else -1
        return Outcome(index, partition, Error.none, duplicate.base_offset, appended_at)
    except OutOfOrderSequence as error:
        return Outcome(index, None, Error.out_of_order_sequence_number, message=str(error))
    except InvalidProducerEpoch as error:
        return Outcome(index, None, Error.invalid_producer_epoch, message=str(error))
    except UnknownProducerId as error:
        return Outcome(index, None, Error.unknown_producer_id, message=str(error))
    except StorageError as error:
        partition.refresh()
        return Outcome(index, partition, Error.kafka_storage_error, message=str(error))
    return Outcome(index, partition, Error.none, first, appended_at)


def _is_there(partition: Partition, view: memoryview, version: int, now_ms: int) -> bool:
    """Whether this came before and was written.

    NOT_ENOUGH_REPLICAS says that it was not, and a client that believes it may give the same records other numbers.
    """
    try:
        for _, header in _checked(partition, view, version, now_ms):
            partition.log.producers.check(header)
    except DuplicateSequence:
        return True
    except (UnsupportedMagic, CorruptBatch, InvalidRecord, Refused, OutOfOrderSequence, InvalidProducerEpoch):
        pass  # refused for the lack of replicas, and told of this once there are enough
    return False


def _too_few(partition: Partition) -> str:
    return f"{len(partition.isr)} replicas are in sync, fewer than min.insync.replicas={partition.min_isr}"


class DelayedProduce:
    """acks=all, from the write to the answer: waits until all who are in sync have the batches, or its time is over.

    Nothing else waits for it but its own connection, whose requests are handled one after the other. What became of a
    partition is settled once: one whose leadership went may lead again while others are waited for, without the batch.
    """

    __slots__ = (
        "_connection",
        "_done",
        "_fence",
        "_header",
        "_outcomes",
        "_settled",
        "_timeout_ms",
        "_timer",
        "_waits",
    )

    def __init__(
        self,
        fence: Fence,
        connection: Connection,
        header: RequestHeader,
        outcomes: list[tuple[str | UUID, list[Outcome]]],
        timeout_ms: int,
    ) -> None:
        self._fence = fence
        self._connection = connection
        self._header = header
        self._outcomes = outcomes
        self._timeout_ms = timeout_ms
        self._waits: dict[Partition, int] = {}  # up to where all must have it
        self._settled: dict[Partition, tuple[Error, str | None]] = {}
        self._timer: Any = None
        self._done = False
        connection.mute()
        connection.delayed = self

    def begin(self, loop: Any) -> None:
        """The batches are written."""
        if self._done:
            return
        written = {o.partition for _, row in self._outcomes for o in row if o.partition is not None and not o.error}
        # To the log's end rather than the batches': of a batch that was there before, only that is known.
        self._waits = {partition: partition.log.end_offset for partition in written}
        if self._attempt(False):
            return
        for partition in self._waits:
            partition.waiters[self] = None
        self._timer = loop.timer(max(self._timeout_ms, 0) / 1000)
        self._timer.start(self._expire)

    def again(self) -> None:
        if not self._done:
            self._attempt(False)

    def cancel(self) -> None:
        """Wait no longer: answered, or the connection is gone."""
        self._done = True
        for partition in self._waits:
            partition.waiters.pop(self, None)
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _expire(self) -> None:
        if not self._done:
            self._attempt(True)

    def _attempt(self, final: bool) -> bool:
        for partition, end in [*self._waits.items()]:
            known = reached(self._fence, partition, end)
            if known is None and self._fence.deserted(partition):
                # A client that is told of the time that is over comes back here, as it knows no better: for minutes.
                known = Error.not_leader_or_follower, DESERTED
            if known is None:
                if not final:
                    continue
                known = Error.request_timed_out, "not all replicas in sync had it in time; it may yet be there"
            self._settled[partition] = known
            del self._waits[partition]
            partition.waiters.pop(self, None)
        if self._waits:
            return False
        self.cancel()
        for _, row in self._outcomes:
            for n, outcome in enumerate(row):
                if outcome.partition in self._settled and not outcome.error:
                    error, message = self._settled[outcome.partition]
                    if error is not Error.none:
                        row[n] = outcome._replace(error=error, base_offset=-1, message=message)
        answer = Produced(self._header.api_version, self._outcomes).answer(self._header.correlation_id, 0)
        self._connection.unmute([answer])
        return True


def reached(fence: Fence, partition: Partition, end: int) -> tuple[Error, str | None] | None:
    """What became of the batches that end there, and were to be replicated; None while that is open."""
    if partition.gone:
        return Error.unknown_topic_or_partition, None
    if partition.log.failed is not None:
        return Error.kafka_storage_error, str(partition.log.failed)
    if not partition.leading:
        return Error.not_leader_or_follower, None
    if partition.high_watermark < end or (fence.closed and partition.replicated):
        return None
    if len(partition.isr) < partition.min_isr:
        return Error.not_enough_replicas_after_append, _too_few(partition)
    return Error.none, None


class Refused(Exception):
    """A sound batch that this topic does not take."""

    def __init__(self, code: Error, message: str) -> None:
        super().__init__(message)
        self.code = code


def _checked(partition: Partition, view: memoryview, version: int, now_ms: int) -> list[tuple[memoryview, BatchHeader]]:
    """The batches of `view`, each sound and as the topic wants them."""
    if not len(view):
        raise InvalidRecord("a produce request must carry one batch a partition")
    settings = partition.settings
    found = []
    at = 0
    while at < len(view):
        header = check_batch(view, at)
        batch = view[at : at + header.size]
        at += header.size
        _check_size(header, settings)
        if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
            raise InvalidRecord(
                f"a batch of {header.record_count} records has the last offset delta {header.last_offset_delta}"
            )
        if header.is_control or header.is_transactional:
            raise InvalidRecord("transactional and control batches are not served")
        if header.codec > Codec.ZSTD:
            raise Refused(Error.unsupported_compression_type, f"unknown codec {header.codec}")
        if header.codec == Codec.ZSTD and version < ZSTD_SINCE:
            raise Refused(Error.unsupported_compression_type, "zstd needs Produce version 7")
        if header.codec == Codec.NONE and count_records(batch, HEADER_SIZE, header.size) != header.record_count:
            raise InvalidRecord("a batch holds other than the records that it counts")
        if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
            raise InvalidRecord("an idempotent batch needs an epoch and a sequence number")
        if settings.message_timestamp_type == "CreateTime":
            _check_timestamps(partition, header, now_ms)
        if settings.compacts:
            check_keys(batch, header)
        found.append((batch, header))
    if len(found) > 1:
        raise InvalidRecord("a produce request must carry one batch a partition")
    reshaped = [reshape(batch, header, settings, now_ms) for batch, header in found]
    for _, header in reshaped:
        _check_size(header, settings)  # another codec may have made it larger
    return reshaped


def _check_size(header: BatchHeader, settings: TopicSettings) -> None:
    if header.size > settings.max_message_bytes:
        raise Refused(
            Error.message_too_large,
            f"a batch of {header.size} bytes is over max.message.bytes={settings.max_message_bytes}",
        )


def _check_timestamps(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    settings = partition.settings
    if header.max_timestamp > now_ms + settings.message_timestamp_after_max_ms:
        raise Refused(
            Error.invalid_timestamp,
            f"timestamp {header.max_timestamp} is further ahead than message.timestamp.after.max.ms allows",
        )
    if header.base_timestamp >= 0 and header.base_timestamp < now_ms - settings.message_timestamp_before_max_ms:
        raise Refused(
            Error.invalid_timestamp,
            f"timestamp {header.base_timestamp} is further back than message.timestamp.before.max.ms allows",
        )
