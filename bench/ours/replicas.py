"""Replication factor 1, 2, 3 with acks 1 and all: three brokers, three partitions, librdkafka, all on the same cores.

The rate is taken until the last message is acknowledged, the brokers' processor time until all replicas have it too:
with acks=1 the followers' work is only postponed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from bench.load.measure import Goal, Sample, lines_of
from bench.load.producing import MESSAGE
from bench.load.results import Case, Line
from bench.load.setting import LIBRDKAFKA, Setting
from bench.load.spread import SpreadProducer
from bench.load.target import Target

PARTITIONS = 3
CASES = [(replicas, acks) for replicas in (1, 2, 3) for acks in ("1", "all")]
LONG_ENOUGH_S = 120.0


def run(setting: Setting) -> Iterator[Line]:
    messages = setting.pick(2_000_000, 200_000)
    with setting.servers(3) as target:
        found = setting.in_turns(CASES, lambda case: write(target, *case, messages))
    for (replicas, acks), samples in found.items():
        goal = Goal("rate", "msg/s", 150_000 if (replicas, acks) == (3, "all") else None)
        case: Case = {"replicas": replicas, "acks": acks, "messages": messages}
        yield from lines_of("replicas", LIBRDKAFKA, case, (goal,), samples)


def write(target: Target, replicas: int, acks: str, messages: int) -> Sample:
    settings = {
        "bootstrap.servers": target.bootstrap,
        "acks": acks,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 18,
    }
    a_call = 1000
    with (
        target.topic(PARTITIONS, replicas=replicas) as topic,
        SpreadProducer(settings, topic, [os.urandom(MESSAGE)], range(PARTITIONS), a_call) as producer,
    ):
        producer.produce(PARTITIONS * a_call)
        whole = messages + PARTITIONS * a_call
        with target.meter() as meter:
            producer.produce(messages)
            taken = time.perf_counter()
            client_cpu_s = time.process_time()
            wait_for(target, topic, whole)
            waited, client_waited = time.perf_counter() - taken, time.process_time() - client_cpu_s
    wall_s, client_s = meter.wall_s - waited, meter.client_cpu_s - client_waited
    note = f"all replicas had the last message {waited:.2f} s after it was acknowledged"
    return Sample({"rate": messages / wall_s}, meter.cpu_s, wall_s, messages, "message", note, client_s)


def wait_for(target: Target, topic: str, messages: int) -> None:
    """Wait until every replica has all, which is what the high watermark says."""
    until = time.monotonic() + LONG_ENOUGH_S
    while (end := target.end_offset(topic, PARTITIONS)) != messages:
        if time.monotonic() > until:
            raise TimeoutError(f"{messages} messages were acknowledged, after {LONG_ENOUGH_S:g} s {end} can be read")
        time.sleep(0.02)
