"""Records as hypothesis makes them: of every kind, and such that lie in runs of one shape."""

from __future__ import annotations

from hypothesis import strategies as st

from kafka_classic.records.encode import NewRecord

NOW = 1_700_000_000_000

contents = st.none() | st.binary(max_size=80) | st.integers(0, 20_000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3).map(tuple)
timestamps = (
    st.integers(NOW - 10_000, NOW + 10_000) | st.sampled_from([-1, 0, NOW, 2**62]) | st.integers(NOW, NOW + 100)
)
any_records: st.SearchStrategy[list[NewRecord]] = st.lists(
    st.tuples(contents, contents, headers, timestamps), min_size=1, max_size=12
)


@st.composite
def runs(draw: st.DrawFn, longest: int = 200) -> list[NewRecord]:
    """Several runs of alike records, so that their borders lie anywhere."""
    records: list[NewRecord] = []
    for _ in range(draw(st.integers(1, 4))):
        key_length = draw(st.none() | st.sampled_from([0, 1, 63, 64]))
        value_length = draw(st.none() | st.sampled_from([0, 1, 50, 57, 58, 63, 64, 200, 8191, 8192]))
        spread = draw(st.sampled_from([0, 0, 3, 100, 10_000]))
        count = draw(st.integers(1, longest if (value_length or 0) < 1000 else 20))
        records += [
            (
                None if key_length is None else bytes([i % 256]) * key_length,
                None if value_length is None else bytes([(i * 7) % 256]) * value_length,
                (),
                NOW + i * spread // count,
            )
            for i in range(count)
        ]
        if draw(st.booleans()):
            records.append((None, b"odd", (("h", b"x"),), NOW))
    return records


batches: st.SearchStrategy[list[NewRecord]] = any_records | runs()
