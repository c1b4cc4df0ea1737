"""One to a thousand partitions: the same messages in and out, by librdkafka, 200 of them to each partition in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench.load.measure import Sample, lines_of
from bench.load.producing import MESSAGE, LostMessages
from bench.load.results import Case, Line
from bench.load.setting import LIBRDKAFKA, RATE, Setting
from bench.load.spread import SpreadConsumer, SpreadProducer
from bench.load.target import Target

COUNTS = (1, 10, 100, 1000)
A_CALL = 200  # so that also a short run reaches every partition
QUEUES = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 18}
READS = {"group.id": "bench", "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 0}


def run(setting: Setting) -> Iterator[Line]:
    messages = setting.pick(4_000_000, 300_000)
    with setting.servers() as target:
        read: dict[int, list[Sample]] = {count: [] for count in COUNTS}

        def measure(partitions: int) -> Sample:
            with target.topic(partitions) as topic:
                written = write(target, topic, partitions, messages)
                read[partitions].append(drain(target, topic, partitions, messages))
            return written

        written = setting.in_turns(COUNTS, measure)
    for way, samples in (("in", written), ("out", read)):
        for partitions in COUNTS:
            case: Case = {"partitions": partitions, "way": way, "messages": messages}
            yield from lines_of("partitions", LIBRDKAFKA, case, RATE, samples[partitions])


def write(target: Target, topic: str, partitions: int, messages: int) -> Sample:
    settings = {"bootstrap.servers": target.bootstrap, "acks": 1, **QUEUES}
    with SpreadProducer(settings, topic, [os.urandom(MESSAGE)], range(partitions), A_CALL) as producer:
        producer.produce(A_CALL)
        with target.meter() as meter:
            producer.produce(messages - A_CALL)
    if (end := target.end_offset(topic, partitions)) != messages:
        raise LostMessages(f"{messages} messages were acknowledged, the logs hold {end}")
    return meter.sample({"rate": (messages - A_CALL) / meter.wall_s}, messages)


def drain(target: Target, topic: str, partitions: int, messages: int) -> Sample:
    settings = {"bootstrap.servers": target.bootstrap, **READS}
    with SpreadConsumer(settings, topic, range(partitions)) as consumer, target.meter() as meter:
        consumer.consume(messages)
    return meter.sample({"rate": messages / meter.wall_s}, messages)
