"""Measure our producer beside kafka-python's and confluent-kafka's, all of them Python programs of one process.

    python -P bench/producer.py [--quick] [--json] [--rounds 5] [--dir FOLDER]

Messages of 200 bytes to one partition of one broker, as in the paper (P28: 50,000 a second in batches of 1, 400,000 in
batches of 50, nobody acknowledging). `batch 1`: each message is a batch and a request of its own. `batch 50`: ours by
send_batch(), the others by a limit on their batches. `default`: every setting as it comes. acks=all is idempotent.

The broker is kept on one core, the client on the other. The clients take turns, round by round; a figure is the median
of its rounds and a ratio the median of the ratios within a round, so that a busy minute spoils no comparison.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

import confluent_kafka
import kafka
from rich.console import Console
from rich.table import Table

from bench.load import results
from bench.load.machine import CLIENT_CORE, describe, on_cores
from bench.load.target import Target, broker
from kafka_classic import Producer

VALUE = b"x" * 200
# A record of VALUE takes 208 bytes in a batch, and a batch 61 besides: fifty of them fit into this, and no more.
FIFTY_BYTES = 61 + 50 * 209
Send = Callable[[int], None]


class Measured(NamedTuple):
    """One round of one client."""

    rate: float
    cpu_us: float


@contextmanager
def ours(target: Target, topic: str, batch: str, acks: str) -> Iterator[Send]:
    """Our producer; without acknowledgements flush() waits until the socket has all of it."""
    with Producer(target.bootstrap, acks=acks, sync=batch == "1") as producer:

        def send(count: int) -> None:
            if batch == "50":
                fifty = [VALUE] * 50
                for _ in range(count // 50):
                    producer.send_batch(topic, fifty)
            else:
                for _ in range(count):
                    producer.send(topic, VALUE)
            producer.flush()

        yield send


@contextmanager
def kafka_python(target: Target, topic: str, batch: str, acks: str) -> Iterator[Send]:
    """The other producer that is written in Python."""
    sizes = {"1": {"batch_size": 0}, "50": {"batch_size": FIFTY_BYTES}, "default": {}}[batch]
    producer = kafka.KafkaProducer(
        bootstrap_servers=target.bootstrap,
        acks=-1 if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        **sizes,
    )

    def send(count: int) -> None:
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush(300)

    try:
        yield send
    finally:
        producer.close(10)


@contextmanager
def confluent(target: Target, topic: str, batch: str, acks: str) -> Iterator[Send]:
    """librdkafka under its Python layer, for orientation: its work is C, on threads of its own."""
    sizes = {"1": {"batch.num.messages": 1}, "50": {"batch.num.messages": 50}, "default": {}}[batch]
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "log_level": 3,
            **sizes,
        }
    )

    def send(count: int) -> None:
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, VALUE)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush(300)

    yield send


CLIENTS = {"ours": ours, "kafka-python": kafka_python, "confluent-kafka": confluent}
# How many messages of a case each client is given: enough for half a second, or a quarter of that with --quick.
COUNTS = {
    "1": {"ours": 20_000, "kafka-python": 4_000, "confluent-kafka": 20_000},
    "50": {"ours": 200_000, "kafka-python": 20_000, "confluent-kafka": 100_000},
    "default": {"ours": 100_000, "kafka-python": 20_000, "confluent-kafka": 100_000},
}


def measure(target: Target, topic: str, batch: str, acks: str, client: str, quick: bool) -> Measured:
    """Warm a producer up and let it send; the time counts until flush() returns."""
    count = COUNTS[batch][client] // (4 if quick else 1)
    with CLIENTS[client](target, topic, batch, acks) as send:
        send(max(50, count // 20))
        wall, cpu = time.perf_counter(), time.process_time()
        send(count)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measured(count / wall, cpu / count * 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute in all")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--rounds", type=int, help="so many rounds of each case")
    parser.add_argument("--only", action="append", choices=CLIENTS, help="this client; may be given several times")
    parser.add_argument("--dir", type=Path, help="put the broker's data under this folder")
    results.add_option(parser)
    options = parser.parse_args()
    clients = [name for name in CLIENTS if not options.only or name in options.only]
    rounds = options.rounds or (3 if options.quick else 5)
    table = Table("batch", "acks", *(f"{name} msg/s" for name in clients), *(f"CPU µs {name}" for name in clients))
    for name in clients[1:]:
        table.add_column(f"ours : {name}")
    rows = []
    lines: list[results.Line] = []
    with on_cores(CLIENT_CORE), broker(options.quick, options.dir, 0) as target:
        target.restart()  # now on a core of its own
        for batch in COUNTS:
            for acks in ("0", "1", "all"):
                with target.topic() as topic:
                    found = [
                        {name: measure(target, topic, batch, acks, name, options.quick) for name in clients}
                        for _ in range(rounds)
                    ]
                for name in clients:
                    runs, cpu_us = [one[name].rate for one in found], [one[name].cpu_us for one in found]
                    case: results.Case = {"batch": batch, "acks": acks}
                    lines.append(results.Line("producer", name, case, "msg/s", runs, client_cpu_us=cpu_us))
                rates = {name: statistics.median(one[name].rate for one in found) for name in clients}
                cpus = {name: statistics.median(one[name].cpu_us for one in found) for name in clients}
                ratios = {
                    name: statistics.median(one[clients[0]].rate / one[name].rate for one in found)
                    for name in clients[1:]
                }
                rows.append({"batch": batch, "acks": acks, "rate": rates, "cpu_us": cpus, "ratio": ratios})
                table.add_row(
                    batch,
                    acks,
                    *(f"{rates[name]:,.0f}" for name in clients),
                    *(f"{cpus[name]:.1f}" for name in clients),
                    *(f"{ratios[name]:.1f}" for name in clients[1:]),
                )
    results.keep_run(lines, options)
    if options.json:
        for row in rows:
            print(json.dumps({**row, "machine": describe()}))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
