"""The tier of the brokers' log: counted by the headers of its batches, without decoding what need not be.

A header holds how many messages there are, their producer, its number of the first, and the times of the first and the
last. Decoded is a batch that reaches over a window's border, one whose header was not written by its producer (classic
topics, compacted ones, log append time), and with `deep` every one. Every checksum is verified (P22).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kafka_classic.client.chunk import Chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import FetchLimits
from kafka_classic.client.fetcher import Fetcher
from kafka_classic.client.fingerprint import Fingerprint, fingerprint, words_of
from kafka_classic.client.spans import UNNUMBERED, Run, add_run
from kafka_classic.client.tally import NOBODY, Line, Tally
from kafka_classic.records.batch import BatchHeader, CorruptBatch, InvalidRecord, crc_of
from kafka_classic.records.decode import Record, decode_batch

# Large pulls: the audit reads a partition as fast as it comes, and looks at little of it.
_LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=32 << 20, partition_max_bytes=8 << 20)
_PATIENCE_S = 30.0
_CODEC_ROOM = 3


class Slice(NamedTuple):
    """A task: the offsets `begin` up to, not including, `end` of a partition."""

    topic: str
    partition: int
    begin: int
    end: int
    first: bool = True  # it begins where the log does, perhaps within a batch


class Unreadable(Exception):
    """A slice could not be read to its end."""


Tallies = dict[tuple[Line, int], Tally]


def slices(topic: str, partition: int, begin: int, end: int, most: int) -> list[Slice]:
    """A partition in `most` tasks at the most, of a million offsets or more each."""
    count = max(1, min(most, (end - begin) // 1_000_000))
    edges = [begin + (end - begin) * i // count for i in range(count + 1)]
    found = pairwise(edges)
    return [Slice(topic, partition, *edge, edge[0] == begin) for edge in found if edge[0] < edge[1]]


def count_slice(cluster: Cluster, part: Slice, window_ms: int, *, deep: bool = False) -> Tallies:
    """Read a slice from its leader and count it. A batch belongs to the slice in which it begins."""
    tallies: Tallies = {}
    for chunk in chunks(cluster, part):
        count_chunk(tallies, chunk, part, window_ms, deep=deep)
    return tallies


def chunks(cluster: Cluster, part: Slice) -> Iterator[Chunk]:
    """What a partition's leader serves of a slice."""
    with Fetcher(cluster, {(part.topic, part.partition): part.begin}, _LIMITS, out_of_range=_moved_on) as fetcher:
        while True:
            chunk = fetcher.next(_PATIENCE_S)
            if chunk is None:
                raise Unreadable(f"nothing came of partition {part.partition} of {part.topic!r} for {_PATIENCE_S:g} s")
            yield chunk
            if chunk.damage is not None:
                raise Unreadable(f"partition {part.partition} of {part.topic!r}: {chunk.damage}")
            if chunk.next_offset >= part.end:
                return


def _moved_on(topic: str, partition: int, offset: int, log_start: int) -> int:
    return log_start  # retention was faster


def count_chunk(tallies: Tallies, chunk: Chunk, part: Slice, window_ms: int, *, deep: bool = False) -> None:
    """Add what a pull brought to the tallies."""
    topic, partition, data = part.topic, part.partition, chunk.data
    for pos, header in chunk.batches:
        first = header.base_offset
        # A slice that begins within a batch leaves it to the slice before it, if there is one.
        if header.is_control or first >= part.end or (first < part.begin and not part.first):
            continue
        if crc_of(data, pos, header.size) != header.crc:
            window = header.base_timestamp - header.base_timestamp % window_ms
            damaged = _tally(tallies, topic, partition, header, window)
            _add_header(damaged, header)
            damaged.damaged += header.record_count
            damaged.broken.append((header.base_offset, header.last_offset))
            damaged.content = damaged.batches = None
            continue
        window = header.base_timestamp - header.base_timestamp % window_ms
        whole = header.last_offset_delta == header.record_count - 1 and not header.is_log_append_time
        whole = whole and first >= part.begin
        if whole and not deep and header.max_timestamp - window < window_ms:
            tally = _tally(tallies, topic, partition, header, window)
            _add_header(tally, header)
            tally.content = None
        else:
            _decode(tallies, part, data, pos, header, window_ms, whole)


def _tally(tallies: Tallies, topic: str, partition: int, header: BatchHeader, window: int) -> Tally:
    key = Line(topic, partition, header.producer_id), window
    found = tallies.get(key)
    if found is None:
        found = tallies[key] = Tally()
    return found


def _add_header(tally: Tally, header: BatchHeader) -> None:
    count, offset = header.record_count, header.base_offset
    tally.count += count
    tally.bytes += header.size
    if header.producer_id == NOBODY:
        add_run(tally.runs, Run(UNNUMBERED, offset, offset + count, offset, offset + count - 1))
    else:
        first = header.base_sequence
        add_run(tally.runs, Run(header.producer_epoch, first, first + count, offset, offset + count - 1))
    if tally.batches is not None:
        crc = header.crc
        tally.batches = tally.batches.plus(Fingerprint(crc, crc, crc * (header.base_sequence + 1)))


def _decode(
    tallies: Tallies, part: Slice, data: object, pos: int, header: BatchHeader, window_ms: int, whole: bool
) -> None:
    """Count a batch by its messages."""
    try:
        records = decode_batch(data, pos, check_crc=False)  # type: ignore[arg-type]
    except (CorruptBatch, InvalidRecord):
        window = header.base_timestamp - header.base_timestamp % window_ms
        tally = _tally(tallies, part.topic, part.partition, header, window)
        _add_header(tally, header)
        tally.damaged += header.record_count
        tally.broken.append((header.base_offset, header.last_offset))
        return
    by_window: dict[int, list[tuple[int, Record]]] = {}
    for place, record in enumerate(records):
        if record.offset < part.begin:
            continue  # deleted, though the batch is there
        by_window.setdefault(record.timestamp - record.timestamp % window_ms, []).append((place, record))
    for window, found in by_window.items():
        tally = _tally(tallies, part.topic, part.partition, header, window)
        _count_records(tally, header, found)
        if len(by_window) == 1 and whole:
            tally.bytes += header.size
            if tally.batches is not None:
                crc = header.crc
                tally.batches = tally.batches.plus(Fingerprint(crc, crc, crc * (header.base_sequence + 1)))
        else:
            tally.bytes += header.size * len(found) // max(1, len(records))
            tally.batches = None
        if header.is_log_append_time:
            tally.content = None  # the broker's time stands where the producer's was


def _count_records(tally: Tally, header: BatchHeader, found: Iterable[tuple[int, Record]]) -> None:
    records = list(found)
    numbers = []
    for place, record in records:
        offset = record.offset
        if header.producer_id == NOBODY:
            number, epoch = offset, UNNUMBERED
        else:
            number, epoch = header.base_sequence + place, header.producer_epoch
        numbers.append(number)
        add_run(tally.runs, Run(epoch, number, number + 1, offset, offset))
    tally.count += len(records)
    if tally.content is not None:
        words = words_of([(record.key, record.value, record.headers, record.timestamp) for _, record in records])
        tally.content = tally.content.plus(fingerprint(words, numbers))
