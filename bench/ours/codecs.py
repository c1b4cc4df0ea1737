"""The codecs: what they cost producer, broker and consumer, and what they leave on disk; librdkafka and our clients.

Twenty thousand different log lines of about 190 bytes, again and again: more than a batch holds, so that no codec finds
the same line twice in one. Each client batches by its own defaults, but for linger.ms, which is 5 with both.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from bench.load import own
from bench.load.measure import Goal, Meter, Sample, lines_of
from bench.load.producing import LostMessages
from bench.load.results import Case, Line
from bench.load.setting import LIBRDKAFKA, OWN, RATE, Setting
from bench.load.spread import SpreadConsumer, SpreadProducer
from bench.load.target import Target
from kafka_classic import Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SUBJECTS = {"librdkafka": LIBRDKAFKA, "own": OWN}
DISK = (Goal("disk", "bytes a message", more_is_better=False),)
LINES = 20_000
A_SET = 1000


def run(setting: Setting) -> Iterator[Line]:
    messages = setting.pick(1_000_000, 100_000)
    cases = [(client, codec) for client in SUBJECTS for codec in CODECS]
    values = log_lines(LINES)
    with setting.servers() as target:
        read: dict[tuple[str, str], list[Sample]] = {case: [] for case in cases}

        def measure(case: tuple[str, str]) -> Sample:
            client, codec = case
            with target.topic() as topic:
                written = (write if client == "librdkafka" else own_write)(target, topic, codec, messages, values)
                read[case].append((drain if client == "librdkafka" else own_drain)(target, topic, messages))
            return written

        written = setting.in_turns(cases, measure)
    for client, codec in cases:
        subject = SUBJECTS[client]
        case: Case = {"codec": codec, "messages": messages}
        yield from lines_of("codecs", subject, {**case, "way": "in"}, RATE, written[client, codec])
        yield from lines_of("codecs", subject, {**case, "way": "out"}, RATE, read[client, codec])
        yield from lines_of("codecs", subject, {**case, "way": "disk"}, DISK, written[client, codec])


def log_lines(count: int) -> list[bytes]:
    """Lines as services log them: some words that come again and again, some numbers that do not."""
    rng = random.Random(1)
    pages = [f"/{word}/{part}" for word in ("jobs", "people", "feed", "search") for part in ("view", "list", "edit")]
    return [
        b'{"time":"2011-06-12T%02d:%02d:%02d.%03dZ","server":"app-%02d.example","level":"INFO","page":"%s",'
        b'"user":%d,"session":"%016x","took_ms":%d,"bytes":%d,"status":200}'
        % (
            *(rng.randrange(24), rng.randrange(60), rng.randrange(60), rng.randrange(1000), rng.randrange(40)),
            *(rng.choice(pages).encode(), rng.randrange(10**8), rng.getrandbits(64), rng.randrange(900)),
            rng.randrange(10**5),
        )
        for _ in range(count)
    ]


def write(target: Target, topic: str, codec: str, messages: int, values: list[bytes]) -> Sample:
    settings = {
        "bootstrap.servers": target.bootstrap,
        "acks": 1,
        "compression.type": codec,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 18,
    }
    with SpreadProducer(settings, topic, values, a_call=LINES) as producer:
        producer.produce(LINES)
        with target.meter() as meter:
            producer.produce(messages - LINES)
    return written(target, topic, messages, meter)


def own_write(target: Target, topic: str, codec: str, messages: int, values: list[bytes]) -> Sample:
    with Producer(target.bootstrap, acks="1", compression_type=codec, linger_ms=5) as producer:
        sets = [values[first : first + A_SET] for first in range(0, LINES, A_SET)]

        def send(count: int) -> None:
            for _, one in zip(range(count // A_SET), itertools.cycle(sets), strict=False):
                producer.send_batch(topic, one)
            producer.flush()

        send(LINES)
        with target.meter() as meter:
            send(messages - LINES)
    return written(target, topic, messages, meter)


def written(target: Target, topic: str, messages: int, meter: Meter) -> Sample:
    if (end := target.end_offset(topic)) != messages:
        raise LostMessages(f"{messages} messages were acknowledged, the log ends at {end}")
    values = {"rate": (messages - LINES) / meter.wall_s, "disk": target.disk_bytes(topic) / messages}
    return meter.sample(values, messages - LINES)


def drain(target: Target, topic: str, messages: int) -> Sample:
    settings = {"bootstrap.servers": target.bootstrap, "group.id": "bench", "queued.min.messages": 1_000_000}
    with SpreadConsumer({**settings, "fetch.queue.backoff.ms": 0}, topic) as consumer, target.meter() as meter:
        consumer.consume(messages)
    return meter.sample({"rate": messages / meter.wall_s}, messages)


def own_drain(target: Target, topic: str, messages: int) -> Sample:
    with own.stream_of(target.bootstrap, topic) as stream, target.meter() as meter:
        own.take(stream, messages)
    return meter.sample({"rate": messages / meter.wall_s}, messages)
