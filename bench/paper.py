"""Run the experiments of the paper's section 5 again, in one run with its own rivals (P28 to P31).

    python -P bench/paper.py [--quick] [--only EXPERIMENT ...] [--subject NAME ...] [--results FILE] [--json]
    python -P bench/paper.py --quick --only produce --subject classic-librdkafka --subject rabbitmq

Every system is started here, on loopback and in a folder of its own, and ended at the end: RabbitMQ, ActiveMQ, a
Kafka that KAFKA_HOME names, and ourselves by two kinds of client. Who is not installed is left out by name. They take
turns, round by round. The full form (10 million messages of ours a run, one of the others) takes a quarter of an hour
and 25 GB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from bench.load.machine import describe
from bench.load.results import RESULTS, Line, keep
from bench.peers import alone, goals, table
from bench.peers.activemq import ActiveMQ
from bench.peers.apache_kafka import ApacheKafka
from bench.peers.classic import Classic
from bench.peers.comparison import Comparison
from bench.peers.peer import Peer, PeerFailed
from bench.peers.rabbitmq import RabbitMQ
from bench.peers.sizes import FULL, QUICK, Sizes
from kafka_classic.testing.waiting import NeverCame

COMPARED = ("overhead", "produce", "consume")
ALONE = {"stored": alone.stored, "lagging": alone.lagging}


def everybody() -> list[Peer]:
    return [
        Classic("librdkafka"),
        Classic("own"),
        ApacheKafka(),
        RabbitMQ("persistent"),
        RabbitMQ("transient"),
        ActiveMQ(),
    ]


@contextmanager
def telling(console: Console) -> Iterator[Callable[[str], object]]:
    """Say what runs now: in one line of a terminal, else line by line with the seconds since the start."""
    if console.is_terminal:
        with console.status("…") as status:
            yield status.update
    else:
        begin = time.monotonic()
        yield lambda what: console.print(f"{time.monotonic() - begin:6.1f} s  {what}", highlight=False, soft_wrap=True)


@contextmanager
def running(peers: Sequence[Peer], folder: Path) -> Iterator[dict[str, str]]:
    """Start all side by side, each in its own folder, and end them whatever happens; gives those that did not start."""
    begun: list[Peer] = []
    failed: dict[str, str] = {}

    def start(peer: Peer) -> None:
        own = folder / peer.name
        own.mkdir(parents=True)
        try:
            peer.start(own)
            begun.append(peer)
        except (PeerFailed, NeverCame) as error:
            failed[peer.name] = str(error)

    with ThreadPoolExecutor(len(peers)) as pool:
        try:
            list(pool.map(start, peers))
            yield failed
        finally:
            list(pool.map(lambda peer: peer.stop(), begun))


def compare(
    peers: list[Peer], sizes: Sizes, wanted: list[str], folder: Path, say: Callable[[str], object]
) -> tuple[list[Line], dict[str, str]]:
    """The lines of the experiments that compare, and who failed, with the reason."""
    say("starting " + ", ".join(peer.title for peer in peers))
    with running(peers, folder) as failed:
        comparison = Comparison([peer for peer in peers if peer.name not in failed], sizes, wanted, say)
        comparison.run()
        return comparison.lines() + goals.lines(comparison, wanted), {**failed, **comparison.failed}


def by_ourselves(
    sizes: Sizes, wanted: list[str], folder: Path, say: Callable[[str], object]
) -> tuple[list[Line], dict[str, str]]:
    """The same of the experiments that need no rival."""
    classic = Classic("librdkafka")
    say("starting " + classic.title)
    with running([classic], folder / "alone") as failed:
        return [] if failed else [line for name in wanted for line in ALONE[name](classic, sizes, say)], failed


def main() -> int:
    peers = everybody()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quick", action="store_true", help="few messages: under four minutes in all")
    form.add_argument("--full", action="store_true", help="as the paper did; what is done when nothing is said")
    parser.add_argument("--only", action="append", choices=[*COMPARED, *ALONE], help="may be given several times")
    parser.add_argument(
        "--subject", action="append", choices=[peer.name for peer in peers], help="may be given several times"
    )
    parser.add_argument("--results", type=Path, default=RESULTS / "paper.jsonl", help="add the results to this file")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the tables")
    parser.add_argument("--dir", type=Path, help="put all data under this folder")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    wanted = options.only or [*COMPARED, *ALONE]
    progress = Console(stderr=True)
    chosen = [peer for peer in peers if not options.subject or peer.name in options.subject]
    for peer in chosen:
        if why := peer.missing():
            progress.print(f"[yellow]skipped: {peer.title}[/yellow]: {why}", highlight=False, soft_wrap=True)
    able = [peer for peer in chosen if not peer.missing() and (peer.keeps or set(wanted) != {"overhead"})]
    machine, begin = {**describe(), "quick": options.quick}, time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="bench-paper-", dir=options.dir))
    lines: list[Line] = []
    failed: dict[str, str] = {}
    try:
        with telling(progress) as say:
            if able and set(COMPARED) & set(wanted):
                lines, failed = compare(able, sizes, wanted, folder, say)
            if (own := [name for name in wanted if name in ALONE]) and any(p.name == goals.OURS for p in able):
                more, failed_alone = by_ourselves(sizes, own, folder, say)
                lines, failed = lines + more, {**failed, **failed_alone}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines.sort(key=lambda line: list(table.TITLES).index(line.experiment))
    keep(lines, machine, options.results)
    if options.json:
        for line in lines:
            print(json.dumps({**asdict(line), "median": line.median, "reached": line.reached}))
    else:
        titles = {peer.name: peer.title for peer in peers}
        table.show(lines, titles, Console(width=None if sys.stdout.isatty() else 170))
    took = f"{(time.monotonic() - begin) / 60:.1f} minutes, load average {machine['load_average']:.1f} at the start"
    progress.print(f"[dim]{took}; every run is in {options.results}[/dim]", soft_wrap=True)
    for name, why in failed.items():
        progress.print(f"[red]failed: {name}[/red]: {why}", highlight=False, soft_wrap=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # all servers have been ended on the way here
