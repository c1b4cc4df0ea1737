"""A leader that fails as a test tells it, but keeps Kafka's rules of idempotence: those of our own log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kio.schema.init_producer_id.v6 import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16

from kafka_classic.log.errors import DuplicateSequence, InvalidProducerEpoch, OutOfOrderSequence
from kafka_classic.log.producers import ProducerState
from kafka_classic.records.batch import iter_batches, read_header
from kafka_classic.records.decode import decode_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error
from tests.client.answers import NO_TIME, metadata, produced
from tests.client.scripted import Hangup, Request, ScriptedBroker

TOPIC = "t"


class Log:
    """Partition 0 of a topic: what was sent, what was written, and by which epoch."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.epochs: list[int] = []
        self.sizes: list[int] = []  # records of each batch that came
        self.state = ProducerState()
        self._lock = threading.Lock()

    def append(self, data: bytes) -> tuple[Error, int]:
        """Write a batch, or refuse it as a broker does."""
        header = read_header(data)
        with self._lock:
            self.sizes += [each.record_count for _, each in iter_batches(data)]
            base = len(self.values)
            if header.producer_id >= 0:
                try:
                    self.state.accept(header, base)
                except DuplicateSequence as duplicate:
                    return Error.none, duplicate.base_offset
                except OutOfOrderSequence:
                    return Error.out_of_order_sequence_number, -1
                except InvalidProducerEpoch:
                    return Error.invalid_producer_epoch, -1
            self.values += [record.value for record in decode_records(data)]
            self.epochs.append(header.producer_epoch)
            return Error.none, base


def batch_of(request: Request) -> bytes:
    """The one batch of a Produce."""
    return bytes(request.body.topic_data[0].partition_data[0].records)


def answer(error: Error, offset: int) -> Any:
    return produced({(TOPIC, 0): (error, offset)})


def write(log: Log, request: Request) -> Any:
    """Write and answer, as a sound leader does."""
    return answer(*log.append(batch_of(request)))


# What a leader may do in place of writing and answering.
FAULTS: dict[str, Callable[[Log, Request], Any]] = {
    "hangs up": lambda log, request: _hang_up(),
    "writes and hangs up": lambda log, request: _hang_up(log.append(batch_of(request))),
    "does not lead": lambda log, request: answer(Error.not_leader_or_follower, -1),
    "has too few replicas": lambda log, request: answer(Error.not_enough_replicas, -1),
    "writes to too few": lambda log, request: (
        log.append(batch_of(request)),
        answer(Error.not_enough_replicas_after_append, -1),
    )[1],
    "sends another's answer": lambda log, request: b"\x00\x00\x00\x08\x7f\x7f\x7f\x7fabcd",
    "sends an endless answer": lambda log, request: b"\x7f\xff\xff\xff" + bytes(100),
    "sends a size below zero": lambda log, request: b"\xff\xff\xff\xff" + bytes(100),
    "writes and sends half an answer": lambda log, request: (log.append(batch_of(request)), _cut(request))[1],
}


def _hang_up(_: object = None) -> Any:
    raise Hangup


def _cut(request: Request) -> bytes:
    return b"\x00\x00\x00\x0c" + request.header.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x01\x00\x01t\xff"


@contextmanager
def leader(log: Log, script: Callable[[Request], Any] | None = None) -> Iterator[ScriptedBroker]:
    """A broker that leads TOPIC and does with each Produce what the script says."""
    with ScriptedBroker({Api.PRODUCE: script or (lambda request: write(log, request))}) as broker:
        broker.handlers[Api.METADATA] = lambda _: metadata({0: broker.port}, {TOPIC: [0]})
        broker.handlers[Api.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(
            throttle_time=NO_TIME, error_code=Error.none, producer_id=ProducerId(4000), producer_epoch=i16(0)
        )
        yield broker
