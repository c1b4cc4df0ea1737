"""aiokafka: the protocol in Python for asyncio, its records in C."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import aiokafka.errors

from tests.clients.parties import DEADLINE_S, Got, Refused, Sent
from tests.clients.with_kafka_python import error_name, got


@asynccontextmanager
async def producing(bootstrap: str, **settings: Any) -> AsyncIterator[Any]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        **{"linger_ms": 5, "max_request_size": 32 << 20, "max_batch_size": 16384, **settings},
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(bootstrap: str, **settings: Any) -> AsyncIterator[Any]:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        **{
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "check_crcs": True,
            "fetch_max_wait_ms": 10,
            **settings,
        },
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def deliver(producer: Any, topic: str, messages: Sequence[Sent]) -> list[int]:
    """Produce all, wait for all; their offsets, in the order in which they were sent."""
    try:
        futures = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers) or None,
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        done = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
        return [-1 if metadata is None else metadata.offset for metadata in done]
    except aiokafka.errors.KafkaError as error:
        raise Refused(error_name(error)) from error


async def read_to_end(consumer: Any, at: Any, start: int, end: int) -> list[Got]:
    """Read until the client's own position is the end."""
    consumer.seek(at, start)
    deadline = time.monotonic() + DEADLINE_S
    found: list[Got] = []
    while await consumer.position(at) < end:
        assert time.monotonic() < deadline, f"read {len(found)} messages and not to the end"
        try:
            polled = await consumer.getmany(at, timeout_ms=100)
        except aiokafka.errors.KafkaError as error:
            raise Refused(error_name(error)) from error
        found += [got(record) for record in polled.get(at, ())]
    return found


class Aiokafka:
    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Sent], *, codec: str = "none", acks: str = "all"
    ) -> None:
        async def run() -> None:
            async with producing(
                bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == "all" else int(acks),
            ) as producer:
                await deliver(producer, topic, messages)

        asyncio.run(run())

    def read_from(self, bootstrap: str, topic: str, starts: Sequence[int], *, partition: int = 0) -> list[list[Got]]:
        async def run() -> list[list[Got]]:
            at = aiokafka.TopicPartition(topic, partition)
            async with consuming(bootstrap) as consumer:
                end = (await consumer.end_offsets([at]))[at]
                consumer.assign([at])
                return [await read_to_end(consumer, at, start, end) for start in starts]

        return asyncio.run(run())

    def offsets_at(
        self, bootstrap: str, topic: str, timestamps: Sequence[int], *, partition: int = 0
    ) -> list[int | None]:
        async def run() -> list[int | None]:
            at = aiokafka.TopicPartition(topic, partition)
            async with consuming(bootstrap) as consumer:
                answers = [(await consumer.offsets_for_times({at: timestamp}))[at] for timestamp in timestamps]
                return [None if answer is None else int(answer.offset) for answer in answers]

        return asyncio.run(run())
