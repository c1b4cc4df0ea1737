"""Where the records of a batch lie: found as the decoder finds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_classic.records.batch import HEADER_SIZE, InvalidRecord
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import encode_batch
from kafka_classic.records.places import Places, read_places

cells = st.none() | st.binary(max_size=20) | st.sampled_from([b"k" * 70, b"v" * 9000])
rows = st.tuples(cells, cells, st.sampled_from([(), (("h", b"x"), ("n", None))]), st.integers(-(10**6), 10**12))
alike = st.tuples(st.integers(1, 300), st.binary(max_size=3), st.none() | st.binary(max_size=3)).map(
    lambda drawn: [(drawn[1], drawn[2], (), 5)] * drawn[0]
)


def places_of(batch: bytes, count: int, last: int) -> Places:
    return read_places(batch, HEADER_SIZE, len(batch), count, last)


@given(st.lists(st.one_of(rows.map(lambda row: [row]), alike), min_size=1, max_size=6), st.randoms())
def test_records_are_found_where_the_decoder_finds_them(parts: list[list[tuple]], random) -> None:  # type: ignore[no-untyped-def, type-arg]
    content = [row for part in parts for row in part]
    gaps = random.random() < 0.5
    deltas = sorted(random.sample(range(3 * len(content)), len(content))) if gaps else list(range(len(content)))
    batch = encode_batch(content, deltas=deltas)
    found = places_of(batch, len(content), deltas[-1])
    records = decode_batch(batch)
    assert found.deltas == [record.offset for record in records]
    assert found.keys == [record.key for record in records]
    assert [content[0][3] + time for time in found.times] == [record.timestamp for record in records]
    assert found.tombstones == [n for n, record in enumerate(records) if record.value is None]
    # Copied one by one, they are the same records.
    ends = [*found.starts[1:], found.end]
    assert b"".join(batch[a:b] for a, b in zip(found.starts, ends, strict=True)) == batch[HEADER_SIZE:]


@given(st.data())
def test_garbage_is_refused_and_never_led_out_of(data: st.DataObject) -> None:
    batch = bytearray(encode_batch([(b"key", b"value" * n, (), n) for n in range(30)]))
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = places_of(bytes(batch), 30, 29)
    except InvalidRecord:
        return
    assert found.starts[0] == HEADER_SIZE
    assert sorted(found.starts) == found.starts
    assert sorted(set(found.deltas)) == found.deltas
    assert all(len(column) == 30 for column in (found.starts, found.deltas, found.times, found.keys))


@pytest.mark.parametrize("deltas", [[0, 0], [1, 0], [0, 9]])
def test_offsets_that_do_not_count_up_within_the_batch_are_refused(deltas: list[int]) -> None:
    batch = encode_batch([(b"a", b"", (), 0), (b"b", b"", (), 0)], deltas=deltas)
    with pytest.raises(InvalidRecord):
        places_of(batch, 2, 5)


def test_a_count_that_cannot_be_is_refused() -> None:
    batch = encode_batch([(b"a", b"", (), 0)])
    for count in (-1, 0, 2, 10**9):
        with pytest.raises(InvalidRecord):
            places_of(batch, count, 0)
