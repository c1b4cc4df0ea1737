"""`kafka-classic demo`: a short tour of the paper on a cluster of its own; what it prints, it has just measured."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_classic.cli import show
from kafka_classic.cli.failover import show_failover
from kafka_classic.cli.failure import CommandFailed

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.testing.broker import BrokerProcess
    from kafka_classic.testing.cluster import LocalCluster

BROKERS = 3
MESSAGES = 60_000
SIZE = 200
# A broker that was killed is given up after this time of silence; Kafka's 18 s would be most of the demo.
SETTINGS = {"zookeeper.session.timeout.ms": "2000"}


def add_to(app: typer.Typer) -> None:
    """Adds the command of this file to the command line."""
    app.command(epilog="Example: [bold]kafka-classic demo[/bold]")(demo)


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Keep the data here; else it is gone at the end.")
    ] = None,
) -> None:
    """Start ZooKeeper and three brokers, show what the paper says of them, kill a leader, count, audit, and stop."""
    began = time.monotonic()
    with _folder(directory) as folder:
        _tour(folder, _report(directory))
    print(f"\nAll of it took {time.monotonic() - began:.1f} s. Your own cluster: kafka-classic up --brokers 3")


def _tour(folder: Path, report: Path) -> None:
    from kafka_classic.cli.reach import connect
    from kafka_classic.testing.cluster import LocalCluster

    _title("A cluster of real processes")
    local = LocalCluster(folder, BROKERS, settings=SETTINGS)
    began = time.monotonic()
    try:
        local.start()
        print(f"ZooKeeper and {BROKERS} brokers serve after {time.monotonic() - began:.1f} s.")
        _show_registry(local)
        with connect(local.bootstrap) as cluster:
            _show_ordinary(cluster)
            _show_classic(cluster)
            _show_recovery(local, cluster)
        _title("Failover: the leader of a replicated partition dies in the middle of a write")
        show_failover(local, _check)
        _show_audit(local, report)
    finally:
        local.stop()
    marks = sum((broker.data_dir / ".kafka_cleanshutdown").exists() for broker in local.brokers)
    _check(marks == BROKERS, f"only {marks} of {BROKERS} brokers left their clean-shutdown mark")
    print("\nStopped cleanly: every broker left its clean-shutdown mark, so the next start scans nothing.")


def _show_registry(local: LocalCluster) -> None:
    from kafka_classic.zk.session import Session
    from kafka_classic.zk.znodes import Znodes

    _title("The broker registry (P15): ephemeral znodes, gone when their broker is")
    with Session(local.zookeeper) as session:
        znodes = Znodes(session)
        rows = []
        for name in sorted(znodes.children("/brokers/ids") or ()):
            node = znodes.get(f"/brokers/ids/{name}")
            if node is None:
                continue
            told = json.loads(node.data)
            rows.append([f"/brokers/ids/{name}", told["host"], told["port"], f"session {node.owner:#x}"])
    show.table(["znode", "host", "port", "held by"], rows)


def _show_ordinary(cluster: Cluster) -> None:
    from kafka_classic.client.admin import NewTopic, create_topics

    _title(f"An ordinary topic: {MESSAGES:,} messages of {SIZE} bytes over {BROKERS} partitions")
    # One replica, as in the paper (P23): what is on a broker that is down is down with it. The failover comes last.
    create_topics(cluster, [NewTopic("events", partitions=BROKERS, replication_factor=1)])
    sent, seconds = _write(cluster, "events", MESSAGES)
    print(f"written:  {sent:,} acknowledged, {sent / seconds:,.0f} a second (this Python producer, acks=all)")
    began = time.monotonic()
    offsets = _read(cluster, "events")
    seconds = time.monotonic() - began
    read = sum(len(each) for each in offsets.values())
    print(f"read:     {read:,}, {read / seconds:,.0f} a second, every checksum verified (P22)")
    _check(read == sent, f"{sent} messages were acknowledged and {read} were read")
    _check(all(each == list(range(len(each))) for each in offsets.values()), "offsets are not 0, 1, 2 …")
    print("in order: offsets of each partition are 0, 1, 2 … without a gap (P21)")


def _show_classic(cluster: Cluster) -> None:
    from kafka_classic.client import simple
    from kafka_classic.client.admin import NewTopic, create_topics

    _title("A classic topic (P6): an offset is a byte position")
    create_topics(cluster, [NewTopic("paper", partitions=1, replication_factor=1, configs={"classic": "true"})])
    words = [b"Kafka", b"is a distributed", b"messaging system", b"for log processing"]
    for word in words:
        simple.produce(cluster, "paper", 0, [(None, word, (), int(time.time() * 1000))])
    # Exposed once it is flushed (P5): the reader waits for the flush, which comes after 500 messages or 200 ms.
    found = list(simple.consume(cluster, {("paper", 0): 0}, count=len(words), idle=10))
    end = simple.end(cluster, ["paper"])["paper", 0]
    rows = []
    for each, after in zip(found, [*(each.record.offset for each in found[1:]), end], strict=True):
        offset, value = each.record.offset, each.record.value or b""
        rows.append([offset, after - offset, after, value.decode()])
    show.table(["offset", "+ length on disk", "= next offset", "message"], rows)
    _check([each.record.value for each in found] == words, "the classic topic does not hold what was written")


def _show_recovery(local: LocalCluster, cluster: Cluster) -> None:
    from kafka_classic.client.admin import describe_topics

    (topic,) = describe_topics(cluster, ["events"])
    partition = topic.partitions[0]
    broker = next(each for each in local.brokers if each.id == partition.leader)
    _title(f"kill -9 of broker {broker.id}, and a torn tail for it to find (P22)")
    before = _read(cluster, "events", partition.index)
    broker.kill()
    killed = time.monotonic()
    segment = _tear(broker, f"events-{partition.index}")
    torn = segment.stat().st_size
    others = [each.index for each in topic.partitions if each.leader != broker.id]
    alive = sum(len(offsets) for index in others for offsets in _read(cluster, "events", index).values())
    print(f"while it is down: {alive:,} messages of the other brokers' partitions are served")
    print(f"its znode left the registry by itself {_until_gone(local, broker.id, killed):.1f} s after the kill (P16)")
    began = time.monotonic()
    broker.start()
    broker.wait_ready(30)
    seconds = time.monotonic() - began
    cut = torn - segment.stat().st_size
    print(f"restarted: serves again after {seconds:.1f} s; recovery cut {cut} bytes of a half-written batch")
    _check(cut == TEAR, f"{TEAR} bytes were torn and {cut} were cut")
    after = _read(cluster, "events", partition.index)
    _check(after == before, "the partition does not hold what it held before the kill")
    print(f"partition {partition.index}: all {sum(map(len, after.values())):,} messages are there")


def _show_audit(local: LocalCluster, report: Path) -> None:
    _title("The audit (P25): what the producer of the failover published, and what the brokers have")
    # A process of its own: Spark's JVM says this and that on standard error, which is of no use here.
    command = ["audit", "report", "--bootstrap", local.bootstrap, "--html", str(report)]
    done = subprocess.run([sys.executable, "-P", "-m", "kafka_classic.cli", *command], capture_output=True, text=True)
    print(done.stdout, end="")
    _check(done.returncode == 0, f"the audit ended with code {done.returncode}: {done.stderr[-1000:]}")


def _report(directory: Path | None) -> Path:
    """Where the audit's page is kept after the demo."""
    if directory is not None:
        return directory / "audit.html"
    return Path(tempfile.mkdtemp(prefix="kafka-classic-audit-")) / "audit.html"


TEAR = 40


def _until_gone(local: LocalCluster, broker: int, since: float) -> float:
    """Waits until ZooKeeper has given a dead broker's session up; the seconds it took."""
    from kafka_classic.zk.session import Session
    from kafka_classic.zk.znodes import Znodes

    gone = threading.Event()
    with Session(local.zookeeper) as session:
        if Znodes(session).exists(f"/brokers/ids/{broker}", lambda _: gone.set()):
            _check(gone.wait(30), f"the znode of broker {broker} is still there")
    return time.monotonic() - since


def _tear(broker: BrokerProcess, partition: str) -> Path:
    """Puts the first bytes of a batch at the end of a dead broker's log, as a crash in the middle of a write does."""
    segment = max((broker.data_dir / partition).glob("*.log"))
    with open(segment, "r+b") as file:
        head = file.read(TEAR)
        file.seek(0, 2)
        file.write(head)
    return segment


def _write(cluster: Cluster, topic: str, count: int) -> tuple[int, float]:
    """Writes random values, a third to each partition; how many were acknowledged, in how many seconds."""
    import random

    from kafka_classic.cli.lines import random_values
    from kafka_classic.client.writer import Writer

    acknowledged: list[int] = []
    values = list(random_values(count, SIZE, random.Random(2011)))
    now = int(time.time() * 1000)
    began = time.monotonic()
    with Writer(
        cluster, batch_bytes=200_000, on_acknowledged=lambda share: acknowledged.append(share.records)
    ) as writer:
        for number, record in enumerate(values):
            writer.write(topic, number * BROKERS // count, (None, record.value, (), now))
    return sum(acknowledged), time.monotonic() - began


def _read(cluster: Cluster, topic: str, partition: int | None = None) -> dict[int, list[int]]:
    """The offsets of all records that are there now, by partition, read and checked from the beginning."""
    from kafka_classic.client import simple
    from kafka_classic.client.admin import EARLIEST, LATEST, list_offsets

    if partition is None:
        places = [(topic, each.index) for each in cluster.topic(topic).partitions]
    else:
        places = [(topic, partition)]
    start = {at: found.offset for at, found in list_offsets(cluster, dict.fromkeys(places, EARLIEST)).items()}
    until = {at: found.offset for at, found in list_offsets(cluster, dict.fromkeys(places, LATEST)).items()}
    offsets: dict[int, list[int]] = {index: [] for _, index in places}
    for _, index, record in simple.consume(cluster, start, until=until, idle=30):
        offsets[index].append(record.offset)
    return offsets


@contextmanager
def _folder(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        if directory.exists() and any(directory.iterdir()):
            raise CommandFailed(f"{directory} is not empty", "a new folder: the demo creates topics in it")
        yield directory
        return
    folder = Path(tempfile.mkdtemp(prefix="kafka-classic-demo-"))
    yield folder
    # Not reached after a failure: then the logs that tell of it are kept.
    shutil.rmtree(folder, ignore_errors=True)


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def _check(true: bool, otherwise: str) -> None:
    if not true:
        raise CommandFailed(
            f"the demo found something wrong: {otherwise}", "'kafka-classic demo --dir DIR', then its logs"
        )
