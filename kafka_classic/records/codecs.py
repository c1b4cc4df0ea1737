"""The codecs of a batch's records; each inflates bounded, so that a small batch cannot fill the memory (a bomb)."""

import threading
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

import lz4.frame
import zstandard

from .batch import Buffer, CorruptBatch, InvalidRecord
from .xerial import compress_snappy, decompress_snappy

MAX_SIZE: Final = 1 << 30
_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 1 << 20
_FEED: Final = 1 << 15
_ZSTD_LEVEL: Final = 3
_ZSTD_RUN: Final = 1  # a block of one byte, repeated


class Codec(IntEnum):
    """The codec's number in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _ZstdContexts(threading.local):
    """One set of contexts a thread: making one costs 16 µs, more than a small batch, and none may be shared."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        if level not in self._compressors:
            self._compressors[level] = zstandard.ZstdCompressor(level=level)
        return self._compressors[level]


_zstd = _ZstdContexts()


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch as Kafka's own clients do; `level` means what the codec takes it to mean."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP)
            return deflater.compress(data) + deflater.flush()
        case Codec.SNAPPY:
            return compress_snappy(data)
        case Codec.LZ4:
            # Kafka's Java reader refuses linked blocks.
            compressed: bytes = lz4.frame.compress(
                data, compression_level=level or 0, block_linked=False, store_size=False
            )
            return compressed
        case Codec.ZSTD:
            return _zstd.compressor(_ZSTD_LEVEL if level is None else level).compress(data)
    raise CorruptBatch(f"codec {codec} is unknown")


def decompress(codec: int, data: Buffer, max_size: int = MAX_SIZE) -> bytes:
    """Inflate, and stop with InvalidRecord as soon as there are more than `max_size` bytes."""
    match codec:
        case Codec.NONE:
            if len(data) > max_size:
                raise _bomb(max_size)
            return bytes(data)
        case Codec.GZIP:
            steps = _gunzip(data)
        case Codec.SNAPPY:
            return decompress_snappy(data, max_size)
        case Codec.LZ4:
            steps = _unlz4(data)
        case Codec.ZSTD:
            steps = _unzstd(data)
        case _:
            raise CorruptBatch(f"codec {codec} is unknown")
    return _gather(steps, max_size)


def _gather(steps: Iterator[bytes], max_size: int) -> bytes:
    pieces = []
    size = 0
    try:
        for piece in steps:
            size += len(piece)
            if size > max_size:
                raise _bomb(max_size)
            pieces.append(piece)
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise CorruptBatch(f"the records do not decompress: {error}") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _gunzip(data: Buffer) -> Iterator[bytes]:
    # Fed in small pieces, because zlib copies what it did not use: many small members of a large stream would take
    # as long as the square of their number.
    view = memoryview(data)
    at = 0
    while at < len(view) or not at:
        inflater = zlib.decompressobj(_GZIP)
        while not inflater.eof:
            fed = view[at : at + _FEED]
            if not fed:
                raise EOFError("the gzip stream is cut off")
            piece = inflater.decompress(fed, _STEP)
            at += len(fed) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
            yield piece


def _unlz4(data: Buffer) -> Iterator[bytes]:
    inflater = lz4.frame.LZ4FrameDecompressor()
    rest: Buffer = data
    while not inflater.eof:
        piece = inflater.decompress(rest, _STEP)
        rest = b""
        if not piece and inflater.needs_input and not inflater.eof:
            raise EOFError("the lz4 frame is cut off")
        yield piece
    if inflater.unused_data:
        raise EOFError("bytes follow the lz4 frame")


def _unzstd(data: Buffer) -> Iterator[bytes]:
    read: Callable[[int], bytes] = _zstd.decompressor.stream_reader(data, read_across_frames=True).read
    while piece := read(_STEP):
        yield piece
    _check_zstd_ends(memoryview(data))


def _check_zstd_ends(data: memoryview) -> None:
    """Walk from block to block to the end of the last frame: the library does not say when a stream is cut off."""
    at = 0
    while at < len(data) or not at:
        frame = data[at:]
        at += zstandard.frame_header_size(frame)
        last = 0
        while not last:
            head = int.from_bytes(data[at : at + 3], "little")
            last, kind, size = head & 1, head >> 1 & 3, head >> 3
            at += 3 + (1 if kind == _ZSTD_RUN else size)
            if at > len(data):
                raise EOFError("the zstd stream is cut off")
        at += 4 if zstandard.get_frame_parameters(frame).has_checksum else 0
    if at > len(data):
        raise EOFError("the zstd stream is cut off in its checksum")


def _bomb(max_size: int) -> InvalidRecord:
    return InvalidRecord(f"the records inflate to more than {max_size} bytes")
