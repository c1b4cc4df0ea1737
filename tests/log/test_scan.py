"""Walking a file of batches: in any chunk size the same batches, and the same first fault."""

import struct
from pathlib import Path

import pytest

from kafka_classic.log.files import OpenFile
from kafka_classic.log.scan import Scan
from kafka_classic.records.batch import iter_batches
from tests.log.batches import batch


def written(tmp_path: Path, data: bytes | bytearray) -> OpenFile:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    return OpenFile(path)


def some_batches() -> bytearray:
    data, offset = bytearray(), 0
    for size in (1, 500, 3, 0, 5000, 70_000, 2, 20, 10_000):
        data += batch(bytes(size), b"second", base_offset=offset)
        offset += 2
    return data


@pytest.mark.parametrize("chunk", [61, 64, 100, 700, 4096, 1 << 20])
@pytest.mark.parametrize("crc", [True, False])
def test_all_batches_are_found_whatever_the_chunk(tmp_path: Path, chunk: int, crc: bool) -> None:
    data = some_batches()
    scan = Scan(written(tmp_path, data), 0, len(data), crc=crc, chunk=chunk)
    assert [(at, tuple(header)) for at, header in iter_batches(data)] == list(scan)
    assert (scan.position, scan.next_offset, scan.problem) == (len(data), 18, None)


@pytest.mark.parametrize("chunk", [61, 700, 1 << 20])
def test_the_walk_ends_at_the_first_wrong_crc(tmp_path: Path, chunk: int) -> None:
    data = some_batches()
    starts = [at for at, _ in iter_batches(data)]
    for number, start in enumerate(starts):
        wrong = bytearray(data)
        wrong[start + 65] ^= 0x10
        scan = Scan(written(tmp_path, wrong), 0, len(data), crc=True, chunk=chunk)
        assert [at for at, _ in scan] == starts[:number]
        assert scan.position == start
        assert scan.problem is not None
        assert "crc" in scan.problem


@pytest.mark.parametrize(
    ("at", "put", "says"),
    [
        (8, struct.pack(">i", 2**31 - 1), "where only"),
        (8, struct.pack(">i", 48), "no batch header"),
        (8, struct.pack(">i", -1), "no batch header"),
        (16, b"\x01", "magic 1"),
        (0, struct.pack(">q", 0), "is due"),
        (23, struct.pack(">i", -1), "no batch header"),
    ],
)
def test_a_header_that_lies_ends_the_walk(tmp_path: Path, at: int, put: bytes, says: str) -> None:
    data = batch(b"a", base_offset=0) + batch(b"b", base_offset=1) + batch(b"c", base_offset=2)
    second = len(data) // 3
    data[second + at : second + at + len(put)] = put
    scan = Scan(written(tmp_path, data), 0, len(data), crc=True)
    assert len(list(scan)) == 1
    assert scan.position == second
    assert scan.problem is not None
    assert says in scan.problem


def test_a_tail_too_short_for_a_header_is_a_problem(tmp_path: Path) -> None:
    data = batch(b"a") + bytes(60)
    scan = Scan(written(tmp_path, data), 0, len(data))
    assert len(list(scan)) == 1
    assert scan.problem == "60 bytes are too few for a batch header"
