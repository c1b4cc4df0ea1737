"""Measure failover: a leader is killed, and the time until the next acks=all write succeeds is split at the moment when
ZooKeeper gives the dead broker up. Three brokers, three replicas, two of them in sync asked for.

python -P bench/failover.py [--quick] [--json] [--runs N] [--partitions N ...] [--session-ms N]

What lies before that moment is the session timeout; what lies beyond is ours: the controller hears of it, elects,
writes the states, tells the brokers, the new leader is followed, the client finds it. The broker that is killed leads a
third of all partitions; every third time it is the controller too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.load import results
from kafka_classic.client.admin import NewTopic, create_topics, describe_topics
from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.controlling import Election, elect_leaders
from kafka_classic.client.writer import Writer
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.session import Session

TOPIC = "failover"
LONG_ENOUGH_S = 120.0


class Run(NamedTuple):
    """Seconds from the kill to the expiry of its session, and from there to the first acknowledged write."""

    partitions: int
    to_expiry: float
    beyond: float
    was_controller: bool


class Registered:
    """When each broker left the registry."""

    def __init__(self, zookeeper: str) -> None:
        self._session = Session(zookeeper).start()
        self._changed = threading.Condition()
        self._live: set[int] = set()
        self._gone: dict[int, float] = {}
        BrokerRegistry(self._session).watch(self._tell)

    def _tell(self, brokers: dict[int, BrokerInfo]) -> None:
        now = time.monotonic()
        with self._changed:
            for id in self._live - brokers.keys():
                self._gone[id] = now
            self._live = set(brokers)
            self._changed.notify_all()

    def gone_at(self, broker: int) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: broker not in self._live, LONG_ENOUGH_S):
                raise TimeoutError(f"broker {broker} is still registered after {LONG_ENOUGH_S:g} s")
            return self._gone[broker]

    def close(self) -> None:
        self._session.close()


def whole(client: Cluster, brokers: int) -> bool:
    """Whether every partition has all its replicas in sync and its preferred leader, so that all lead a third."""
    (topic,) = describe_topics(client, [TOPIC])
    if not all(len(p.isr) == brokers for p in topic.partitions):
        return False
    strays = [(TOPIC, p.index) for p in topic.partitions if p.leader != p.replicas[0]]
    if strays:
        elect_leaders(client, Election.PREFERRED, strays)
    return not strays


def wait_until_whole(client: Cluster, brokers: int) -> None:
    until = time.monotonic() + LONG_ENOUGH_S
    while not whole(client, brokers):
        if time.monotonic() > until:
            raise TimeoutError(f"not all replicas are in sync after {LONG_ENOUGH_S:g} s")
        time.sleep(0.1)


def write_one(client: Cluster, partition: int) -> None:
    with Writer(client, acks=-1, timeout=LONG_ENOUGH_S) as writer:
        writer.write(TOPIC, partition, (None, b"still here", (), int(time.time() * 1000)))


def measure(cluster: LocalCluster, client: Cluster, registered: Registered, partitions: int, number: int) -> Run:
    wait_until_whole(client, len(cluster.brokers))
    seen = client.metadata([TOPIC])
    # Every third time the controller; else one of the others, so that both are seen.
    others = [broker.id for broker in cluster.brokers if broker.id != seen.controller]
    victim = seen.controller if number % 3 == 2 else others[number % 2]
    (topic,) = describe_topics(client, [TOPIC])
    led = next(p.index for p in topic.partitions if p.leader == victim)
    write_one(client, led)
    process = next(broker for broker in cluster.brokers if broker.id == victim)
    killed = time.monotonic()
    process.kill()
    write_one(client, led)
    written = time.monotonic()
    gone = registered.gone_at(victim)
    process.start()
    cluster.wait_ready(LONG_ENOUGH_S)
    return Run(partitions, gone - killed, written - gone, victim == seen.controller)


def runs_of(partitions: int, count: int, session_ms: int) -> list[Run]:
    settings = {
        "zookeeper.session.timeout.ms": str(session_ms),
        "min.insync.replicas": "2",
        "auto.leader.rebalance.enable": "false",
    }
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder), 3, settings=settings) as cluster:
        registered = Registered(cluster.zookeeper)
        # A client that looks often, so that what is measured is the cluster's time and not the client's patience.
        client = Cluster(cluster.bootstrap, deadline=LONG_ENOUGH_S, backoff=Backoff(0.01, 0.02))
        try:
            create_topics(client, [NewTopic(TOPIC, partitions, 3, {})])
            found = []
            for number in range(count):
                found.append(measure(cluster, client, registered, partitions, number))
                print(".", end="", file=sys.stderr, flush=True)
            return found
        finally:
            client.close()
            registered.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 partitions only: two to three minutes")
    parser.add_argument("--runs", type=int, default=20, help="with 100 partitions; of the larger counts a quarter")
    parser.add_argument("--partitions", type=int, action="append", help="may be given several times")
    parser.add_argument("--session-ms", type=int, default=6000, help="zookeeper.session.timeout.ms")
    parser.add_argument("--json", action="store_true", help="one JSON line a run")
    results.add_option(parser)
    options = parser.parse_args()
    lines = []
    counts = options.partitions or ([100] if options.quick else [100, 500, 1000, 2000])
    for partitions in counts:
        count = options.runs if partitions == counts[0] else max(options.runs // 4, 3)
        runs = runs_of(partitions, count, options.session_ms)
        print(file=sys.stderr)
        case: results.Case = {"partitions": partitions, "session_ms": options.session_ms}
        seconds = [run.beyond for run in runs]
        lines.append(results.Line("failover", "kafka-classic", case, "s beyond the session's expiry", seconds, False))
        if options.json:
            print("\n".join(json.dumps(run._asdict()) for run in runs))
            continue
        beyond = sorted(run.beyond * 1000 for run in runs)
        expiry = statistics.median(run.to_expiry for run in runs)
        print(
            f"{partitions:5d} partitions, {count} kills: p50 {statistics.median(beyond):.0f} ms, "
            f"max {beyond[-1]:.0f} ms beyond the session's expiry, which came {expiry:.1f} s after the kill",
            flush=True,
        )
    results.keep_run(lines, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
