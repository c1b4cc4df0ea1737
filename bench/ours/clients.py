"""One to 64 producers, then as many consumers: the same messages in 64 partitions, each client with its share of them.

Each is a librdkafka of its own with a connection of its own, and a thread that feeds or empties it, in one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from bench.load.librdkafka import Client
from bench.load.measure import Meter, Sample, lines_of
from bench.load.producing import MESSAGE, LostMessages
from bench.load.results import Case, Line
from bench.load.setting import LIBRDKAFKA, RATE, Setting
from bench.load.spread import SpreadConsumer, SpreadProducer
from bench.load.target import Target

COUNTS = (1, 4, 16, 64)
PARTITIONS = 64
A_CALL = 200
C = TypeVar("C", bound=Client)


def run(setting: Setting) -> Iterator[Line]:
    messages = setting.pick(4_096_000, 409_600)  # a whole number of calls to every partition
    with setting.servers() as target:
        read: dict[int, list[Sample]] = {count: [] for count in COUNTS}

        def measure(clients: int) -> Sample:
            with target.topic(PARTITIONS) as topic:
                written = write(target, topic, clients, messages)
                read[clients].append(drain(target, topic, clients, messages))
            return written

        written = setting.in_turns(COUNTS, measure)
    for way, samples in (("in", written), ("out", read)):
        for clients in COUNTS:
            case: Case = {"clients": clients, "way": way, "messages": messages}
            yield from lines_of("clients", LIBRDKAFKA, case, RATE, samples[clients])


def shares(clients: int) -> list[range]:
    """The partitions of each client."""
    return [range(number, PARTITIONS, clients) for number in range(clients)]


def write(target: Target, topic: str, clients: int, messages: int) -> Sample:
    settings = {
        "bootstrap.servers": target.bootstrap,
        "acks": 1,
        "queue.buffering.max.messages": 1_000_000 // clients,
        "queue.buffering.max.kbytes": (1 << 18) // clients,
    }
    value = os.urandom(MESSAGE)
    with ExitStack() as stack:
        producers = [
            stack.enter_context(SpreadProducer(settings, topic, [value], share, A_CALL)) for share in shares(clients)
        ]
        warm = A_CALL * PARTITIONS  # each has its connection then, and every partition a message
        at_once(target, producers, lambda producer: producer.produce(warm // clients))
        meter = at_once(target, producers, lambda producer: producer.produce((messages - warm) // clients))
    if (end := target.end_offset(topic, PARTITIONS)) != messages:
        raise LostMessages(f"{messages} messages were acknowledged, the logs hold {end}")
    return meter.sample({"rate": (messages - warm) / meter.wall_s}, messages - warm)


def drain(target: Target, topic: str, clients: int, messages: int) -> Sample:
    settings = {
        "bootstrap.servers": target.bootstrap,
        "group.id": "bench",
        "queued.min.messages": 1_000_000 // clients,
        "fetch.queue.backoff.ms": 0,
    }
    with ExitStack() as stack:
        consumers = [stack.enter_context(SpreadConsumer(settings, topic, share)) for share in shares(clients)]
        meter = at_once(target, consumers, lambda consumer: consumer.consume(messages // clients))
    return meter.sample({"rate": messages / meter.wall_s}, messages)


def at_once(target: Target, clients: Sequence[C], work: Callable[[C], object]) -> Meter:
    """Let all work at once, until the last has done its share."""
    with ThreadPoolExecutor(len(clients)) as pool, target.meter() as meter:
        list(pool.map(work, clients))
    return meter
