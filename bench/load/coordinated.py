"""A group that a broker coordinates, to be measured: every member a process with one librdkafka consumer.

Each is forked before it has a consumer, writes a line whenever it is told what it owns, and, by librdkafka's own
statistics, how many requests of groups it has sent so far.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer

REQUESTS = ("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetFetch", "OffsetCommit")
STATISTICS_MS = 500


def run_member(config: dict[str, Any], topic: str, out: int) -> None:
    """Be a member until SIGTERM."""
    ended = False
    owned: set[int] = set()
    spent = 0

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    def tell() -> None:
        os.write(out, json.dumps({"owned": sorted(owned), "requests": spent}).encode() + b"\n")

    def assigned(consumer: Consumer, partitions: Any) -> None:
        owned.update(p.partition for p in partitions)
        tell()

    def revoked(consumer: Consumer, partitions: Any) -> None:
        owned.difference_update(p.partition for p in partitions)
        tell()

    def statistics(text: str) -> None:
        nonlocal spent
        brokers = json.loads(text)["brokers"].values()
        now = sum(broker.get("req", {}).get(name, 0) for broker in brokers for name in REQUESTS)
        if now != spent:
            spent = now
            tell()

    signal.signal(signal.SIGTERM, end)
    consumer = Consumer({**config, "statistics.interval.ms": STATISTICS_MS, "stats_cb": statistics})
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    while not ended:
        consumer.poll(0.05)
    consumer.close()


class Coordinated:
    """The members, and what they have told."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int, **config: Any) -> None:
        self._config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **config}
        self._topic, self._partitions = topic, partitions
        self._selector = selectors.DefaultSelector()
        self._rest: dict[int, bytes] = {}
        self._pipes: dict[int, int] = {}
        self.members: list[int] = []
        self.owned: dict[int, set[int]] = {}
        self.requests: Counter[int] = Counter()

    def start(self, count: int) -> None:
        for _ in range(count):
            ours, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.close(ours)
                    run_member(self._config, self._topic, theirs)
                finally:
                    os._exit(0)
            os.close(theirs)
            self.members.append(pid)
            self.owned[pid] = set()
            self._pipes[pid], self._rest[ours] = ours, b""
            self._selector.register(ours, selectors.EVENT_READ, pid)

    def end(self, pid: int, number: int) -> None:
        """SIGTERM lets it leave, SIGKILL does not."""
        self.members.remove(pid)
        os.kill(pid, number)
        os.waitpid(pid, 0)
        self.listen(0)
        del self.owned[pid]
        ours = self._pipes.pop(pid)
        self._selector.unregister(ours)
        os.close(ours)

    def listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            *lines, rest = (self._rest[key.fd] + os.read(key.fd, 1 << 20)).split(b"\n")
            self._rest[key.fd] = rest
            for line in lines:
                told = json.loads(line)
                self.owned[key.data] = set(told["owned"])
                self.requests[key.data] = told["requests"]

    def until(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            self.listen(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the group did not settle in {timeout:g} s: {self.owned}")

    def settled(self) -> bool:
        """Whether every partition has one owner, and they are spread evenly over all members."""
        sizes = [len(owned) for owned in self.owned.values()]
        union = set().union(*self.owned.values())
        even = self._partitions // len(sizes)
        return sum(sizes) == len(union) == self._partitions and even <= min(sizes) and max(sizes) <= even + 1

    def count(self) -> int:
        """The requests of all members so far; those that ended keep what they told last."""
        until = time.monotonic() + 4 * STATISTICS_MS / 1000
        while time.monotonic() < until:
            self.listen(0.02)
        return sum(self.requests.values())

    def close(self) -> None:
        for pid in list(self.members):
            self.end(pid, signal.SIGKILL)
