"""A member of a group as a process: one of three clients, which writes down what it is handed and commits it.

python member.py KIND BOOTSTRAP GROUP TOPIC JOURNAL SESSION_MS ASSIGNOR [INSTANCE]

It ends by SIGTERM, in order, or by SIGKILL. Assignments are noted, and each record as it is handed out.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka_classic.testing.journal import Journal, What

PR_SET_PDEATHSIG = 1
stopped = False


def stop(*_: object) -> None:
    global stopped
    stopped = True


class Noted:
    """What any of the clients does with its assignment and its records."""

    def __init__(self, path: str) -> None:
        self._journal = Journal(Path(path))

    def assigned(self, partitions: Iterable[int]) -> None:
        self._journal.note(What.READY)
        for partition in partitions:
            self._journal.note(What.TOOK_OVER, partition)

    def handed(self, partition: int, offset: int) -> None:
        self._journal.note(What.HANDED, partition, offset)


def librdkafka(
    bootstrap: str, group: str, topic: str, noted: Noted, session_ms: int, assignor: str, instance: str | None
) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": session_ms // 6,
            "partition.assignment.strategy": assignor,
            "log_level": 2,
            **({"group.instance.id": instance} if instance else {}),
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, partitions: noted.assigned(p.partition for p in partitions))
    while not stopped:
        messages = [m for m in consumer.consume(200, 0.2) if m.error() is None]
        for message in messages:
            noted.handed(message.partition() or 0, message.offset() or 0)
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # a rebalance: what comes again was read before
    consumer.close()


def kafka_python(
    bootstrap: str, group: str, topic: str, noted: Noted, session_ms: int, assignor: str, instance: str | None
) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            noted.assigned(p.partition for p in assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 6,
        partition_assignment_strategy=[RangePartitionAssignor if assignor == "range" else RoundRobinPartitionAssignor],
        **({"group_instance_id": instance} if instance else {}),
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopped:
        found = consumer.poll(200)
        for partition, records in found.items():
            for record in records:
                noted.handed(partition.partition, record.offset)
        if found:
            try:
                consumer.commit()
            except KafkaError:
                pass
    consumer.close()


def aiokafka(
    bootstrap: str, group: str, topic: str, noted: Noted, session_ms: int, assignor: str, instance: str | None
) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic, noted, session_ms, assignor, instance))


async def _aiokafka(
    bootstrap: str, group: str, topic: str, noted: Noted, session_ms: int, assignor: str, instance: str | None
) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            noted.assigned(p.partition for p in assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 6,
        partition_assignment_strategy=[RangePartitionAssignor if assignor == "range" else RoundRobinPartitionAssignor],
        **({"group_instance_id": instance} if instance else {}),
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    try:
        while not stopped:
            found = await consumer.getmany(timeout_ms=200)
            for partition, records in found.items():
                for record in records:
                    noted.handed(partition.partition, record.offset)
            if found:
                try:
                    await consumer.commit()
                except KafkaError:
                    pass
    finally:
        await consumer.stop()


KINDS: dict[str, Callable[..., None]] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with the test, however that ends
    signal.signal(signal.SIGTERM, stop)
    kind, bootstrap, group, topic, journal, session_ms, assignor, *instance = sys.argv[1:]
    noted = Noted(journal)
    KINDS[kind](bootstrap, group, topic, noted, int(session_ms), assignor, instance[0] if instance else None)


if __name__ == "__main__":
    main()
