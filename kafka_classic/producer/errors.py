"""What a producer itself refuses or gives up, each with Kafka's code and what to do about it."""

from __future__ import annotations

from collections.abc import Callable

from kafka_classic.client.errors import Refused
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.wire.errors import Error, KafkaError


class RecordTooLarge(Refused):
    """A record, or what it is sent in, is larger than max.request.size or buffer.memory."""


class BufferExhausted(Refused):
    """No memory became free within max.block.ms: brokers take less than is sent."""


class DeliveryTimedOut(Refused):
    """Not acknowledged within delivery.timeout.ms. It may have been written all the same."""


class ProducerClosed(Refused):
    """The producer is closed, or was closed before this could be delivered."""


class WindowShut(Exception):
    """An audited producer has told nobody yet of the window of time in which a batch would begin. No user sees it."""

    def __init__(self, open_it: Callable[[], None]) -> None:
        super().__init__("call open_it(), and send again")
        self.open_it = open_it


def closed() -> ProducerClosed:
    return ProducerClosed(Error.network_exception, "the producer was closed")


def forked() -> ProducerClosed:
    return ProducerClosed(
        Error.network_exception,
        "the producer's threads stayed in the parent process: make a producer in this one",
    )


def timed_out(at: TopicPartition, last: KafkaError | None) -> DeliveryTimedOut:
    topic, partition = at
    why = f"; the last failure was: {last.message}" if last else ""
    return DeliveryTimedOut(
        Error.request_timed_out,
        f"partition {partition} of {topic!r} did not acknowledge within delivery.timeout.ms{why}",
    )


def exhausted(size: int, limit: int) -> BufferExhausted:
    return BufferExhausted(
        Error.request_timed_out,
        f"no {size} bytes of buffer.memory ({limit}) became free within max.block.ms: "
        "brokers take less than is sent; send less, or wait longer",
    )
