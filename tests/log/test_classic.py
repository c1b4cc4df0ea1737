"""Classic logs: an offset is a byte position (P6), nothing is exposed before its flush (P5), there is no index file."""

from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.batch import check_batch, iter_batches, seal
from kafka_classic.records.codecs import Codec
from tests.log.batches import NOW_MS, SMALL_CLASSIC, a_clock, batch, fill, header_of, names, records, reopen, values

CLASSIC = LogConfig(classic=True)


def test_the_next_offset_is_this_one_plus_the_length(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", CLASSIC)
    offset = 0
    for n in range(20):
        one = batch(bytes(n), b"x" * (n % 4))
        assert log.append(one) == offset
        offset += len(one)
    assert log.end_offset == log.size == offset


@pytest.mark.parametrize("codec", list(Codec))
def test_each_stored_batch_says_its_position_and_length_and_has_a_right_crc(tmp_path: Path, codec: Codec) -> None:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    fill(log, 50, codec=codec)
    for segment in log.segments:
        stored = segment.path.read_bytes()
        for at, header in iter_batches(stored):
            check_batch(stored, at)
            assert header.base_offset == segment.base + at
            assert header.next_offset == segment.base + at + header.size


def test_a_batch_that_our_producer_sealed_for_a_classic_log_is_stored_as_it_is(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", CLASSIC)
    one = batch(b"a", b"b")
    seal(one, last_offset_delta=len(one) - 1)
    log.append(one)
    assert log.segments[0].path.read_bytes()[16:] == one[16:]


def test_a_message_is_exposed_only_once_it_is_flushed(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", CLASSIC)
    log.append(batch(b"a"))
    assert log.exposed_offset == 0 < log.end_offset
    assert log.read(0, 1000) is None
    assert log.read(log.end_offset, 1000) is None
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    job = log.begin_flush()
    end = log.end_offset
    log.append(batch(b"b"))
    job.run()
    assert log.read(0, 1000) is None
    log.end_flush(job)
    assert log.exposed_offset == end < log.end_offset
    assert values(log) == [b"a"]
    log.flush()
    assert values(log) == [b"a", b"b"]


def test_flush_messages_counts_messages_not_bytes(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(classic=True, flush_messages=5), clock=a_clock())
    log.append(batch(b"a", b"b"))
    log.append(batch(b"c", b"d"))
    assert not log.needs_flush(NOW_MS / 1000)
    log.append(batch(b"e"))
    assert log.needs_flush(NOW_MS / 1000)
    log.flush()
    assert not log.needs_flush(NOW_MS / 1000)


def test_there_are_no_index_files(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    fill(log, 100)
    log.close()
    assert len(names(log.dir, ".log")) > 3
    assert names(log.dir, "index") == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_an_offset_inside_a_batch_leads_to_its_start(tmp_path: Path, codec: Codec) -> None:
    log = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    fill(log, 60, codec=codec)
    log.close()
    for clean in (True, False):
        again = reopen(log, clean=clean)
        spans = [(h[0], h[0] + h[6]) for s in again.segments for _, h in s.batches(0)]
        for first, last in spans:
            for offset in (first, first + 1, (first + last) // 2, last):
                piece = again.read(offset, 1)
                assert piece is not None
                assert header_of(bytearray(piece.bytes())).base_offset == first
        again.close()


def test_a_batch_that_carries_another_as_its_value_is_not_taken_for_two(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", CLASSIC)
    inner = batch(b"inner")
    for n in range(5):
        log.append(batch(b"n%d" % n, bytes(inner)))
    log.flush()
    everything = records(log)
    for offset in range(log.end_offset):
        first = records(log, offset, 1)
        assert all(r in everything for r in first)


def test_a_classic_follower_takes_only_batches_that_are_where_they_belong(tmp_path: Path) -> None:
    leader = Log.open(tmp_path / "t-0", SMALL_CLASSIC, clock=a_clock())
    written = fill(leader, 40)
    leader.flush()
    follower = Log.open(tmp_path / "t-1", SMALL_CLASSIC, clock=a_clock())
    while (piece := leader.read(follower.end_offset, 700)) is not None:
        follower.append_as_follower(piece.bytes())
    follower.flush()
    assert values(follower) == written
    assert [s.base for s in follower.segments] == [s.base for s in leader.segments]
    with pytest.raises(ValueError, match="is not the position"):
        follower.append_as_follower(batch(b"x", base_offset=follower.end_offset + 5))
    with pytest.raises(ValueError, match="is not the position"):
        follower.append_as_follower(batch(b"x", base_offset=follower.end_offset))
