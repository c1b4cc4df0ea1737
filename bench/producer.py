"""Measure our producer against one broker on another core: messages of 200 bytes, as the paper's P28 has them.

python -P bench/producer.py [--quick] [--json] [--dir FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load.machine import CLIENT_CORE, describe, on_cores
from bench.load.target import Target, broker
from kafka_classic import Producer

VALUE = b"x" * 200


class Case(NamedTuple):
    """One way to send `messages` messages; `run` returns when all are decided."""

    title: str
    settings: dict[str, Any]
    messages: int
    run: Callable[[Producer, str, int], None]


def sets_of(size: int) -> Callable[[Producer, str, int], None]:
    def run(producer: Producer, topic: str, messages: int) -> None:
        one = [VALUE] * size
        for _ in range(messages // size):
            producer.send_batch(topic, one)
        producer.flush()

    return run


def one_by_one(producer: Producer, topic: str, messages: int) -> None:
    for _ in range(messages):
        producer.send(topic, VALUE)
    producer.flush()


def round_trips(producer: Producer, topic: str, messages: int) -> None:
    for _ in range(messages):
        producer.send(topic, VALUE).result()


CASES = (
    Case("sets of 50, acks=all, idempotent", {}, 1_000_000, sets_of(50)),
    Case("sets of 50, acks=0", {"acks": 0}, 1_000_000, sets_of(50)),
    Case("sets of 1000, acks=all, idempotent", {}, 2_000_000, sets_of(1000)),
    Case("sets of 50, lz4", {"compression_type": "lz4"}, 1_000_000, sets_of(50)),
    Case("send() gathered by batch.size, acks=all", {}, 500_000, one_by_one),
    Case("sync, one message a request, acks=all", {"sync": True}, 100_000, one_by_one),
    Case("sync, one message a request, acks=0", {"sync": True, "acks": 0}, 100_000, one_by_one),
    Case("send().result(), one after the other", {}, 20_000, round_trips),
)


def measure(target: Target, case: Case) -> dict[str, Any]:
    """Run one case on a fresh topic."""
    messages = case.messages // 5 if target.quick else case.messages
    with target.topic() as topic, Producer(target.bootstrap, **case.settings) as producer:
        producer.send(topic, VALUE).result()
        began, used = time.perf_counter(), time.process_time()
        case.run(producer, topic, messages)
        took, used = time.perf_counter() - began, time.process_time() - used
    return {
        "case": case.title,
        "messages_per_s": round(messages / took),
        "us_of_cpu_per_message": round(used / messages * 1e6, 2),
        "client_cpu": round(used / took, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--dir", type=Path, help="put the broker's data under this folder")
    options = parser.parse_args()
    machine = describe()
    with on_cores(CLIENT_CORE), broker(options.quick, options.dir, 0) as target:
        target.restart()  # now on a core of its own
        figures = [measure(target, case) for case in CASES]
    if options.json:
        print("\n".join(json.dumps({**figure, "machine": machine}) for figure in figures))
        return 0
    table = Table("case", "messages/s", "µs of CPU a message", "of a core used", title=str(machine))
    for figure in figures:
        table.add_row(*map(str, figure.values()))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
