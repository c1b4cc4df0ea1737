"""kafka-python: the protocol in pure Python."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import kafka
import kafka.errors

from tests.clients.parties import DEADLINE_S, Got, Refused, Sent

DEADLINE_MS = int(DEADLINE_S * 1000)


def error_name(error: BaseException) -> str:
    """`MessageSizeTooLargeError` as `MESSAGE_SIZE_TOO_LARGE`."""
    plain = type(error).__name__.removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", plain).upper()


def producer_of(bootstrap: str, **settings: Any) -> Any:
    return kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        **{
            "linger_ms": 5,
            "max_request_size": 32 << 20,
            "max_block_ms": DEADLINE_MS,
            "reconnect_backoff_max_ms": 200,
            **settings,
        },
    )


def deliver(producer: Any, topic: str, messages: Sequence[Sent]) -> list[int]:
    """Produce all, wait for all; their offsets, in the order in which they were sent."""
    try:
        futures = [
            producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        producer.flush(timeout=DEADLINE_S)
        return [future.get(timeout=DEADLINE_S).offset for future in futures]
    except kafka.errors.KafkaError as error:
        raise Refused(error_name(error)) from error


def consumer_of(bootstrap: str, **settings: Any) -> Any:
    return kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        **{
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "check_crcs": True,
            "fetch_max_wait_ms": 10,
            "reconnect_backoff_max_ms": 200,
            **settings,
        },
    )


def got(record: Any) -> Got:
    return Got(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers),
    )


def read_to_end(consumer: Any, at: Any, start: int, end: int) -> list[Got]:
    """Read until the client's own position is the end: past the last message of a batch it must find the next batch."""
    consumer.seek(at, start)
    deadline = time.monotonic() + DEADLINE_S
    found: list[Got] = []
    while consumer.position(at) < end:
        assert time.monotonic() < deadline, f"read {len(found)} messages and not to the end"
        try:
            polled = consumer.poll(timeout_ms=100)
        except kafka.errors.KafkaError as error:
            raise Refused(error_name(error)) from error
        found += [got(record) for record in polled.get(at, ())]
    return found


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Sent], *, codec: str = "none", acks: str = "all"
    ) -> None:
        producer = producer_of(
            bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=False,
        )
        try:
            deliver(producer, topic, messages)
        finally:
            producer.close(timeout=DEADLINE_S)

    def read_from(self, bootstrap: str, topic: str, starts: Sequence[int], *, partition: int = 0) -> list[list[Got]]:
        consumer = consumer_of(bootstrap)
        at = kafka.TopicPartition(topic, partition)
        try:
            end = consumer.end_offsets([at])[at]
            consumer.assign([at])
            return [read_to_end(consumer, at, start, end) for start in starts]
        finally:
            consumer.close()

    def offsets_at(
        self, bootstrap: str, topic: str, timestamps: Sequence[int], *, partition: int = 0
    ) -> list[int | None]:
        consumer = consumer_of(bootstrap)
        at = kafka.TopicPartition(topic, partition)
        try:
            answers = [consumer.offsets_for_times({at: timestamp})[at] for timestamp in timestamps]
            return [None if answer is None else int(answer.offset) for answer in answers]
        finally:
            consumer.close()
