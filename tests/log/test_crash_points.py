"""A crash at every single change to the disk, in everything that a log does: what must survive survives."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.directory import LogDir
from kafka_classic.log.dump import verify
from kafka_classic.log.epochs import LeaderEpochs
from kafka_classic.log.log import Log
from kafka_classic.log.producers import ProducerState
from kafka_classic.records.batch import iter_batches
from tests.log.batches import NOW_MS, a_clock, batch, records
from tests.log.disk import Disk, Killed, Left

ID = UUID(int=1)
OTHER = UUID(int=2)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=-1)
History = dict[int, bytes | None]


@dataclass
class World:
    """A directory with one log, and what a reader of it may and must find after a crash."""

    path: Path
    disk: Disk
    config: LogConfig = CONFIG
    histories: list[History] = field(default_factory=list)  # what was written is one of these, or a part of it
    survives: int = 0  # below this nothing is lost to a kill
    flushed: int = 0  # below this nothing is lost to a loss of power
    start: int = 0  # the log may start here or before
    topics: set[UUID] = field(default_factory=lambda: {ID})
    directory: LogDir = field(init=False)
    log: Log = field(init=False)

    def open(self) -> Log:
        self.directory = LogDir(self.path, 1, "abc", clock=a_clock())
        self.directory.load()
        topic = self.directory.found.get(("t", 0)) or ID
        assert topic in self.topics
        self.log = self.directory.open("t", 0, topic, self.config)
        return self.log

    def write(self, count: int, epoch: int) -> None:
        """Append; each batch is in the history before it can be on the disk."""
        for _ in range(count):
            offset = self.log.end_offset
            value = b"%d in epoch %d" % (offset, epoch)
            self.histories[-1][offset] = value
            if offset % 3:
                one = batch(value, timestamp=NOW_MS + offset)
            else:
                one = batch(
                    value,
                    timestamp=NOW_MS + offset,
                    producer_id=7,
                    producer_epoch=epoch,
                    base_sequence=self.due(epoch),
                )
            self.log.append(one, epoch)
            self.survives = max(self.survives, self.log.end_offset)

    def due(self, epoch: int) -> int:
        producer = self.log.producers.producers.get(7)
        return 0 if producer is None or producer.epoch != epoch else producer.due

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.recovery_point


def appending(world: World) -> None:
    world.write(25, 4)
    world.flush()
    world.write(5, 5)


def flushing(world: World) -> None:
    world.flush()
    world.directory.checkpoint()


def retaining(world: World) -> None:
    world.log.config = replace(world.config, retention_bytes=1000)
    world.start = world.log.end_offset
    world.log.clean(NOW_MS / 1000)
    world.directory.checkpoint()
    world.write(10, 4)
    world.flush()


def retaining_nothing(world: World) -> None:
    world.log.config = replace(world.config, retention_bytes=0)
    world.start = world.log.end_offset
    world.log.clean(NOW_MS / 1000)
    world.write(10, 4)
    world.flush()
    world.directory.checkpoint()


def deleting_records(world: World) -> None:
    world.start = world.log.exposed_offset - 7
    world.log.advance_start_offset(world.start)
    world.directory.checkpoint()
    world.log.clean(NOW_MS / 1000)
    world.directory.checkpoint()


def truncating(world: World) -> None:
    cut = sorted(world.histories[0])[33]
    world.survives, world.flushed = cut, min(cut, world.flushed)
    world.histories.append({offset: value for offset, value in world.histories[0].items() if offset < cut})
    world.log.truncate_to(cut)
    world.directory.checkpoint()
    world.write(30, 6)
    world.flush()
    world.directory.checkpoint()


def truncating_fully(world: World) -> None:
    world.survives = world.flushed = 0
    world.start = 100_000
    world.histories.append({})
    world.log.truncate_fully_at(100_000)
    world.directory.checkpoint()
    world.write(10, 6)
    world.flush()


def closing(world: World) -> None:
    world.directory.close()
    world.flushed = world.survives
    world.open()
    world.write(10, 4)
    world.flush()
    world.write(3, 4)
    world.directory.close()
    world.flushed = world.survives


def recovering(world: World) -> None:
    with world.log.segments[-1].path.open("ab") as file:
        file.write(bytes(batch(b"torn", base_offset=world.log.end_offset))[:-1] + b"?")
    world.directory._unlock()
    world.open()
    world.flushed = world.survives
    world.write(10, 4)
    world.flush()
    world.directory.checkpoint()


def replacing(world: World) -> None:
    """The topic is deleted, and one of its name is made."""
    world.log.advance_start_offset(world.log.exposed_offset - 3)
    world.start = world.log.exposed_offset - 3
    world.directory.checkpoint()
    world.survives = world.flushed = 0
    world.topics.add(OTHER)
    world.histories.append({})
    world.directory.drop("t", 0)
    world.log = world.directory.open("t", 0, OTHER, world.config)
    world.start = max(world.start, world.log.end_offset)
    world.write(20, 1)
    world.flush()
    world.directory.checkpoint()


def setting_aside(world: World) -> None:
    world.survives = world.flushed = 0
    world.histories.append({})
    world.directory.set_aside("t", 0)
    world.topics.add(OTHER)
    world.log = world.directory.open("t", 0, OTHER, world.config)
    world.write(20, 1)
    world.flush()


DEEDS: list[Callable[[World], None]] = [
    appending,
    flushing,
    retaining,
    retaining_nothing,
    deleting_records,
    truncating,
    truncating_fully,
    closing,
    recovering,
    replacing,
    setting_aside,
]


def a_world(path: Path, disk: Disk, config: LogConfig) -> World:
    world = World(path, disk, config, histories=[{}])
    world.open()
    world.write(20, 1)
    world.flush()
    world.write(20, 3)
    world.flush()
    world.directory.checkpoint()
    world.write(20, 3)
    return world


every = pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
however = pytest.mark.parametrize("left", list(Left), ids=lambda left: left.value)


@however
@every
def test_a_crash_at_some_changes_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[World], None], left: Left
) -> None:
    first = 1 + DEEDS.index(deed) + 5 * list(Left).index(left)
    crash(tmp_path, monkeypatch, deed, left, CONFIG, range(first, 2000, 17))


@pytest.mark.soak
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, classic=True)], ids=["ordinary", "classic"])
@however
@every
def test_a_crash_at_any_change_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[World], None], left: Left, config: LogConfig
) -> None:
    crash(tmp_path, monkeypatch, deed, left, config, range(1, 2000))


def crash(
    path: Path, patch: pytest.MonkeyPatch, deed: Callable[[World], None], left: Left, config: LogConfig, numbers: range
) -> None:
    """Do the deed again and again, each time to die at another change, until it is done before it dies."""
    disk = Disk(patch)
    for number in numbers:
        world = a_world(path / str(number), disk, config)
        disk.dies_at = number
        died = False
        try:
            deed(world)
        except Killed:
            died = True
        if world.directory._lock >= 0:
            world.directory._unlock()
        disk.settle(world.path, left)
        check(world, left)
        shutil.rmtree(world.path)
        if not died:
            return
    raise AssertionError("it never ends")


def part(history: History, log: Log) -> History:
    return {offset: value for offset, value in history.items() if log.start_offset <= offset < log.end_offset}


def check(world: World, left: Left) -> None:
    """What is found after a crash is what was written, up to an end and from a start that are allowed."""
    log = world.open()
    found = {record.offset: record.value for record in records(log)}
    context = (log, world)
    assert any(found == part(history, log) for history in world.histories), context
    assert log.end_offset >= (world.survives if left is Left.KILLED else world.flushed), context
    assert log.start_offset <= world.start, context
    producers, epochs = ProducerState(log.config.classic), LeaderEpochs()
    for segment in log.segments:
        data = segment.path.read_bytes()
        for _, header in iter_batches(data):
            epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id != -1:
                producers.add(header, header.base_offset)
    known = log.producers.producers.get(7)
    seen = producers.producers.get(7)
    if seen is not None:
        assert known is not None, context
        assert (known.epoch, known.due, list(known.batches)[-len(seen.batches) :]) == (
            seen.epoch,
            seen.due,
            list(seen.batches),
        ), context
    if found:
        epochs.cut_start(log.start_offset)
        assert (log.epochs.epochs, log.epochs.starts) == (epochs.epochs, epochs.starts), context
    # It goes on, stops cleanly, and is the same afterwards.
    world.histories = [found]
    world.write(3, 9)
    world.directory.close()
    again = world.open()
    assert world.directory.clean
    assert {record.offset: record.value for record in records(again)} == found
    assert len(found) >= 3
    for segment in again.segments:
        assert verify(segment.path) == [], context
    world.directory.close()
