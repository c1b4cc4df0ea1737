"""A disk that is full or broken: the log goes offline, keeps what was committed, and a restart brings it back."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import StorageError
from kafka_classic.log.log import Log
from tests.log.batches import SMALL, SMALL_CLASSIC, a_clock, batch, fill, header_of, idempotent, records, reopen, values


class FullDisk:
    """A pwritev that takes so many bytes in all, then fails as a full disk does: part of a write may succeed."""

    def __init__(self, room: int, code: int = errno.ENOSPC) -> None:
        self.room = room
        self.code = code
        self.write = os.pwritev

    def __call__(self, fd: int, pieces: list[memoryview], position: int) -> int:
        if self.room <= 0:
            raise OSError(self.code, os.strerror(self.code))
        data = b"".join(pieces)[: self.room]
        self.room -= len(data)
        return self.write(fd, [data], position)


def broker_turns(log: Log, committed: list[bytes]) -> None:
    """Stage several batches, commit them, and so on until the log fails; `committed` gets what was committed."""
    for n in range(200):
        staged = [(b"%d.%d" % (n, i), bytes(100)) for i in range(4)]
        for values_ in staged:
            one = batch(*values_)
            log.stage(one, header_of(one), 0)
        log.commit()
        committed += [value for values_ in staged for value in values_]


@pytest.mark.parametrize("config", [SMALL, SMALL_CLASSIC])
def test_wherever_the_disk_fills_up_nothing_committed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: LogConfig
) -> None:
    for room in range(0, 9000, 131):
        log = Log.open(tmp_path / f"t-{room}", config, clock=a_clock())
        disk = FullDisk(room)
        monkeypatch.setattr(os, "pwritev", disk)
        committed: list[bytes] = []
        with pytest.raises(StorageError) as full:
            broker_turns(log, committed)
        monkeypatch.setattr(os, "pwritev", disk.write)
        assert full.value.errno == errno.ENOSPC
        assert "free space on its disk, then restart the broker" in str(full.value)
        end = log.end_offset
        assert sum(path.stat().st_size for path in log.dir.glob("*.log")) == log.size
        with pytest.raises(StorageError, match="offline"):
            log.append(batch(b"x"))
        with pytest.raises(StorageError, match="offline"):
            log.read(0, 100)
        with pytest.raises(StorageError, match="offline"):
            log.commit()
        log.close()
        again = reopen(log, recovery_point=0)
        assert [r.value for r in records(again, max_bytes=100_000)] == committed
        assert again.end_offset == end
        again.append(batch(b"there is room again"))


def test_a_big_batch_that_does_not_fit_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    log.append(batch(b"before"))
    size = log.size
    disk = FullDisk(150_000, errno.EIO)
    monkeypatch.setattr(os, "pwritev", disk)
    big = batch(bytes(200_000))
    with pytest.raises(StorageError, match="check its disk, then restart the broker"):
        log.stage(big, header_of(big), 0)
    assert log.segments[0].path.stat().st_size == size
    with pytest.raises(StorageError):
        log.commit()


def test_a_duplicate_of_a_batch_that_was_never_written_is_not_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(), clock=a_clock())
    log.append(idempotent(b"a", sequence=0))
    disk = FullDisk(0)
    monkeypatch.setattr(os, "pwritev", disk)
    with pytest.raises(StorageError):
        log.append(idempotent(b"b", sequence=1))
    monkeypatch.setattr(os, "pwritev", disk.write)
    log.close()
    again = reopen(log)
    assert again.append(idempotent(b"b", sequence=1)) == 1
    assert values(again) == [b"a", b"b"]


@pytest.mark.parametrize("call", ["open", "replace", "pwritev", "ftruncate", "unlink"])
def test_any_failing_call_gives_a_storage_error_or_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Each call fails once, the first, the second … time it is made; what was committed is there after a restart."""
    for nth in range(1, 40, 3):
        log = Log.open(tmp_path / f"t-{call}-{nth}", SMALL, clock=a_clock())
        committed = fill(log, 15)
        real = getattr(os, call)
        left = [nth]

        def fails(*args: object, real: object = real, left: list[int] = left, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.EIO, "Input/output error")
            return real(*args, **kwargs)  # type: ignore[operator]

        monkeypatch.setattr(os, call, fails)
        try:
            for n in range(15, 60):
                committed += fill(log, 1, start=n)
            log.truncate_to(log.end_offset - 5)
            monkeypatch.setattr(os, call, real)
            if log.failed is None:
                committed = committed[: log.end_offset]
        except StorageError:
            monkeypatch.setattr(os, call, real)
            with pytest.raises(StorageError):
                log.read(0, 100)
        again = reopen(log, recovery_point=0)
        got = values(again)
        assert got == committed[: len(got)]
        assert len(got) >= len(committed) - 8  # a truncation may or may not have been done


def test_a_file_that_is_gone_takes_the_log_offline_when_it_is_read(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    fill(log, 100)
    log.close()
    again = reopen(log, clean=True)
    again.segments[1].path.unlink()
    with pytest.raises(StorageError, match="check its disk"):
        values(again)
    assert again.failed is not None


def test_too_many_open_files_is_no_fault_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(tmp_path / "t-0", SMALL, clock=a_clock())
    written = fill(log, 100)
    log.close()
    again = reopen(log, clean=True)
    real = os.open

    def refused(*args: object, **kwargs: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StorageError, match="ulimit -n"):
        again.read(0, 100)
    monkeypatch.setattr(os, "open", real)
    assert again.failed is None
    assert values(again) == written


LIMITED = """
import resource, sys
from pathlib import Path
from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import StorageError
from kafka_classic.log.log import Log
from kafka_classic.records.encode import encode_batch
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
log = Log.open(Path(sys.argv[1]), LogConfig())
try:
    while True:
        log.append(encode_batch([(None, b"%d" % log.end_offset, (), 0)]))
except StorageError as error:
    print(log.end_offset, error.errno, log.size, log.failed is not None)
"""


def test_a_real_limit_of_the_file_size_is_met_as_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIMITED, str(tmp_path / "t-0")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    end, code, size, failed = done.stdout.split()
    assert int(code) == errno.EFBIG
    assert failed == "True"
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == int(size) <= 10_000
    again = Log.open(tmp_path / "t-0", LogConfig())
    assert values(again) == [b"%d" % n for n in range(int(end))]
