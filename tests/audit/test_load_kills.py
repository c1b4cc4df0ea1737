"""A loader that is killed with -9 again and again, anywhere, loads each record once (P26).

Each life is a JVM, some ten seconds on a machine at rest: so most kills of the short form are of Python workers, which
Spark starts anew; `make soak` kills whole loaders, driver and JVM at once, as often.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_classic import Producer
from kafka_classic.client.cluster import Cluster
from tests.audit.loader import Loader, loaded, numbered
from tests.audit.topics import new_topic

PARTITIONS = 2


class Feeder:
    """Writes numbered records until it is stopped, and knows what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, topic), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str, topic: str) -> None:
        with Producer(bootstrap) as producer:
            while not self._stop.wait(0.02):
                for partition in range(PARTITIONS):
                    producer.send(topic, b"%08d" % self.count, partition=partition)
                self.count += 1

    def stop(self) -> set[tuple[int, int, bytes]]:
        """Return the records that must be in the warehouse: all of them are acknowledged."""
        self._stop.set()
        self._thread.join()
        return {
            (partition, number, b"%08d" % number) for partition in range(PARTITIONS) for number in range(self.count)
        }


class Lives:
    """Loaders one after the other on one folder, while records keep coming."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.folder = folder / "warehouse"
        self.log = folder / "loader.log"
        self.kills = 0
        self.between = 0
        self.loader: Loader | None = None

    @property
    def sink(self) -> Path:
        return self.folder / "_spark_metadata"

    @property
    def commits(self) -> Path:
        return self.folder / "_checkpoint" / "commits"

    def begin(self, *arguments: str) -> Loader:
        self.loader = Loader(self.bootstrap, self.topic, self.folder, self.log, *(arguments or ("--every", "100ms")))
        return self.loader

    def kill(self, when: Callable[[], bool], what: str) -> None:
        assert self.loader is not None
        self.loader.until(when, what)
        self.loader.kill()
        self.kills += 1

    def grows(self, log: Path, by: int = 1) -> Callable[[], bool]:
        """Whether a log has so many batches more than now."""
        before = max(numbered(log), default=-1)
        return lambda: max(numbered(log), default=-1) >= before + by

    def kill_between_the_commits(self) -> None:
        """After a batch counts for the sink, before the checkpoint knows. Whoever watches for that may be late: what
        was written in the moment between is then taken away, which leaves just what a kill in time would have left."""
        self.kill(self.grows(self.sink), "a commit of the sink")
        last = max(numbered(self.sink))
        for path in (self.commits / str(last), self.commits / f".{last}.crc"):
            path.unlink(missing_ok=True)
        assert last in numbered(self.folder / "_checkpoint" / "offsets")
        self.between += 1

    def kill_workers(self) -> None:
        assert self.loader is not None
        self.loader.until(lambda: bool(self.loader and self.loader.workers()), "a Python worker")
        self.loader.kill_workers()
        self.kills += 1
        # It must come to another commit before it counts as survived.
        self.loader.until(self.grows(self.sink), "a commit after a worker was killed")


@pytest.fixture
def lives(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Lives]:
    with Cluster(kafka_bootstrap) as cluster:
        topic = new_topic(cluster, PARTITIONS)
    made = Lives(kafka_bootstrap, topic, tmp_path)
    yield made
    if made.loader is not None:
        made.loader.kill()


def finish(lives: Lives, expected: set[tuple[int, int, bytes]]) -> None:
    assert lives.begin("--once").ended() == 0, lives.log.read_text()[-3000:]
    found = loaded(lives.folder)
    assert {record: times for record, times in found.items() if times != 1} == {}
    assert found.keys() == expected


@pytest.mark.timeout(1500)
def test_ten_kills_of_workers_and_of_whole_loaders_leave_each_record_once(lives: Lives) -> None:
    feeder = Feeder(lives.bootstrap, lives.topic)
    loader = lives.begin()
    loader.until(lives.grows(lives.sink), "a first commit")
    for _ in range(7):
        lives.kill_workers()
    lives.kill_between_the_commits()
    lives.begin()
    lives.kill(lives.grows(lives.folder / "_checkpoint" / "offsets"), "a batch that is logged and not yet done")
    lives.begin()
    lives.kill_between_the_commits()
    finish(lives, feeder.stop())
    assert (lives.kills, lives.between) == (10, 2)


@pytest.mark.soak
def test_loaders_that_are_killed_at_random_leave_each_record_once(lives: Lives) -> None:
    seed = int(os.environ.get("KAFKA_CLASSIC_FAULT_SEED", random.randrange(1 << 30)))
    print(f"KAFKA_CLASSIC_FAULT_SEED={seed}")
    rng = random.Random(seed)
    feeder = Feeder(lives.bootstrap, lives.topic)
    for number in range(int(os.environ.get("KAFKA_CLASSIC_FAULTS", "12"))):
        lives.begin()
        for _ in range(rng.randrange(3)):
            lives.kill_workers()
        match number % 3:
            case 0:
                lives.kill_between_the_commits()
            case 1:
                lives.kill(lives.grows(lives.folder / "_checkpoint" / "offsets", rng.randint(1, 4)), "a logged batch")
            case _:
                lives.kill(lives.grows(lives.commits, rng.randint(1, 4)), "a batch that is done")
    finish(lives, feeder.stop())
    assert lives.kills >= 10
