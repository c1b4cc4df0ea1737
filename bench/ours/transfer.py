"""sendfile against read+write (P10): brokers that differ in that call alone, a gigabyte of log read from each.

The client drains one connection, 1 MB a fetch, by one core at most; `dropped` has its kernel throw the bytes away, so
that the broker is the limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.load import copying, sockets
from bench.load.fetching import CONSUMER, Filled, filled
from bench.load.measure import Goal, Sample, lines_of
from bench.load.results import Line
from bench.load.setting import Setting
from bench.load.target import Target

# How many bytes one read and one write move, where it is not one call.
SUBJECTS = {"sendfile": 0, "read+write of 16 KB": 16 << 10, "read+write of 128 KB": 128 << 10}
GOALS = (Goal("rate", "GB/s"), Goal("broker", "s of broker CPU for a GB", more_is_better=False))


def run(setting: Setting) -> Iterator[Line]:
    batches, rounds = setting.pick((1000, 6), (300, 2))
    cases = [(subject, client) for client in ("copied", "dropped") for subject in SUBJECTS]
    with ExitStack() as stack:
        logs: dict[str, tuple[Target, Filled]] = {}
        for subject, piece in SUBJECTS.items():
            target = stack.enter_context(setting.servers())
            if piece:
                by_copying(target, piece)
            logs[subject] = target, stack.enter_context(filled(target, batches))
        found = setting.in_turns(cases, lambda case: drain(*logs[case[0]], case[1] == "dropped", rounds))
    for (subject, client), samples in found.items():
        yield from lines_of("transfer", subject, {"client": client}, GOALS, samples)


def by_copying(target: Target, piece: int) -> None:
    """Start the broker anew as one that copies."""
    broker = target.cluster.brokers[0]
    arguments = broker.command()[broker.command().index("broker") :]
    command = [sys.executable, "-P", str(Path(copying.__file__).resolve()), str(piece), *arguments]
    broker.command = lambda: command  # type: ignore[method-assign]
    broker.restart()


def drain(target: Target, log: Filled, discard: bool, rounds: int) -> Sample:
    with sockets.connect(target.address) as sock:
        sockets.drain_log(sock, log.topic, 0, 0, log.messages // 5, log.batch, CONSUMER, discard=discard)
        with target.meter() as meter:
            total = sum(
                sockets.drain_log(sock, log.topic, 0, 0, log.messages, log.batch, CONSUMER, discard=discard)
                for _ in range(rounds)
            )
    size = total / 1e9
    values = {"rate": size / meter.wall_s, "broker": meter.cpu_s / size}
    return meter.sample(values, size, "GB")
