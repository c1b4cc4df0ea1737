"""The cases of the way out: sendfile to a client that only drains, and librdkafka reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.load import sockets
from bench.load.frames import batch_below, produce_frame
from bench.load.librdkafka import Consumer, consume_in_python
from bench.load.machine import ALL_CORES, on_cores
from bench.load.measure import Case, Goal, Sample
from bench.load.producing import CLASSIC, LARGE_MESSAGE
from bench.load.target import Target

CONSUMER = 1 << 20  # bytes a fetch, what consumers ask for by default
MOST = 50 << 20


class Filled(NamedTuple):
    topic: str
    messages: int
    batch: tuple[int, int]  # bytes, messages


@contextmanager
def filled(target: Target, batches: int) -> Iterator[Filled]:
    """A topic of so many batches of 1 KB messages, each just under 1 MB."""
    records, count = batch_below(1_000_000, LARGE_MESSAGE)
    with target.topic() as topic:
        with sockets.connect(target.address) as sock:
            frame = produce_frame(CLASSIC, topic, 0, records)
            size = len(sockets.ask(sock, frame))
            sockets.pipeline(sock, frame, batches - 1, (batches - 1) * size)
        yield Filled(topic, batches * count, (len(records), count))


def drained(max_bytes: int, *, discard: bool) -> Callable[[Target], Sample]:
    """Read a log of 1 GB several times over one connection."""

    def run(target: Target) -> Sample:
        rounds = 2 if target.quick else 6
        with filled(target, 1000) as (topic, end, per_batch), sockets.connect(target.address) as sock:
            sockets.drain_log(sock, topic, 0, 0, end // 5, per_batch, max_bytes, discard=discard)
            total = 0
            with target.meter() as meter:
                for _ in range(rounds):
                    total += sockets.drain_log(sock, topic, 0, 0, end, per_batch, max_bytes, discard=discard)
        gigabytes = total / 1e9
        values = {"cpu": meter.cpu_s / gigabytes, "rate": gigabytes / meter.wall_s}
        return Sample(values, meter.cpu_s, meter.wall_s, gigabytes, "GB")

    return run


def reader_settings(target: Target) -> dict[str, Any]:
    """A consumer whose own queue is no limit."""
    return {
        "bootstrap.servers": target.bootstrap,
        "group.id": "bench",
        "queued.min.messages": 10_000_000,
        "queued.max.messages.kbytes": 1 << 20,
        "fetch.queue.backoff.ms": 0,
    }


def librdkafka_reads(target: Target) -> Sample:
    """librdkafka alone, from the first message on."""
    batches = 2000 if target.quick else 4000
    with (
        filled(target, batches) as (topic, messages, _),
        on_cores(ALL_CORES),
        Consumer(reader_settings(target), topic) as consumer,
    ):
        first = consumer.consume(1)
        with target.meter() as meter:
            consumer.consume(messages - first)
    return Sample({"rate": (messages - first) / meter.wall_s}, meter.cpu_s, meter.wall_s, messages, "message")


def python_reads(target: Target) -> Sample:
    """The same through confluent-kafka, which is a measure of it and not of the broker."""
    with filled(target, 1000) as (topic, messages, _), on_cores(ALL_CORES):
        run = consume_in_python({**reader_settings(target), "enable.auto.commit": False}, topic, messages)
        with target.meter() as meter:
            run()
    return Sample({"rate": messages / meter.wall_s}, meter.cpu_s, meter.wall_s, messages, "message")


CASES = (
    Case(
        "bytes-out",
        "broker CPU per GB fetched, 1 MB a fetch",
        (Goal("cpu", "s", 0.4, False),),
        drained(CONSUMER, discard=False),
    ),
    Case(
        "sendfile",
        "fetch by sendfile, the client only drains",
        (Goal("rate", "GB/s", 2),),
        drained(MOST, discard=False),
    ),
    Case(
        "sendfile-discard",
        "the same, the client's kernel drops the bytes",
        (Goal("rate", "GB/s", 2),),
        drained(MOST, discard=True),
    ),
    Case(
        "reads", "librdkafka reading 1 KB messages (P29: 22,000)", (Goal("rate", "msg/s", 850_000),), librdkafka_reads
    ),
    Case(
        "reads-in-python",
        "the same in Python (confluent-kafka)",
        (Goal("rate", "msg/s"),),
        python_reads,
        repeats=1,
    ),
)
