"""End-to-end latency: one record at a time at a fixed rate, from the moment it was due until the consumer has it.

Producer and consumer are processes of their own with one clock, CLOCK_MONOTONIC. A record bears when it was *due*: a
producer that is late because the broker was busy is counted late, and so are the records that wait behind it.
Nothing is gathered: linger.ms=0, and acks=1.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import confluent_kafka

from bench.load import own
from bench.load.measure import Goal, Sample, lines_of
from bench.load.producing import MESSAGE
from bench.load.results import Line
from bench.load.setting import LIBRDKAFKA, OWN, Setting
from bench.load.target import Target
from kafka_classic import Producer

RATES = (100, 1_000, 10_000)
SUBJECTS = {"librdkafka": LIBRDKAFKA, "own": OWN}
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
GOALS = tuple(Goal(name, "ms", more_is_better=False) for name in PERCENTILES)
DUE = struct.Struct(">Q")
LONG_ENOUGH_S = 120.0


def run(setting: Setting) -> Iterator[Line]:
    seconds, warm_s = setting.pick((20.0, 1.0), (0.5, 0.5))
    cases = [(client, rate) for client in SUBJECTS for rate in RATES]
    # One pair of processes for all runs; "spawn", since a fork would share what librdkafka has in memory.
    with setting.servers() as target, ProcessPoolExecutor(2, get_context("spawn")) as processes:
        found = setting.in_turns(cases, lambda case: measure(target, processes, *case, seconds, warm_s))
    for (client, rate), samples in found.items():
        yield from lines_of("latency", SUBJECTS[client], {"per_second": rate}, GOALS, samples)


def measure(
    target: Target, processes: ProcessPoolExecutor, client: str, rate: int, seconds: float, warm_s: float
) -> Sample:
    """The records of the first moments are left out: connections are made in them."""
    warm, count = int(rate * warm_s), int(rate * seconds)
    with target.topic() as topic, target.meter() as meter:
        reading = processes.submit(read, client, target.bootstrap, topic, warm, count)
        writing = processes.submit(write, client, target.bootstrap, topic, rate, warm + count)
        client_cpu_s = writing.result(LONG_ENOUGH_S)
        took, reader_cpu_s = reading.result(LONG_ENOUGH_S)
    values = {name: took[int(len(took) * share)] / 1e6 for name, share in PERCENTILES.items()}
    note = f"of {count:,} records"
    return Sample(values, meter.cpu_s, meter.wall_s, warm + count, "message", note, client_cpu_s + reader_cpu_s)


# --- in the producer's process


def write(client: str, bootstrap: str, topic: str, rate: int, count: int) -> float:
    """Send each record when it is due; returns the processor time."""
    used = time.process_time()
    wake_in_time()
    rest = bytes(MESSAGE - DUE.size)
    with SENDERS[client](bootstrap, topic) as send:
        every, due = 1_000_000_000 // rate, time.monotonic_ns()
        for _ in range(count):
            due += every
            early = due - time.monotonic_ns()
            if early > 0:
                time.sleep(early / 1e9)
            send(DUE.pack(due) + rest)
    return time.process_time() - used


def wake_in_time() -> None:
    """Linux may wake a sleeper 50 µs late, to save power, unless it is told not to."""
    try:
        Path("/proc/self/timerslack_ns").write_text("1")
    except OSError:
        pass


@contextmanager
def librdkafka_sender(bootstrap: str, topic: str) -> Iterator[Callable[[bytes], None]]:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "log_level": 3})

    def send(value: bytes) -> None:
        producer.produce(topic, value)
        producer.poll(0)  # else its queue keeps what was delivered, until it is full

    yield send
    producer.flush(LONG_ENOUGH_S)


@contextmanager
def own_sender(bootstrap: str, topic: str) -> Iterator[Callable[[bytes], None]]:
    with Producer(bootstrap, acks="1") as producer:

        def send(value: bytes) -> None:
            producer.send(topic, value)

        yield send


SENDERS = {"librdkafka": librdkafka_sender, "own": own_sender}


# --- in the consumer's process


def read(client: str, bootstrap: str, topic: str, warm: int, count: int) -> tuple[list[int], float]:
    """How long each record but the first ones took, in ns, sorted; and the processor time."""
    used = time.process_time()
    took: list[int] = []
    now = time.monotonic_ns

    def look(value: bytes) -> None:
        took.append(now() - DUE.unpack_from(value)[0])

    if client == "own":
        with own.stream_of(bootstrap, topic) as stream:
            own.take(stream, warm + count, look)
    else:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 3}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        while len(took) < warm + count:
            message = consumer.poll(LONG_ENOUGH_S)
            if message is None or (value := message.value()) is None:
                raise TimeoutError(f"librdkafka brought only {len(took)} of {warm + count} records")
            look(value)
        consumer.close()
    return sorted(took[warm:]), time.process_time() - used
