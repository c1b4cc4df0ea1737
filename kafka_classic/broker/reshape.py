"""What a topic asks of a producer's records: keys if it is compacted, the broker's timestamp, another codec."""

from __future__ import annotations

from kafka_classic.records.batch import HEADER_SIZE, BatchHeader, InvalidRecord, read_header, seal
from kafka_classic.records.codecs import Codec, compress, decompress
from kafka_classic.records.decode import Shape, decode_rows
from kafka_classic.records.walk import count_records
from kafka_classic.settings import TopicSettings

CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
LOG_APPEND_TIME = 8
# Records that inflate past this are a bomb: the largest request is smaller, uncompressed.
MOST_INFLATED = 128 << 20


def reshape(
    batch: memoryview, header: BatchHeader, settings: TopicSettings, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The batch as the topic keeps it: untouched in most topics."""
    wanted = CODECS.get(settings.compression_type, header.codec)
    if wanted != header.codec:
        batch = _recompressed(batch, header, Codec(wanted))
        header = read_header(batch)
    if settings.message_timestamp_type == "LogAppendTime":
        seal(batch, attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
        header = read_header(batch)
    elif header.is_log_append_time:
        raise InvalidRecord("a producer may not set the broker's timestamp type")
    return batch, header


_PLACES = Shape(
    lambda offsets, _, keys, __: zip(offsets, keys, strict=False),
    lambda records: [(record.offset, record.key) for record in records],
)


def check_keys(batch: memoryview, header: BatchHeader) -> None:
    """Refuse what a compacted topic cannot keep: a record without a key, or one that counts its offset wrongly."""
    rows = decode_rows(batch, 0, _PLACES, check_crc=False, max_size=MOST_INFLATED)
    if any(key is None for _, key in rows):
        raise InvalidRecord("a compacted topic takes no record without a key")
    if any(offset != due for due, (offset, _) in enumerate(rows, header.base_offset)):
        raise InvalidRecord("the records of a batch do not count up from its base offset")


def _recompressed(batch: memoryview, header: BatchHeader, codec: Codec) -> memoryview:
    records: bytes | memoryview = batch[HEADER_SIZE:]
    if header.codec != Codec.NONE:
        records = decompress(Codec(header.codec), records, MOST_INFLATED)
        if count_records(records, 0, len(records)) != header.record_count:
            raise InvalidRecord("a batch holds other than the records that it counts")
    body = compress(codec, records) if codec != Codec.NONE else bytes(records)
    fresh = bytearray(HEADER_SIZE + len(body))
    fresh[:HEADER_SIZE] = batch[:HEADER_SIZE]
    fresh[HEADER_SIZE:] = body
    view = memoryview(fresh)
    seal(view, batch_length=len(fresh) - 12, attributes=header.attributes & ~7 | codec)
    return view
