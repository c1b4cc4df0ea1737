"""Idempotent producers: duplicates, order, epochs, wrap-around, snapshots, and all of it after a restart."""

from pathlib import Path

import pytest

from kafka_classic.log.config import LogConfig
from kafka_classic.log.errors import DuplicateSequence, InvalidProducerEpoch, OutOfOrderSequence
from kafka_classic.log.log import Log
from kafka_classic.log.producers import ProducerState
from tests.log.batches import NOW_MS, SMALL, SMALL_CLASSIC, a_clock, batch, header_of, idempotent, names, reopen, values


@pytest.fixture(params=["ordinary", "classic"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log.open(tmp_path / "t-0", SMALL if request.param == "ordinary" else SMALL_CLASSIC, clock=a_clock())


def test_each_batch_goes_on_where_the_last_one_ended(log: Log) -> None:
    log.append(idempotent(b"a", b"b", sequence=0))
    log.append(idempotent(b"c", sequence=2))
    for wrong in (4, 5, 100):
        with pytest.raises(OutOfOrderSequence, match="where 3 is due"):
            log.append(idempotent(b"x", sequence=wrong))
    log.append(idempotent(b"d", sequence=3))
    log.flush()
    assert values(log) == [b"a", b"b", b"c", b"d"]


def test_any_of_the_last_five_batches_is_known_again(log: Log) -> None:
    offsets = [log.append(idempotent(b"%d" % n, b"more", sequence=2 * n)) for n in range(7)]
    end = log.end_offset
    for n in (2, 3, 4, 5, 6):
        with pytest.raises(DuplicateSequence) as duplicate:
            log.append(idempotent(b"%d" % n, b"more", sequence=2 * n))
        assert duplicate.value.base_offset == offsets[n]
        assert duplicate.value.log_append_time == NOW_MS + 1
    with pytest.raises(OutOfOrderSequence):  # older ones are not remembered
        log.append(idempotent(b"1", b"more", sequence=2))
    assert log.end_offset == end


def test_a_duplicate_is_known_before_its_first_is_committed(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig())
    first, again = idempotent(b"a", sequence=0), idempotent(b"a", sequence=0)
    log.stage(first, header_of(first), 0)
    with pytest.raises(DuplicateSequence):
        log.stage(again, header_of(again), 0)
    log.commit()
    assert values(log) == [b"a"]


def test_of_an_unknown_producer_any_first_sequence_is_taken(log: Log) -> None:
    log.append(idempotent(b"a", sequence=41, epoch=3))
    log.append(idempotent(b"b", sequence=42, epoch=3))
    with pytest.raises(OutOfOrderSequence):
        log.append(idempotent(b"c", sequence=0, epoch=3))


def test_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero(log: Log) -> None:
    log.append(idempotent(b"a", sequence=0, epoch=1))
    with pytest.raises(InvalidProducerEpoch, match="another instance took over"):
        log.append(idempotent(b"b", sequence=1, epoch=0))
    with pytest.raises(OutOfOrderSequence):
        log.append(idempotent(b"b", sequence=1, epoch=2))
    log.append(idempotent(b"b", sequence=0, epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        log.append(idempotent(b"c", sequence=1, epoch=1))


def test_after_the_largest_sequence_comes_zero(log: Log) -> None:
    top = 2**31 - 1
    offset = log.append(idempotent(b"a", b"b", b"c", sequence=top - 1))  # top - 1, top, 0
    log.append(idempotent(b"d", sequence=1))
    with pytest.raises(DuplicateSequence) as duplicate:
        log.append(idempotent(b"a", b"b", b"c", sequence=top - 1))
    assert duplicate.value.base_offset == offset
    exact = idempotent(b"e", sequence=top, producer=8)
    log.append(exact)
    log.append(idempotent(b"f", sequence=0, producer=8))


def test_producers_do_not_mind_each_other(log: Log) -> None:
    for producer in (1, 2, 3):
        log.append(idempotent(b"a", sequence=0, producer=producer))
    for producer in (3, 1, 2):
        log.append(idempotent(b"b", sequence=1, producer=producer))
    log.append(batch(b"no producer id"))


@pytest.mark.parametrize("how", ["crash", "clean", "no snapshots", "torn snapshot"])
def test_all_is_known_after_a_restart(log: Log, how: str) -> None:
    offsets = [log.append(idempotent(b"%d" % n, bytes(50), sequence=2 * n)) for n in range(40)]
    assert len(log.segments) > 2
    if how == "clean":
        log.close()
    for path in log.dir.glob("*.snapshot"):
        if how == "no snapshots":
            path.unlink()
        elif how == "torn snapshot":
            path.write_bytes(path.read_bytes()[:-3])
    again = reopen(log, clean=how == "clean", recovery_point=log.end_offset)
    for n in range(35, 40):
        with pytest.raises(DuplicateSequence) as duplicate:
            again.append(idempotent(b"%d" % n, bytes(50), sequence=2 * n))
        assert duplicate.value.base_offset == offsets[n]
    with pytest.raises(OutOfOrderSequence):
        again.append(idempotent(b"x", sequence=81))
    again.append(idempotent(b"x", sequence=80))


def test_a_snapshot_stands_at_each_segment_and_at_the_end_and_nowhere_else(log: Log) -> None:
    for n in range(40):
        log.append(idempotent(bytes(90), sequence=n))
    log.close()
    again = reopen(log, clean=True)
    for n in range(40, 80):
        again.append(idempotent(bytes(90), sequence=n))
    again.close()
    bases = {segment.base for segment in again.segments}
    snapshots = {int(name[:20]) for name in names(log.dir, ".snapshot")}
    assert snapshots <= bases | {again.end_offset}
    assert again.end_offset in snapshots


def test_a_producer_that_is_silent_for_long_is_forgotten(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(producer_id_expiration_ms=1000), clock=a_clock())
    log.append(idempotent(b"a", sequence=0))
    log.clean(NOW_MS / 1000 + 0.9)
    with pytest.raises(OutOfOrderSequence):
        log.append(idempotent(b"b", sequence=5))
    log.clean(NOW_MS / 1000 + 1.8)  # silent since it was first found so, 0.9 s ago
    with pytest.raises(OutOfOrderSequence):
        log.append(idempotent(b"b", sequence=5))
    log.clean(NOW_MS / 1000 + 2.0)
    log.append(idempotent(b"b", sequence=5))


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_of_old_records_is_known_after_a_restart_too(tmp_path: Path, clean: bool) -> None:
    """Kafka forgets it, going by the records' own timestamps, and then writes its retries twice."""
    years_later = a_clock(NOW_MS + 10**11)
    log = Log.open(tmp_path / "t-0", LogConfig(), clock=years_later)
    for sequence in range(3):
        log.append(idempotent(b"a", sequence=sequence))
    log.clean(years_later())
    if clean:
        log.close()
    again = Log.open(tmp_path / "t-0", LogConfig(retention_ms=-1), clean=clean, clock=years_later)
    with pytest.raises(DuplicateSequence):
        again.append(idempotent(b"a", sequence=1))


def test_truncation_forgets_what_was_cut_off(log: Log) -> None:
    offsets = [log.append(idempotent(bytes(90), sequence=n)) for n in range(40)]
    log.truncate_to(offsets[20])
    with pytest.raises(OutOfOrderSequence, match="where 20 is due"):
        log.append(idempotent(bytes(90), sequence=40))
    assert log.append(idempotent(bytes(90), sequence=20)) == offsets[20]


def test_a_snapshot_is_read_as_it_was_written() -> None:
    state = ProducerState()
    for n in range(7):
        state.add(header_of(idempotent(b"a", b"b", sequence=2 * n, epoch=4)), 100 + 2 * n)
    state.add(header_of(idempotent(b"a", sequence=5, producer=9)), 50)
    data = state.dump()
    again = ProducerState.load(data)
    assert again.dump() == data
    assert list(again.producers[7].batches) == list(state.producers[7].batches)
    assert len(again.producers[7].batches) == 5
    for broken in (data[:-1], data[:5], b"", data[:-1] + b"\x01", b"\x00\x02" + data[2:]):
        with pytest.raises(ValueError, match="snapshot"):
            ProducerState.load(broken)
