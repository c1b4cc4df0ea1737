"""Logs of records with keys, and what is left of them: the last of each key, at the offset that it always had."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record
from kafka_classic.records.encode import encode_batch
from tests.log.batches import NOW_MS, a_clock, records

COMPACT = LogConfig(
    segment_bytes=3000, index_interval_bytes=150, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0
)
NOW = NOW_MS / 1000
Row = tuple[bytes | None, bytes | None]


def keyed(rows: Iterable[Row], codec: Codec = Codec.NONE, timestamp: int = NOW_MS, **header: int) -> bytearray:
    """One batch of these keys and values."""
    content = [(key, value, (), timestamp + n) for n, (key, value) in enumerate(rows)]
    return bytearray(encode_batch(content, codec, **header))  # type: ignore[arg-type]


def a_log(folder: Path, config: LogConfig = COMPACT) -> Log:
    return Log.open(folder / "t-0", config, clock=a_clock())


def closed(log: Log) -> Log:
    """All that was written is in closed segments and on the disk: it may be compacted."""
    log.roll()
    log.flush()
    return log


def last_of_each(found: Iterable[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in found}


def expected(before: Sequence[Record], upto: int) -> list[Record]:
    """What compaction up to an offset leaves, tombstones included."""
    last = {record.key: record.offset for record in before if record.offset < upto}
    return [r for r in before if r.offset >= upto or (r.key is not None and last[r.key] == r.offset)]


def check_whole(log: Log) -> None:
    """Between segments no offset is missing, and what memory says of each is what its file says."""
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        assert segment.next_offset == following.base
    for segment in log.segments:
        assert segment.path.stat().st_size == segment.size
        end = segment.base
        for _, header in segment.batches(0):
            assert header[0] >= end
            end = header[0] + header[6] + 1
        assert end == segment.next_offset
    assert len(records(log)) >= 0
