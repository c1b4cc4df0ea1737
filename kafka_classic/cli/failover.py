"""The demo's failover: a leader is killed under a producer's hands, and then every acknowledged record is counted.

What is drawn is what was measured: a bar for each quarter of a second, as long as it brought acknowledgements.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_classic.cli import show

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster
    from kafka_classic.client.metadata import Partition
    from kafka_classic.testing.cluster import LocalCluster

TOPIC = "payments"
REPLICAS = 3
STEP_S = 0.25
# Written before the kill, and again after the first acknowledgement by the new leader.
STEADY_S = 1.25
# A record every few milliseconds: enough for a picture, and little enough to read all of it back at once.
BURST = 10
PAUSE_S = 0.004
PATIENCE_S = 60.0
WIDTH = 40

Check = Callable[[bool, str], None]


@dataclass
class Written:
    """What a producer was told: the number of each acknowledged record's burst, and when."""

    began: float
    bursts: list[tuple[int, float]] = field(default_factory=list)
    failure: BaseException | None = None

    @property
    def records(self) -> int:
        return len(self.bursts) * BURST


def show_failover(local: LocalCluster, check: Check) -> None:
    """Kill the leader of a replicated partition under load, and count."""
    from kafka_classic.client.admin import NewTopic, create_topics
    from kafka_classic.client.backoff import Backoff
    from kafka_classic.client.cluster import Cluster

    quick = Backoff(first=0.02, longest=0.1)
    with Cluster(local.bootstrap, "demo", deadline=PATIENCE_S, request_timeout=10.0, backoff=quick) as cluster:
        create_topics(cluster, [NewTopic(TOPIC, 1, REPLICAS, {"min.insync.replicas": "2"})])
        check(
            _until(lambda: len(_partition(cluster).isr) == REPLICAS),
            f"{TOPIC}-0 does not have {REPLICAS} replicas in sync: {_partition(cluster)}",
        )
        states = [["before", *_row(_partition(cluster))]]
        written, marks, killed = _write_through_a_kill(local, cluster, check)
        states.append([f"broker {killed} killed", *_row(_partition(cluster))])
        dead = next(broker for broker in local.brokers if broker.id == killed)
        dead.start()
        dead.wait_ready(PATIENCE_S)
        check(_until(lambda: killed in _partition(cluster).isr), f"broker {killed} does not come back into sync")
        states.append([f"broker {killed} restarted", *_row(_partition(cluster))])
        print("acknowledged writes (acks=all), each line a quarter of a second:")
        for line in bars([when - written.began for _, when in written.bursts], STEP_S, marks, BURST):
            print(line)
        show.table(["", "leader", "leader epoch", "in sync"], states)
        _count(cluster, written, check)


def bars(times: Sequence[float], step: float, marks: Mapping[float, str], weight: int = 1) -> list[str]:
    """A line for each step of time: its bar, how many there were of `weight` each, and what happened in it."""
    last = int(max([*times, *marks], default=0.0) / step)
    counts = Counter(int(each / step) for each in times)
    most = max(counts.values(), default=1)
    lines = []
    for number in range(last + 1):
        said = [text for when, text in sorted(marks.items()) if int(when / step) == number]
        bar = "█" * (-(-counts[number] * WIDTH // most))
        line = f"{number * step:6.2f} s  {counts[number] * weight:>6,} {bar}".rstrip()
        lines.append(line + (f"  ← {'; '.join(said)}" if said else ""))
    return lines


def _write_through_a_kill(local: LocalCluster, cluster: Cluster, check: Check) -> tuple[Written, dict[float, str], int]:
    """Write on another thread, kill the leader meanwhile; what was written, what happened when, and who was killed."""
    written = Written(time.monotonic())
    stop = threading.Event()
    writer = threading.Thread(target=_write, args=(local.bootstrap, written, stop), daemon=True)
    writer.start()
    marks: dict[float, str] = {}
    try:
        check(_until(lambda: bool(written.bursts) or written.failure is not None), "nothing was acknowledged")
        stop.wait(STEADY_S)
        leader = _partition(cluster).leader
        next(broker for broker in local.brokers if broker.id == leader).kill()
        killed = time.monotonic()
        marks[killed - written.began] = f"kill -9 of broker {leader}, the leader"
        check(_until(lambda: _partition(cluster).leader not in (leader, -1)), f"nobody leads {TOPIC}-0 any more")
        elected = time.monotonic()
        marks[elected - written.began] = f"broker {_partition(cluster).leader} leads"
        check(
            _until(lambda: _last(written) > elected or written.failure is not None),
            "the new leader acknowledges nothing",
        )
        stop.wait(STEADY_S)
    finally:
        stop.set()
        writer.join(PATIENCE_S)
    check(not writer.is_alive(), "the producer does not come to its end")
    check(written.failure is None, f"the producer gave up: {written.failure}")
    return written, marks, leader


def _write(bootstrap: str, written: Written, stop: threading.Event) -> None:
    """Number records and write them one burst after the other, until told to stop."""
    from kafka_classic.producer.producer import Producer

    settings = {
        "client.id": "demo-producer",
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
        "request.timeout.ms": 10_000,
    }
    try:
        with Producer(bootstrap, settings, audit=True) as producer:
            number = 0
            while not stop.wait(PAUSE_S):
                numbers = range(number * BURST, (number + 1) * BURST)
                producer.send_batch(TOPIC, [b"%d" % each for each in numbers], partition=0).result(PATIENCE_S)
                written.bursts.append((number, time.monotonic()))
                number += 1
    except Exception as failure:
        written.failure = failure


def _count(cluster: Cluster, written: Written, check: Check) -> None:
    from kafka_classic.client import simple

    start, until = simple.beginning(cluster, [TOPIC]), simple.end(cluster, [TOPIC])
    found = [int(each.record.value or b"") for each in simple.consume(cluster, start, until=until, idle=PATIENCE_S)]
    acknowledged = {number * BURST + i for number, _ in written.bursts for i in range(BURST)}
    lost, twice = acknowledged - set(found), len(found) - len(set(found))
    longest = max((b - a for (_, a), (_, b) in zip(written.bursts, written.bursts[1:], strict=False)), default=0.0)
    print(f"\nlongest silence: {longest:.1f} s, most of it until ZooKeeper gave the dead broker's session up")
    print(f"acknowledged {len(acknowledged):,}, found {len(found):,}, lost {len(lost)}, duplicated {twice}")
    check(not lost, f"{len(lost)} acknowledged records are lost")
    check(not twice, f"{twice} records are there twice")
    check(found == sorted(found), "the records are not in their order")


def _partition(cluster: Cluster) -> Partition:
    partition = cluster.metadata([TOPIC]).topics[TOPIC].partition(0)
    assert partition is not None
    return partition


def _row(partition: Partition) -> list[object]:
    return [partition.leader, partition.leader_epoch, sorted(partition.isr)]


def _last(written: Written) -> float:
    return written.bursts[-1][1] if written.bursts else 0.0


def _until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition; False when it did not come true in time."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
