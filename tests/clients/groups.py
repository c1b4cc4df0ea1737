"""A group of other people's clients, each a process, and what the offsets topic says of it."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition

from kafka_classic.groups.placing import partition_of
from kafka_classic.groups.records import GroupKey, GroupValue, read_group, read_key
from kafka_classic.testing.journal import Verdict, judge, read, stints
from kafka_classic.testing.process import Process, tail
from kafka_classic.testing.waiting import until
from tests.clients.with_librdkafka import admin_of

OFFSETS = "__consumer_offsets"
MEMBER = Path(__file__).with_name("member.py")
LONG_S = 120.0
T = TypeVar("T")
MOVING = {  # while another broker takes the group over
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}


class ClientMember:
    """One process."""

    def __init__(self, name: str, kind: str, journal: Path, process: Process) -> None:
        self.name = name
        self.kind = kind
        self.journal = journal
        self.process = process

    def assignments(self) -> int:
        return sum(event.what == 0 for event in read(self.journal))


class ClientGroup:
    """Starts, stops, kills and pauses members; ends all that run when it is closed."""

    def __init__(
        self, dir: Path, bootstrap: str, group: str, topic: str, *, session_ms: int = 6000, assignor: str = "range"
    ) -> None:
        self.dir, self.bootstrap, self.group, self.topic = dir, bootstrap, group, topic
        self.session_ms, self.assignor = session_ms, assignor
        self.everyone: list[ClientMember] = []
        self.members: list[ClientMember] = []
        self._admin = admin_of(bootstrap)
        dir.mkdir(parents=True, exist_ok=True)

    def start(self, kind: str, instance: str | None = None) -> ClientMember:
        name = f"{kind}-{len(self.everyone)}"
        journal = self.dir / f"{name}.journal"
        # -P: the working directory may hold folders with our rooms' names.
        command = [sys.executable, "-P", str(MEMBER), kind, self.bootstrap, self.group, self.topic, str(journal)]
        command += [str(self.session_ms), self.assignor, *([instance] if instance else [])]
        member = ClientMember(name, kind, journal, Process.spawn(command, self.dir / f"{name}.log", {**os.environ}))
        self.everyone.append(member)
        self.members.append(member)
        return member

    def stop(self, *members: ClientMember) -> None:
        """SIGTERM to each: it leaves in order."""
        for member in members:
            member.process.signal(signal.SIGTERM)
        for member in members:
            assert member.process.wait(LONG_S), f"{member.name} did not leave\n{tail(self.dir / f'{member.name}.log')}"
            self.members.remove(member)

    def kill(self, member: ClientMember) -> None:
        member.process.kill()
        self.members.remove(member)

    def close(self) -> None:
        for member in list(self.members):
            self.kill(member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what is seen

    def until(self, condition: Callable[[], bool], what: str, timeout: float = LONG_S) -> None:
        until(condition, what, timeout, sight=self._sight, pause=0.1)

    def _sight(self) -> str:
        logs = "\n".join(f"--- {m.name}\n{tail(self.dir / f'{m.name}.log')[-1500:]}" for m in self.members)
        return f"{self.described()}\n{logs}"

    def _ask(self, question: Callable[[Any], T]) -> T:
        """What an admin is answered once somebody coordinates the group.

        librdkafka's admin remembers the coordinator for minutes, and goes on asking one that has died and is back,
        though it answers NOT_COORDINATOR: a new admin asks anew who it is.
        """

        def ask() -> list[T]:
            try:
                return [question(self._admin)]
            except KafkaException as error:
                if error.args[0].code() not in MOVING:
                    raise
                self._admin = admin_of(self.bootstrap)
                return []

        return until(ask, f"a coordinator of {self.group}", LONG_S, pause=0.1)[0]

    def described(self) -> tuple[str, dict[str, list[int]]]:
        """The group's state and what each member is assigned, by DescribeGroups."""
        asked = [self.group]
        found = self._ask(lambda a: a.describe_consumer_groups(asked, request_timeout=30)[self.group].result(LONG_S))
        shares = {
            member.member_id: sorted(p.partition for p in member.assignment.topic_partitions)
            for member in found.members
        }
        return found.state.name, shares

    def settled(self, partitions: int) -> bool:
        """Whether as many members as run share all partitions."""
        state, shares = self.described()
        owned = sorted(p for share in shares.values() for p in share)
        return state == "STABLE" and len(shares) == len(self.members) and owned == list(range(partitions))

    def until_settled(self, partitions: int, timeout: float = LONG_S) -> None:
        self.until(lambda: self.settled(partitions), f"{len(self.members)} members that share all", timeout)

    def handed(self) -> Counter[int]:
        """How many different records of each partition were handed to anybody."""
        found = {(e.partition, e.offset) for m in self.everyone for e in read(m.journal) if e.what == 2}
        return Counter(partition for partition, _ in found)

    def until_read(self, written: Mapping[int, int], timeout: float = LONG_S) -> None:
        self.until(lambda: self.handed() == Counter(written), f"all of {sum(written.values())} records read", timeout)

    def judge(self, written: Mapping[int, int]) -> Verdict:
        members = {member.name: stints(member.name, read(member.journal)) for member in self.everyone}
        return judge(members, {partition: range(count) for partition, count in written.items()})

    def committed(self, partitions: int) -> dict[int, int]:
        wanted = [TopicPartition(self.topic, n) for n in range(partitions)]
        asked = [ConsumerGroupTopicPartitions(self.group, wanted)]
        found = self._ask(lambda admin: admin.list_consumer_group_offsets(asked)[self.group].result(LONG_S))
        return {row.partition: row.offset for row in found.topic_partitions}

    def generations(self) -> list[GroupValue]:
        """Every assignment that was ever written down for the group, read as any consumer reads the offsets topic."""
        return list(generations(self.bootstrap, self.group))


def generations(bootstrap: str, group: str) -> Iterator[GroupValue]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads-offsets", "enable.auto.commit": False})
    try:
        metadata = consumer.list_topics(OFFSETS, 30).topics[OFFSETS]
        at = TopicPartition(OFFSETS, partition_of(group, len(metadata.partitions)), 0)
        _, end = consumer.get_watermark_offsets(at, 30)
        consumer.assign([at])
        position = 0
        while position < end:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            position = (message.offset() or 0) + 1
            key, value = message.key(), message.value()
            if key is not None and value is not None and read_key(key) == GroupKey(group):
                yield read_group(value)
    finally:
        consumer.close()


def partitions_of(assignment: bytes) -> list[int]:
    """The partitions of Kafka's ConsumerProtocolAssignment, of all its topics."""
    found: list[int] = []
    if assignment:
        (topics,) = struct.unpack_from(">i", assignment, 2)
        at = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", assignment, at)
            at += 2 + size
            (count,) = struct.unpack_from(">i", assignment, at)
            found += struct.unpack_from(f">{count}i", assignment, at + 4)
            at += 4 + 4 * count
    return found


def assert_no_generation_gives_a_partition_to_two(found: list[GroupValue]) -> None:
    assert found
    for value in found:
        owned = [p for member in value.members for p in partitions_of(member.assignment)]
        assert len(owned) == len(set(owned)), f"generation {value.generation}: {value.members}"
    numbers = [value.generation for value in found]
    assert numbers == sorted(numbers)


class Writing:
    """Writes numbered records to all partitions, and knows how many were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topic, self._partitions = topic, partitions
        self.written: Counter[int] = Counter()

    def more(self, count: int) -> None:
        def acknowledged(error: object, message: object) -> None:
            assert error is None, error
            self.written[message.partition()] += 1  # type: ignore[attr-defined]

        for n in range(count):
            self._producer.produce(self._topic, b"%d" % n, partition=n % self._partitions, on_delivery=acknowledged)
            self._producer.poll(0)
        assert self._producer.flush(LONG_S) == 0
