"""confluent-kafka: today's librdkafka, the client that most languages build on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.parties import DEADLINE_S, Got, Refused, Sent

admin_module: Any = confluent_kafka.admin  # its types leave out half of what it exports

# librdkafka tells of every lost connection on standard error, and some of our brokers are killed on purpose.
QUIET: Mapping[str, Any] = {"log_level": 2}
# Groups are not served yet, but librdkafka wants a group's name from every consumer.
READER: Mapping[str, Any] = {
    "group.id": "nobody",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "check.crcs": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 1 << 20,
}


def producer_of(bootstrap: str, settings: Mapping[str, Any] | None = None) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, **QUIET, **(settings or {})})


def consumer_of(bootstrap: str, settings: Mapping[str, Any] | None = None) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, **QUIET, **READER, **(settings or {})})


def admin_of(bootstrap: str) -> Any:
    return admin_module.AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def error_name(error: KafkaError) -> str:
    return str(error.name()).removeprefix("_")


def deliver(producer: Producer, topic: str, messages: Sequence[Sent]) -> list[int]:
    """Produce all, wait for all; their offsets, in the order in which they were delivered."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    for message in messages:
        optional: dict[str, Any] = {}
        if message.partition is not None:
            optional["partition"] = message.partition
        if message.timestamp is not None:
            optional["timestamp"] = message.timestamp
        if message.headers:
            optional["headers"] = list(message.headers)
        producer.produce(topic, value=message.value, key=message.key, on_delivery=delivered, **optional)
        producer.poll(0)
    left = producer.flush(DEADLINE_S)
    if errors:
        raise Refused(error_name(errors[0]))
    assert left == 0, f"{left} messages were neither delivered nor refused"
    return offsets


def next_message(consumer: Consumer, deadline: float) -> Any:
    """The next message, or None at the end of a partition; errors are raised."""
    while True:
        message = consumer.poll(1.0)
        if message is None:
            assert time.monotonic() < deadline, "neither a message nor the end came in time"
            continue
        error = message.error()
        if error is None:
            return message
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        raise Refused(error_name(error))


def got(message: Any) -> Got:
    return Got(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def read_to_end(consumer: Consumer, place: TopicPartition) -> list[Got]:
    """Read one partition from the offset that `place` names."""
    consumer.assign([place])
    deadline = time.monotonic() + DEADLINE_S
    found = []
    while (message := next_message(consumer, deadline)) is not None:
        found.append(got(message))
    return found


class Librdkafka:
    name = "librdkafka"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Sent], *, codec: str = "none", acks: str = "all"
    ) -> None:
        producer = producer_of(
            bootstrap,
            {
                "compression.codec": codec,
                "acks": acks,
                "linger.ms": 5,
                "message.max.bytes": 32 << 20,
                "message.timeout.ms": int(DEADLINE_S * 1000),
            },
        )
        deliver(producer, topic, messages)

    def read_from(self, bootstrap: str, topic: str, starts: Sequence[int], *, partition: int = 0) -> list[list[Got]]:
        consumer = consumer_of(bootstrap)
        try:
            return [read_to_end(consumer, TopicPartition(topic, partition, start)) for start in starts]
        finally:
            consumer.close()

    def offsets_at(
        self, bootstrap: str, topic: str, timestamps: Sequence[int], *, partition: int = 0
    ) -> list[int | None]:
        consumer = consumer_of(bootstrap)
        found: list[int | None] = []
        try:
            for time_ms in timestamps:
                (answer,) = consumer.offsets_for_times([TopicPartition(topic, partition, time_ms)], timeout=DEADLINE_S)
                if answer.error is not None:
                    raise KafkaException(answer.error)
                found.append(answer.offset if answer.offset >= 0 else None)
            return found
        finally:
            consumer.close()
