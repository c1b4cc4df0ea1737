"""A group of consumers to break: every member a process of its own, that writes down what it reads.

    with LocalGroup(Path("data"), cluster.zookeeper, "readers", "orders") as group:
        group.start(16)
        group.until_settled(46)
        group.kill(group.members[3])
        group.until_settled(46)
        assert group.judge(written).clean

Members are forked from a process that has imported everything once, so that 64 of them start in a moment; each has its
own ZooKeeper session, sockets and threads. They end with the process that started them, however that ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafka_classic.testing.journal import Stint, Verdict, judge, read, stints
from kafka_classic.testing.process import Process, start_time, tail
from kafka_classic.testing.waiting import NeverCame, until

if TYPE_CHECKING:
    from kafka_classic.zk.consumers import GroupRegistry
    from kafka_classic.zk.session import Session


class Member:
    """One consumer process and its journal."""

    def __init__(self, name: str, consumer_id: str, journal: Path, pid: int) -> None:
        self.name = name
        self.consumer_id = consumer_id
        self.journal = journal
        self.died: int | None = None
        self.paused = False
        self.process = Process(pid, start_time(pid) or 0)

    def signal(self, number: int) -> None:
        self.process.signal(number)

    @property
    def ready(self) -> bool:
        """Whether it has its streams; from then on it takes part."""
        return self.journal.exists() and self.journal.stat().st_size > 0

    @property
    def costs(self) -> Path:
        return self.journal.with_name(f"{self.journal.name}.costs")

    def stints(self) -> list[Stint]:
        return stints(self.name, read(self.journal))


class LocalGroup:
    """Processes that read one topic together. Members that were stopped or killed stay in `everyone` for the judge."""

    def __init__(
        self, dir: Path, zookeeper: str, group: str, topic: str, settings: Mapping[str, object] | None = None
    ) -> None:
        self.dir = dir
        self.zookeeper = zookeeper
        self.group = group
        self.topic = topic
        self.settings = {"auto.offset.reset": "smallest", **(settings or {})}
        self.everyone: list[Member] = []
        self.log = dir / "members.log"
        self._nursery: subprocess.Popen[str] | None = None
        self._session: Session | None = None

    @property
    def members(self) -> list[Member]:
        """Those that run."""
        return [member for member in self.everyone if member.died is None]

    def start(self, count: int, streams: int = 1, through: Callable[[str], str] | None = None) -> list[Member]:
        """Start so many more members; `through` gives each its own way to ZooKeeper, by its name."""
        self.dir.mkdir(parents=True, exist_ok=True)
        started = []
        for _ in range(count):
            name = f"{self.group}-{len(self.everyone)}"
            journal = self.dir / f"{name}.journal"
            zookeeper = through(name) if through else self.zookeeper
            settings = {**self.settings, "consumer.id": name}
            pid = self._fork(
                zookeeper=zookeeper,
                group=self.group,
                topic=self.topic,
                streams=streams,
                settings=settings,
                journal=str(journal),
            )
            member = Member(name, f"{self.group}_{name}", journal, pid)
            self.everyone.append(member)
            started.append(member)
        return started

    def _fork(self, **order: object) -> int:
        if self._nursery is None:
            with open(self.log, "ab") as log:
                # -P: the working directory may hold folders with our rooms' names.
                self._nursery = subprocess.Popen(
                    [sys.executable, "-P", "-m", "kafka_classic.testing.member"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(json.dumps(order) + "\n")
        self._nursery.stdin.flush()
        answer = self._nursery.stdout.readline()
        if not answer:
            raise NeverCame(f"no member could be started\n--- end of {self.log}\n{tail(self.log)}")
        return int(answer)

    # --- what befalls them

    def kill(self, *members: Member) -> None:
        """SIGKILL to each."""
        for member in members:
            member.signal(signal.SIGKILL)
        for member in members:
            member.process.wait(30.0)
            member.died = time.monotonic_ns()

    def stop(self, *members: Member, timeout: float = 60.0) -> None:
        """SIGTERM to each: it commits, gives up what it owns, and leaves."""
        for member in members:
            member.signal(signal.SIGTERM)
            member.signal(signal.SIGCONT)
        deadline = time.monotonic() + timeout
        for member in members:
            if not member.process.wait(max(0.0, deadline - time.monotonic())):
                raise NeverCame(f"{member.name} did not leave within {timeout:g} s")
            member.died = time.monotonic_ns()

    def pause(self, member: Member) -> None:
        member.paused = True
        member.signal(signal.SIGSTOP)

    def resume(self, member: Member) -> None:
        member.paused = False
        member.signal(signal.SIGCONT)

    # --- what is seen of them

    def owners(self) -> dict[int, str]:
        """Who owns each partition now, by ZooKeeper."""
        return {partition: owner for (_, partition), owner in self._registry().owners([self.topic]).items()}

    def _registry(self) -> GroupRegistry:
        from kafka_classic.zk.consumers import GroupRegistry

        return GroupRegistry(self.zookeeper_session(), self.group)

    def costs(self, timeout: float = 60.0) -> dict[str, Counter[str]]:
        """What its rebalances cost each member so far: attempts, conflicts, ZooKeeper operations."""
        asked = [member for member in self.members if not member.paused]
        for member in asked:
            member.costs.unlink(missing_ok=True)
            member.signal(signal.SIGUSR1)
        deadline = time.monotonic() + timeout
        told: dict[str, Counter[str]] = {}
        for member in asked:
            until(member.costs.exists, f"what {member.name} spent", deadline - time.monotonic())
            told[member.name] = Counter(json.loads(member.costs.read_text()))
        return told

    def settled(self, partitions: int, among: Collection[Member] | None = None) -> bool:
        """Whether every partition has an owner, and they are spread evenly over so many as there are members."""
        expected = self.members if among is None else among
        # Counting them costs ZooKeeper one request; who owns each costs one a partition.
        if not all(member.ready for member in expected) or self._registry().owned([self.topic]) != partitions:
            return False
        share = Counter(owner.rpartition("-")[0] for owner in self.owners().values())
        members = len(expected)
        even = partitions // members, -(-partitions // members)
        return (
            sum(share.values()) == partitions
            and len(share) == min(members, partitions)
            and (min(share.values()) >= even[0] and max(share.values()) <= even[1])
        )

    def until_settled(self, partitions: int, timeout: float = 120.0, among: Collection[Member] | None = None) -> None:
        self.until(lambda: self.settled(partitions, among), f"{partitions} partitions spread over the members", timeout)

    def until(self, condition: Callable[[], bool], what: str, timeout: float = 120.0) -> None:
        until(condition, what, timeout, sight=self._sight)

    def _sight(self) -> str:
        return f"owners: {self.owners()}\n--- end of {self.log}\n{tail(self.log)}"

    def handed(self) -> dict[int, set[int]]:
        """All offsets that were handed to anybody so far, by partition."""
        found: dict[int, set[int]] = {}
        for member in self.everyone:
            for stint in member.stints():
                found.setdefault(stint.partition, set()).update(offset for offset, _ in stint.handed)
        return found

    def until_read(self, written: Mapping[int, Collection[int]], timeout: float = 120.0) -> None:
        """Wait until every record written was handed to somebody."""

        def all_read() -> bool:
            handed = self.handed()
            return all(set(offsets) <= handed.get(partition, set()) for partition, offsets in written.items())

        self.until(all_read, "everything written handed out", timeout)

    def judge(self, written: Mapping[int, Collection[int]]) -> Verdict:
        return judge({member.name: member.stints() for member in self.everyone}, written)

    def zookeeper_session(self) -> Session:
        from kafka_classic.zk.session import Session

        if self._session is None:
            self._session = Session(self.zookeeper, timeout_s=30.0).start()
        return self._session

    # --- life

    def close(self) -> None:
        """End all that still run, at once."""
        for member in self.members:
            member.signal(signal.SIGCONT)
        self.kill(*self.members)
        if self._nursery is not None:
            assert self._nursery.stdin is not None
            assert self._nursery.stdout is not None
            self._nursery.stdin.close()
            self._nursery.wait(30.0)
            self._nursery.stdout.close()
            self._nursery = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
