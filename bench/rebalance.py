"""Measure how a group is balanced, through ZooKeeper by its members or by a coordinator: processes, one broker.

python -P bench/rebalance.py [--quick] [--json] [--through zookeeper|coordinator] [--group MEMBERS:PARTITIONS ...]
                             [--session-ms N] [--assignor NAME] [--heartbeat-ms N]

For each size: all members start at once, one joins, one leaves in order, one is killed. Told are the seconds until
every partition has its one owner again, the attempts, and what all members together asked for: operations of ZooKeeper,
or requests to the coordinator. After a kill the time is split at the moment when ZooKeeper gives the dead member up.
Through ZooKeeper go our own consumers, as the paper has them; to the coordinator goes librdkafka.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.load import results
from bench.load.coordinated import Coordinated
from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.group import LocalGroup
from kafka_classic.zk.consumers import GroupRegistry

QUICK = ("4:46", "16:250")
FULL = ("2:46", "8:46", "16:46", "32:46", "64:46", "16:250", "16:1000", "32:1000", "64:1000")


class Measured(NamedTuple):
    through: str
    members: int
    partitions: int
    event: str
    seconds: float
    beyond_expiry: float | None
    attempts: int
    operations: int


def measure(cluster: LocalCluster, folder: Path, members: int, partitions: int, session_ms: int) -> list[Measured]:
    topic = f"t-{members}-{partitions}"
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(topic, partitions)])
    found: list[Measured] = []
    settings = {"zookeeper.session.timeout.ms": session_ms}
    with LocalGroup(folder, cluster.zookeeper, f"g-{members}-{partitions}", topic, settings) as group:
        registry = GroupRegistry(group.zookeeper_session(), group.group)

        def event(name: str, happen: Callable[[], object], expires: bool = False) -> None:
            before = group.costs()
            began = time.monotonic()
            happen()
            gone = None
            if expires:
                group.until(lambda: len(registry.members()) == len(group.members), "the dead one given up", 120)
                gone = time.monotonic()
            group.until_settled(partitions, 300)
            ended = time.monotonic()
            spent: Counter[str] = Counter()
            for member, costs in group.costs().items():
                spent += costs - before.get(member, Counter())
            found.append(
                Measured(
                    "zookeeper",
                    members,
                    partitions,
                    name,
                    ended - began,
                    None if gone is None else ended - gone,
                    spent["attempts"],
                    spent["operations"],
                )
            )

        event("all start", lambda: group.start(members))
        event("one joins", lambda: group.start(1))
        event("one leaves", lambda: group.stop(group.members[members // 2]))
        event("one is killed", lambda: group.kill(group.members[members // 3]), expires=True)
    return found


def measure_coordinator(
    cluster: LocalCluster, members: int, partitions: int, session_ms: int, assignor: str, heartbeat_ms: int
) -> list[Measured]:
    topic = f"c-{members}-{partitions}"
    with Cluster(cluster.bootstrap) as client:
        create_topics(client, [NewTopic(topic, partitions)])
    found: list[Measured] = []
    group = Coordinated(
        cluster.bootstrap,
        f"c-{members}-{partitions}",
        topic,
        partitions,
        **{
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": heartbeat_ms,
            "partition.assignment.strategy": assignor,
        },
    )

    def event(name: str, happen: Callable[[], object]) -> None:
        before = group.count()
        began = time.monotonic()
        happen()
        group.until(group.settled, 300)
        seconds = time.monotonic() - began
        found.append(Measured("coordinator", members, partitions, name, seconds, None, 0, group.count() - before))

    try:
        event("all start", lambda: group.start(members))
        event("one joins", lambda: group.start(1))
        event("one leaves", lambda: group.end(group.members[members // 2], signal.SIGTERM))
        event("one is killed", lambda: group.end(group.members[members // 3], signal.SIGKILL))
    finally:
        group.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--group", action="append", metavar="MEMBERS:PARTITIONS")
    parser.add_argument("--through", choices=("zookeeper", "coordinator"), help="both, if not told")
    parser.add_argument("--session-ms", type=int, default=6000)
    parser.add_argument("--heartbeat-ms", type=int, default=3000, help="of members of a coordinated group")
    parser.add_argument("--assignor", default="range", help="librdkafka's name of it, of a coordinated group")
    results.add_option(parser)
    options = parser.parse_args()
    sizes = [tuple(map(int, text.split(":"))) for text in options.group or (QUICK if options.quick else FULL)]
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder) / "cluster") as cluster:
        for number, (members, partitions) in enumerate(sizes):
            rows: list[Measured] = []
            if options.through != "coordinator":
                rows += measure(cluster, Path(folder) / str(number), members, partitions, options.session_ms)
            if options.through != "zookeeper":
                rows += measure_coordinator(
                    cluster, members, partitions, options.session_ms, options.assignor, options.heartbeat_ms
                )
            for one in rows:
                measured.append(one)
                if options.json:
                    print(json.dumps(one._asdict()), flush=True)
                else:
                    show(one, first=len(measured) == 1)
    session, heartbeat = options.session_ms / 1000, options.heartbeat_ms / 1000
    note = f"sessions of {session:g} s, heartbeats to a coordinator every {heartbeat:g} s"
    results.keep_run([line for one in measured for line in lines(one, note)], options)
    return 0


def lines(one: Measured, note: str) -> list[results.Line]:
    """What it took, and what all members asked for: operations of ZooKeeper, or requests to the coordinator."""
    case: results.Case = {"members": one.members, "partitions": one.partitions, "event": one.event}
    figures = (("time", one.seconds, "s"), ("requests", float(one.operations), "requests"))
    return [
        results.Line("rebalance", one.through, {**case, "figure": name}, unit, [figure], False, note=note)
        for name, figure, unit in figures
    ]


def show(one: Measured, *, first: bool) -> None:
    if first:
        print("through      members partitions  event                s  s beyond expiry  attempts  operations")
    beyond = "" if one.beyond_expiry is None else f"{one.beyond_expiry:.2f}"
    print(
        f"{one.through:<11} {one.members:>8} {one.partitions:>10}  {one.event:<14} {one.seconds:>7.2f} {beyond:>16} "
        f"{one.attempts:>9} {one.operations:>11}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
