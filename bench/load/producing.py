"""The cases of the way in: librdkafka at four sizes of batch, bare requests, bytes, latency."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bench.load import echo, sockets
from bench.load.frames import base_offset_at, batch, batch_below, produce_frame
from bench.load.librdkafka import Producer
from bench.load.machine import ALL_CORES, BROKER_CORE, on_cores, prefer
from bench.load.measure import Case, Goal, Meter, Sample
from bench.load.target import Target

MESSAGE = 200  # bytes, as in the paper's own measurement (P28)
LARGE_MESSAGE = 1000
CONNECTIONS = 64
CLASSIC, FLEXIBLE = 7, 9  # versions of Produce before and since the flexible encoding


class LostMessages(RuntimeError):
    """The log does not hold what was acknowledged."""


def librdkafka(count: int, size: int, settings: dict[str, Any]) -> Callable[[Target], Sample]:
    """A producer with acks=1 whose own queue is no limit; it has several threads, which may run on every core."""

    def run(target: Target) -> Sample:
        messages = count // 4 if target.quick else count
        common = {
            "bootstrap.servers": target.bootstrap,
            "acks": 1,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 18,
        }
        value = os.urandom(size)
        with target.topic() as topic, on_cores(ALL_CORES), Producer({**common, **settings}, topic, value) as producer:
            producer.produce(2000)
            with target.meter() as meter:
                producer.produce(messages)
            if (end := target.end_offset(topic)) != messages + 2000:
                raise LostMessages(f"{messages + 2000} messages were acknowledged, the log ends at {end}")
        rate = messages / meter.wall_s
        values = {"rate": rate, "MB": rate * size / 1e6}
        return Sample(values, meter.cpu_s, meter.wall_s, messages, "message")

    return run


def pipelined(version: int) -> Callable[[Target], Sample]:
    """One-message requests on one connection, sent without waiting."""

    def run(target: Target) -> Sample:
        a_block = 500
        blocks = 200 if target.quick else 800
        with target.topic() as topic, sockets.connect(target.address) as sock:
            frame = produce_frame(version, topic, 0, batch(1, MESSAGE))
            size = len(sockets.ask(sock, frame))
            sockets.pipeline(sock, frame * a_block, 20, 20 * a_block * size)
            with target.meter() as meter:
                sockets.pipeline(sock, frame * a_block, blocks, blocks * a_block * size)
            end = sockets.base_offset(sockets.ask(sock, frame), base_offset_at(version, topic))
        requests = a_block * blocks
        if end != requests + 20 * a_block + 1:
            raise LostMessages(f"{requests} requests were answered, the log ends at {end}")
        return _per_request(requests, meter.cpu_s, meter.wall_s)

    return run


def many_connections(version: int) -> Callable[[Target], Sample]:
    """One-message requests on 64 connections, each of which waits for its answer."""

    def run(target: Target) -> Sample:
        requests = 60_000 if target.quick else 200_000
        with target.topic() as topic:
            frame = produce_frame(version, topic, 0, batch(1, MESSAGE))
            with sockets.closed_loops(target.address, frame, CONNECTIONS) as ask_on_all:
                ask_on_all(5000)
                with target.meter() as meter:
                    ask_on_all(requests)
            with sockets.connect(target.address) as sock:
                end = sockets.base_offset(sockets.ask(sock, frame), base_offset_at(version, topic))
        if end != requests + 5000:
            raise LostMessages(f"{requests} requests were answered, the log ends at {end}")
        return _per_request(requests, meter.cpu_s, meter.wall_s)

    return run


def floor(target: Target) -> Sample:
    """The same clients against a server that only receives and answers: what loop and kernel take of a request."""
    requests = 60_000 if target.quick else 200_000
    frame = produce_frame(CLASSIC, "bench", 0, batch(1, MESSAGE))
    with on_cores(BROKER_CORE):
        process, port = echo.start()
    try:
        prefer(process.pid, target.nice)
        with sockets.closed_loops(("127.0.0.1", port), frame, CONNECTIONS) as ask_on_all:
            ask_on_all(5000)
            with Meter(process.pid) as meter:
                ask_on_all(requests)
    finally:
        echo.stop(process)
    return _per_request(requests, meter.cpu_s, meter.wall_s)


def _per_request(requests: int, cpu_s: float, wall_s: float) -> Sample:
    values = {"cpu": cpu_s / requests * 1e6, "rate": requests / wall_s}
    return Sample(values, cpu_s, wall_s, requests, "request")


def bytes_in(target: Target) -> Sample:
    """Batches of 1 MB on one connection, sent without waiting."""
    records, _ = batch_below(1_000_000, LARGE_MESSAGE)
    blocks = 1000  # 3000 took 1.1 to 1.3 s a GB where 1000 took 0.7: runs of other sizes do not compare
    with target.topic() as topic, sockets.connect(target.address) as sock:
        frame = produce_frame(CLASSIC, topic, 0, records)
        size = len(sockets.ask(sock, frame))
        sockets.pipeline(sock, frame, 50, 50 * size)
        with target.meter() as meter:
            sockets.pipeline(sock, frame, blocks, blocks * size)
    gigabytes = blocks * len(records) / 1e9
    values = {"cpu": meter.cpu_s / gigabytes, "rate": gigabytes / meter.wall_s}
    return Sample(values, meter.cpu_s, meter.wall_s, gigabytes, "GB")


def latency(target: Target) -> Sample:
    """One request at a time on one connection, acks=1."""
    count = 10_000 if target.quick else 40_000
    with target.topic() as topic, sockets.connect(target.address) as sock:
        frame = produce_frame(CLASSIC, topic, 0, batch(1, MESSAGE))
        sockets.latencies(sock, frame, 1000)
        with target.meter() as meter:
            took = sockets.latencies(sock, frame, count)
    values = {"p50": took[count // 2], "p99": took[count * 99 // 100], "p999": took[count * 999 // 1000]}
    return Sample(values, meter.cpu_s, meter.wall_s, count, "request")


ONE_BATCH = {"batch.num.messages": 1, "linger.ms": 0}
CPU = "µs of broker CPU"

CASES = (
    Case(
        "default-batching",
        "librdkafka, acks=1, default batching",
        (Goal("rate", "msg/s", 900_000),),
        librdkafka(4_000_000, MESSAGE, {}),
    ),
    Case(
        "batches-of-50",
        "librdkafka, batches of 50 (P28: 400,000)",
        (Goal("rate", "msg/s", 750_000),),
        librdkafka(4_000_000, MESSAGE, {"batch.num.messages": 50}),
    ),
    Case(
        "batches-of-1",
        "librdkafka, batches of 1 (P28: 50,000)",
        (Goal("rate", "msg/s", 60_000),),
        librdkafka(400_000, MESSAGE, ONE_BATCH),
    ),
    Case(
        "large-batches",
        "librdkafka, 1 KB messages, 1 MB batches",
        (Goal("MB", "MB/s", 600),),
        librdkafka(1_500_000, LARGE_MESSAGE, {}),
    ),
    Case("pipelined", "a one-message request, pipelined", (Goal("cpu", CPU, 4, False),), pipelined(CLASSIC)),
    Case(
        "pipelined-flexible",
        "the same, Produce version 9",
        (Goal("cpu", CPU, 4, False),),
        pipelined(FLEXIBLE),
    ),
    Case(
        "64-connections",
        "a one-message request, 64 connections",
        (Goal("cpu", CPU, 6, False),),
        many_connections(CLASSIC),
    ),
    Case(
        "64-connections-flexible",
        "the same, Produce version 9",
        (Goal("cpu", CPU, 6, False),),
        many_connections(FLEXIBLE),
    ),
    Case(
        "64-connections-floor",
        "the same, a server that answers unread",
        (Goal("cpu", "µs of its CPU", more_is_better=False),),
        floor,
    ),
    Case("bytes-in", "broker CPU per GB produced", (Goal("cpu", "s", 0.6, False),), bytes_in),
    Case(
        "latency",
        "produce, one at a time, acks=1",
        (Goal("p50", "µs p50", 120, False), Goal("p99", "µs p99", 300, False)),
        latency,
    ),
)
