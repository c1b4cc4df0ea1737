"""kill -9 at any instant, and the loss of power after it: nothing acknowledged is lost, nothing wrong is served."""

import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_classic.log.log import Log
from tests.log import writer
from tests.log.batches import records


@dataclass
class Life:
    """What is known of a log over several lives of its writer."""

    folder: Path
    classic: bool
    acknowledged: int = -1
    flushed: int = 0
    point: int = 0

    def run_and_kill(self, rng: random.Random, start: int) -> None:
        """Let a writer run until it has said a random number of bytes, then kill it at once."""
        arguments = [str(self.folder), rng.randrange(1 << 30), self.point, start, int(self.classic)]
        process = subprocess.Popen(
            [sys.executable, "-P", writer.__file__, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.read(rng.randrange(1, 3000))
        process.send_signal(signal.SIGKILL)
        said += process.stdout.read()
        complaint = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        assert process.wait(60) == -signal.SIGKILL, complaint.decode()
        for line in said.split(b"\n")[:-1]:
            kind, *numbers = line.split()
            if kind == b"a":
                self.acknowledged = int(numbers[0])
            else:
                self.flushed = self.point = int(numbers[0])

    def open(self, folder: Path | None = None) -> Log:
        return Log.open(folder or self.folder, writer.config_of(self.classic), recovery_point=self.point)


def numbers(log: Log) -> list[int]:
    """The numbers of all records, each with the value that belongs to it, in order and without a gap."""
    found = []
    for record in records(log, max_bytes=200_000):
        assert record.value is not None
        number = int(record.value.split(b":", 1)[0])
        assert record.value == writer.value_of(number)
        found.append(number)
    assert found == list(range(len(found)))
    return found


def cut_power(log_folder: Path, flushed: int, rng: random.Random) -> None:
    """Do to the files what the loss of power may do: of what was not flushed anything may be gone, or be zeros."""
    bases = sorted(int(path.stem) for path in log_folder.glob("*.log"))
    for number, base in enumerate(bases):
        path = log_folder / f"{base:020d}.log"
        whole = number + 1 < len(bases) and bases[number + 1] <= flushed
        if whole:
            continue
        for suffix in (".index", ".timeindex", ".snapshot"):
            other = path.with_suffix(suffix)
            if other.exists() and rng.random() < 0.5:
                other.write_bytes(other.read_bytes()[: rng.randrange(other.stat().st_size + 1)])
        data = path.read_bytes()
        safe = _position_of(data, flushed) if base < flushed else 0
        length = rng.randrange(safe, len(data) + 1)
        how = rng.choice(["cut", "zeros", "garbage", "kept"])
        if how == "cut":
            path.write_bytes(data[:length])
        elif how == "zeros":
            path.write_bytes(data[:length] + bytes(len(data) - length))
        elif how == "garbage":
            path.write_bytes(data[:length] + rng.randbytes(len(data) - length))


def _position_of(data: bytes, offset: int) -> int:
    position = 0
    while position + 61 <= len(data) and int.from_bytes(data[position : position + 8], "big") < offset:
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return position


def survive(tmp_path: Path, classic: bool, kills: int, seed: int) -> None:
    """One log is killed so many times, and each time its copy loses power too."""
    rng = random.Random(seed)
    life = Life(tmp_path / "t-0", classic)
    start = 0
    for kill in range(kills):
        life.run_and_kill(rng, start)
        lost = tmp_path / f"without-power-{kill}"
        if life.folder.exists():
            shutil.copytree(life.folder, lost)
            cut_power(lost, life.flushed, rng)
            rescued = life.open(lost)
            assert rescued.end_offset >= life.flushed
            numbers(rescued)
            rescued.close()
            shutil.rmtree(lost)
        log = life.open()
        found = numbers(log)
        assert len(found) > life.acknowledged
        life.point = life.flushed = log.recovery_point
        start = len(found)
        if rng.random() < 0.3:
            log.close()
    assert start > 0


@pytest.mark.parametrize("classic", [False, True], ids=["ordinary", "classic"])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, classic: bool) -> None:
    survive(tmp_path, classic, kills=4, seed=2011)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("classic", [False, True], ids=["ordinary", "classic"])
def test_nothing_acknowledged_is_lost_by_sixty_kills(tmp_path: Path, classic: bool, seed: int) -> None:
    survive(tmp_path, classic, kills=6, seed=seed)
