"""What is encoded is decoded, in every codec, and a plain twin agrees with every hot path."""

import pytest

from kafka_classic.records.batch import check_batch
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record, decode_batch
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.records.walk import count_records

MIXED: list[NewRecord] = [
    (None, b"a", (), 1000),
    (b"k", None, (), 999),
    (b"", b"", (("h", b"1"), ("h", None), ("", b"")), 5000),
    (b"k" * 300, b"v" * 70_000, (), -1),
]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_decodes_to_what_was_encoded(codec: Codec) -> None:
    batch = encode_batch(MIXED, codec, base_offset=7, producer_id=5, producer_epoch=1, base_sequence=3)
    header = check_batch(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (7, 10, 4)
    assert (header.base_timestamp, header.max_timestamp, header.codec) == (1000, 5000, codec)
    assert decode_batch(batch) == [
        Record(7 + i, timestamp, key, value, tuple(headers)) for i, (key, value, headers, timestamp) in enumerate(MIXED)
    ]
    if codec is Codec.NONE:
        assert count_records(batch, 61, len(batch)) == 4
