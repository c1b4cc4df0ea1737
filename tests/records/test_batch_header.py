"""The header of a batch: golden bytes, what is refused and how, and sealing."""

from __future__ import annotations

import pytest

from kafka_classic.records.batch import (
    CRC_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    check_batch,
    crc_of,
    iter_batches,
    read_header,
    seal,
)
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import encode_batch

# Put together by hand from the description of the format: one record ("k", "v", header h=x) at 1,000 ms.
GOLDEN = bytes.fromhex(
    "0000000000000005"  # base offset 5
    "0000003e"  # 62 bytes follow
    "00000003"  # leader epoch
    "02"  # magic
    "fb513c95"  # crc, computed bit by bit
    "0010"  # attributes: transactional
    "00000000"  # last offset delta
    "00000000000003e8"  # base timestamp
    "00000000000003e8"  # max timestamp
    "0000000000000007"  # producer id
    "0001"  # producer epoch
    "00000009"  # base sequence
    "00000001"  # one record
    "18"  # of 12 bytes
    "00 00 00"  # attributes, timestamp delta, offset delta
    "02 6b"  # key
    "02 76"  # value
    "02"  # one header
    "02 68 02 78"
)


def test_the_golden_batch_is_written_and_read_byte_for_byte() -> None:
    batch = encode_batch(
        [(b"k", b"v", (("h", b"x"),), 1000)],
        base_offset=5,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        transactional=True,
    )
    assert batch.hex(" ") == GOLDEN.hex(" ")
    assert check_batch(GOLDEN) == BatchHeader(5, 62, 3, 2, 0xFB513C95, 16, 0, 1000, 1000, 7, 1, 9, 1)
    assert decode_batch(GOLDEN) == [(5, 1000, b"k", b"v", (("h", b"x"),))]


def test_the_layout_is_kafkas() -> None:
    assert (HEADER.size, HEADER_SIZE, LOG_OVERHEAD, CRC_FROM) == (61, 61, 12, 21)


@pytest.mark.parametrize("cut", range(len(GOLDEN)))
def test_a_cut_batch_is_corrupt_wherever_it_is_cut(cut: int) -> None:
    with pytest.raises(CorruptBatch):
        check_batch(GOLDEN[:cut])
    with pytest.raises(CorruptBatch):
        check_batch(GOLDEN, 0, cut)
    assert list(iter_batches(GOLDEN[:cut])) == []


@pytest.mark.parametrize("place", range(len(GOLDEN)))
def test_a_changed_byte_is_noticed_unless_the_broker_may_change_it(place: int) -> None:
    batch = bytearray(GOLDEN)
    batch[place] ^= 0x40
    if place < 8 or 12 <= place < 16:
        check_batch(batch)  # base offset and leader epoch
    else:
        with pytest.raises(CorruptBatch):
            check_batch(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic_is_told_apart_from_garbage_even_in_a_short_message(magic: int) -> None:
    with pytest.raises(UnsupportedMagic, match=r"0\.11"):
        read_header(bytes(16) + bytes([magic]) + bytes(9))
    with pytest.raises(UnsupportedMagic):
        list(iter_batches(bytes(8) + (14).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(9)))


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatch) as caught:
        read_header(GOLDEN[:16] + bytes([magic]) + GOLDEN[17:])
    assert not isinstance(caught.value, UnsupportedMagic)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_too_small_for_a_header_is_corrupt(length: int) -> None:
    batch = GOLDEN[:8] + length.to_bytes(4, "big", signed=True) + GOLDEN[12:]
    with pytest.raises(CorruptBatch):
        read_header(batch)
    with pytest.raises(CorruptBatch):
        list(iter_batches(batch))


def test_batches_are_walked_with_their_positions() -> None:
    assert [pos for pos, _ in iter_batches(GOLDEN * 3)] == [0, 74, 148]
    assert [pos for pos, _ in iter_batches(memoryview(GOLDEN * 3)[:-1])] == [0, 74]


def test_sealing_changes_the_fields_named_and_the_crc() -> None:
    batch = bytearray(b"before" + GOLDEN + b"after")
    seal(memoryview(batch)[6:], base_offset=100, leader_epoch=8, last_offset_delta=73, max_timestamp=2000)
    header = check_batch(batch, 6)
    assert header == check_batch(GOLDEN)._replace(
        base_offset=100, leader_epoch=8, last_offset_delta=73, max_timestamp=2000, crc=crc_of(batch, 6, 74)
    )
    assert batch[6 + 61 :] == GOLDEN[61:] + b"after"
    assert header.next_offset == 174


def test_a_length_that_does_not_fit_cannot_be_sealed() -> None:
    with pytest.raises(CorruptBatch):
        seal(bytearray(GOLDEN), batch_length=1000)
