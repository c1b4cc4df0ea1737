"""Every codec gives back what it was given, refuses what is not its own, and stops at the limit while it inflates."""

from __future__ import annotations

import gzip
import struct
import threading
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_classic.records.batch import CorruptBatch, InvalidRecord
from kafka_classic.records.codecs import Codec, compress, decompress
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import encode_batch

PACKING = [codec for codec in Codec if codec]
MEBI = 1 << 20


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(Codec), st.binary(max_size=200) | st.integers(0, 3 * MEBI).map(bytes))
def test_what_was_compressed_is_decompressed(codec: Codec, data: bytes) -> None:
    compressed = compress(codec, data)
    assert decompress(codec, compressed) == data
    assert decompress(codec, memoryview(bytearray(compressed))) == data
    assert compress(codec, memoryview(data)) == compressed


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 9), (Codec.ZSTD, 1), (Codec.ZSTD, 19), (Codec.SNAPPY, 5)],
)
def test_a_level_may_be_asked_for(codec: Codec, level: int) -> None:
    data = b"some text, some other text, " * 1000
    assert decompress(codec, compress(codec, data, level)) == data


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_stopped_while_it_inflates(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MEBI))
    tracemalloc.start()
    with pytest.raises(InvalidRecord, match="inflate"):
        decompress(codec, bomb, max_size=4 * MEBI)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MEBI + 4 * MEBI


@pytest.mark.parametrize("codec", list(Codec))
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    data = bytes(3 * MEBI + 1)
    assert len(decompress(codec, compress(codec, data), max_size=len(data))) == len(data)
    with pytest.raises(InvalidRecord):
        decompress(codec, compress(codec, data), max_size=len(data) - 1)


def test_a_batch_that_inflates_too_far_is_an_invalid_record() -> None:
    batch = encode_batch([(None, bytes(MEBI), (), 0)], Codec.ZSTD)
    with pytest.raises(InvalidRecord):
        decode_batch(batch, max_size=MEBI)
    assert len(decode_batch(batch, max_size=MEBI + 100)) == 1


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("size", [100, 100_000])
def test_what_is_cut_off_is_corrupt(codec: Codec, size: int) -> None:
    compressed = compress(codec, b"0123456789abcdef" * (size // 16))
    whole = 16 if codec is Codec.SNAPPY else None  # the head of the framing alone is a whole stream of nothing
    for cut in range(0, len(compressed), 1 + len(compressed) // 200):
        if cut != whole:
            with pytest.raises(CorruptBatch):
                decompress(codec, compressed[:cut])


@pytest.mark.parametrize("codec", PACKING)
def test_bytes_after_the_end_are_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, b"data") + b"more")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_nobody_knows_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        decompress(codec, b"")
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        compress(codec, b"")


def test_streams_of_several_members_are_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(Codec.ZSTD, zstandard.compress(b"one") + zstandard.compress(b"two")) == b"onetwo"


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [0, 5, MEBI])
def test_zstd_as_a_stream_of_unknown_size_is_read_to_its_end(checksum: bool, size: int) -> None:
    # So the Java client writes it.
    packer = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    stream = packer.compress(data) + packer.flush()
    assert decompress(Codec.ZSTD, stream) == data
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, stream[:-1])


@pytest.mark.parametrize("linked", [False, True])
def test_lz4_frames_of_every_make_are_read(linked: bool) -> None:
    data = b"0123456789" * 100_000
    for size, checksum in ((True, False), (False, True)):
        frame = lz4.frame.compress(data, store_size=size, content_checksum=checksum, block_linked=linked)
        assert decompress(Codec.LZ4, frame) == data


def test_lz4_is_written_in_independent_blocks_as_the_java_reader_demands() -> None:
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, bytes(100)))["block_linked"]


def test_snappy_is_read_raw_and_framed_and_written_framed() -> None:
    data = b"some text " * 20_000
    assert decompress(Codec.SNAPPY, snappy.compress(data)) == data
    framed = compress(Codec.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1))
    first = struct.unpack_from(">i", framed, 16)[0]
    assert len(snappy.uncompress(framed[20 : 20 + first])) == 32 * 1024
    assert decompress(Codec.SNAPPY, framed) == data


@pytest.mark.parametrize("framed", [False, True])
def test_a_snappy_block_that_overstates_its_size_allocates_nothing(framed: bool) -> None:
    block = b"\xff\xff\xff\xff\x03" + b"\x00x"  # states 1 GiB
    data = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block if framed else block
    tracemalloc.start()
    with pytest.raises(CorruptBatch, match="states"):
        decompress(Codec.SNAPPY, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_an_inflated_size_that_lies_in_a_zstd_head_allocates_nothing() -> None:
    # A frame that states 1 GiB and holds one byte.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + struct.pack("<I", 1 << 30) + b"\x09\x00\x00x"
    tracemalloc.start()
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MEBI


def test_threads_compress_side_by_side() -> None:
    wrong: list[tuple[int, Codec]] = []

    def work(seed: int) -> None:
        data = bytes([seed]) * 300_000 + seed.to_bytes(4, "big") * 10_000
        for codec in PACKING:
            wrong.extend((seed, codec) for _ in range(5) if decompress(codec, compress(codec, data)) != data)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_great_many_empty_members_take_no_longer_than_their_number(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b"") * 50_000 + compress(codec, b"end")) == b"end"


def test_a_great_many_empty_snappy_blocks_take_no_longer_than_their_number() -> None:
    data = compress(Codec.SNAPPY, b"") + (struct.pack(">i", 1) + b"\0") * 50_000
    assert decompress(Codec.SNAPPY, data) == b""
