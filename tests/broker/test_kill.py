"""kill -9 under load, again and again: nothing acknowledged is lost, nothing wrong served, and it starts by itself."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.broker.raw import Raw, batch, fetch, produce_frame, produced

SETTINGS = {
    "log.segment.bytes": "100000",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.index.interval.bytes": "500",
}
# topic -> its settings; each has one partition and one writer
TOPICS = {
    "plain": {},
    "flushed": {"flush.messages": "50"},
    "classic": {"classic": "true", "flush.ms": "20"},
}


class Writer(threading.Thread):
    """Sends numbered batches, ten at a time in flight, and notes each that was acknowledged."""

    def __init__(self, address: str, topic: str, first: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._topic = topic
        self._rng = random.Random(seed)
        self.number = first
        self.acknowledged: list[tuple[int, int, int]] = []  # base offset, first number, how many

    def run(self) -> None:
        flying: deque[tuple[int, int]] = deque()
        try:
            with Raw(self._address) as raw:
                while True:
                    while len(flying) < 10:
                        count = self._rng.choice((1, 1, 3, 20))
                        values = [b"%d " % n + b"x" * self._rng.randrange(300) for n in self._next(count)]
                        flying.append((self.number - count, count))
                        raw.send(produce_frame(self._topic, batch(*values)))
                    error, offset = produced(raw, self._topic)
                    assert error == 0
                    self.acknowledged.append((offset, *flying.popleft()))
        except OSError:
            pass  # the broker is gone

    def _next(self, count: int) -> range:
        numbers = range(self.number, self.number + count)
        self.number += count
        return numbers


def read_all(address: str, topic: str, since: int) -> dict[int, int]:
    """offset -> number of every record from `since` to the high watermark; CRCs and order are checked."""
    found: dict[int, int] = {}
    with Raw(address) as raw:
        at = since
        while True:
            error, high_watermark, records = fetch(raw, topic, at)
            assert error == 0
            for record in decode_records(records):
                if record.offset < at:
                    continue  # the first batch may begin earlier
                assert record.value is not None
                found[record.offset] = int(record.value.split(b" ")[0])
            if not records:
                assert at == high_watermark
                break
            from kafka_classic.records.batch import iter_batches

            at = max(header.next_offset for _, header in iter_batches(records))
    assert list(found) == sorted(found)
    assert list(found.values()) == sorted(set(found.values())), "a record is served twice or out of order"
    return found


def check(address: str, topic: str, writer: Writer, since: int) -> int:
    """Every acknowledged record is there at the offset that was acknowledged; returns where the log ends."""
    found = read_all(address, topic, since)
    by_number = {number: offset for offset, number in found.items()}
    for offset, first, count in writer.acknowledged:
        assert by_number.get(first) == offset, f"{topic}: {first} was acknowledged at {offset}"
        for number in range(first, first + count):
            assert number in by_number, f"{topic}: {number} was acknowledged and is lost"
    return max(found, default=since - 1) + 1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, settings=SETTINGS) as cluster:
        with Cluster(cluster.bootstrap) as client:
            create_topics(client, [NewTopic(name, configs=configs) for name, configs in TOPICS.items()])
        yield cluster


def run(cluster: LocalCluster, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    broker = cluster.brokers[0]
    numbers = dict.fromkeys(TOPICS, 0)
    ends = dict.fromkeys(TOPICS, 0)
    total = 0
    for kill in range(kills):
        writers = {name: Writer(broker.address, name, numbers[name], seed + kill) for name in TOPICS}
        for writer in writers.values():
            writer.start()
        # The instant of the kill: after a random number of acknowledgements, whatever is in flight then.
        enough = rng.randrange(1, 400)
        until(lambda w=writers, n=enough: sum(len(x.acknowledged) for x in w.values()) >= n)  # type: ignore[misc]
        broker.kill()
        for writer in writers.values():
            writer.join(60)
        broker.start()
        broker.wait_ready(60)
        for name, writer in writers.items():
            numbers[name] = writer.number
            total += len(writer.acknowledged)
            ends[name] = check(broker.address, name, writer, ends[name])
    assert total > kills
    for name in TOPICS:
        assert len(read_all(broker.address, name, 0)) > 0


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(cluster: LocalCluster) -> None:
    run(cluster, kills=4, seed=11)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_in_sixty_kills(cluster: LocalCluster) -> None:
    run(cluster, kills=60, seed=23)
