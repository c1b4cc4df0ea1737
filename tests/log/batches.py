"""Batches to append, and ways to read a whole log back."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.batch import BatchHeader, check_batch
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record, decode_records
from kafka_classic.records.encode import encode_batch

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)
SMALL_CLASSIC = LogConfig(segment_bytes=2000, index_interval_bytes=200, classic=True)


def a_clock(now_ms: int = NOW_MS) -> Callable[[], float]:
    return lambda: now_ms / 1000


def batch(*values: bytes, timestamp: int = NOW_MS, codec: Codec = Codec.NONE, **header: int) -> bytearray:
    """One batch of these values, the timestamps one apart."""
    content: list[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]] = [
        (None, value, (), timestamp + i) for i, value in enumerate(values)
    ]
    return bytearray(encode_batch(content, codec, **header))  # type: ignore[arg-type]


def idempotent(*values: bytes, sequence: int, producer: int = 7, epoch: int = 0) -> bytearray:
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def header_of(data: bytearray) -> BatchHeader:
    return check_batch(data)


def fill(log: Log, count: int, *, start: int = 0, codec: Codec = Codec.NONE, epoch: int = 0) -> list[bytes]:
    """Append `count` batches of one to three numbered values, their timestamps rising; returns the values."""
    written = []
    for n in range(start, start + count):
        values = [b"value %d.%d" % (n, i) for i in range(n % 3 + 1)]
        log.append(batch(*values, timestamp=NOW_MS + 10 * n, codec=codec), epoch)
        written += values
    return written


def records(log: Log, start: int | None = None, max_bytes: int = 500, upto: int | None = None) -> list[Record]:
    """Read a log to its end as a consumer does, fetch by fetch; records below `start` in a batch are passed over."""
    offset = log.start_offset if start is None else start
    first, found = offset, []
    while (piece := log.read(offset, max_bytes, upto=upto)) is not None:
        data = piece.bytes()
        assert len(data) == piece.length
        batch_records = list(decode_records(data))
        assert piece.next_offset > offset
        offset = piece.next_offset
        found += batch_records
    return [record for record in found if record.offset >= first]


def first(log: Log, offset: int) -> Record:
    """The record that a consumer gets first which asks for this offset."""
    piece = log.read(offset, 1)
    assert piece is not None
    return next(record for record in decode_records(piece.bytes()) if record.offset >= offset)


def values(log: Log, start: int | None = None, max_bytes: int = 500) -> list[bytes | None]:
    return [record.value for record in records(log, start, max_bytes)]


def reopen(log: Log, *, clean: bool = False, recovery_point: int | None = None) -> Log:
    """Open the same folder again as after a crash, or after a clean close."""
    point = log.recovery_point if recovery_point is None else recovery_point
    return Log.open(log.dir, log.config, clean=clean, recovery_point=point, log_start=log.start_offset, clock=log.clock)


def names(folder: Path, suffix: str) -> Sequence[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(suffix))


def open_files() -> list[int]:
    """The files that this process has open."""
    return [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_file()]


def path_behind(fd: int) -> str:
    """The name of an open file, with `(deleted)` behind it if it has lost that."""
    return str(Path(f"/proc/self/fd/{fd}").readlink())
