"""Produce and consume without a group: what the command line needs, and a test.

produce(cluster, "page-views", 0, [(b"key", b"value", (), now_ms)])

for topic, partition, record in consume(cluster, beginning(cluster, ["page-views"]), idle=1.0):
    print(record.value)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_classic.client.chunk import read_chunk
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.fetch_packed import VERSION, FetchLimits, pack_fetch, read_fetched
from kafka_classic.client.fetcher import Fetcher, OutOfRange, fail_out_of_range
from kafka_classic.client.leaders import TopicPartition, partition_error
from kafka_classic.client.offsets import EARLIEST, LATEST, list_offsets
from kafka_classic.client.writer import Acknowledged, Writer
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import Record
from kafka_classic.records.encode import NewRecord
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import KafkaError

_AT_ONCE = FetchLimits(max_wait_ms=0)


class Consumed(NamedTuple):
    topic: str
    partition: int
    record: Record


class FetchResult(NamedTuple):
    """What one fetch of one partition brought; `next_offset` is where to go on."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int


def produce(
    cluster: Cluster,
    topic: str,
    partition: int,
    records: Iterable[NewRecord],
    *,
    acks: int = -1,
    codec: Codec = Codec.NONE,
    idempotent: bool = False,
    batch_bytes: int = 512 << 10,
    timeout: float = 30.0,
) -> int:
    """Write records to one partition and return the offset of the first; -1 with acks=0 or without records."""
    acknowledged: list[Acknowledged] = []
    with Writer(
        cluster,
        acks=acks,
        codec=codec,
        idempotent=idempotent,
        batch_bytes=batch_bytes,
        timeout=timeout,
        on_acknowledged=acknowledged.append,
    ) as writer:
        for record in records:
            writer.write(topic, partition, record)
    return acknowledged[0].base_offset if acknowledged else -1


def fetch(
    cluster: Cluster, topic: str, partition: int, offset: int, limits: FetchLimits = _AT_ONCE, *, check_crc: bool = True
) -> FetchResult:
    """Read once from an offset on; every checksum is verified (P22)."""
    at = topic, partition

    def attempt() -> FetchResult:
        connection = cluster.connection(cluster.leader_now(topic, partition))
        wait = limits.max_wait_ms / 1000 + cluster.request_timeout
        request = connection.send_packed(Api.FETCH, VERSION, pack_fetch({at: offset}, limits), read_fetched, wait)
        failure, answers = request.result()
        if failure:
            raise KafkaError(failure)
        answer = answers[at]
        if answer.error:
            raise partition_error(answer.error, topic, partition)
        chunk = read_chunk(topic, partition, offset, answer.high_watermark, answer.records)
        records = list(chunk.records(check_crc))
        return FetchResult(records, chunk.next_offset, answer.high_watermark, answer.log_start_offset)

    return cluster.retrying(attempt)


def consume(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, int],
    *,
    until: Mapping[TopicPartition, int] | None = None,
    count: int | None = None,
    idle: float | None = None,
    limits: FetchLimits | None = None,
    out_of_range: OutOfRange = fail_out_of_range,
    check_crc: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Consumed]:
    """Read partitions from offsets on, in order within each, for ever or until an end.

    The end is whichever comes first: every partition has reached its offset in `until` (which is not delivered any
    more), `count` records were delivered, or nothing came for `idle` seconds.
    """
    ends = dict(until or {})
    wanted = {at: offset for at, offset in offsets.items() if at not in ends or offset < ends[at]}
    left = -1 if count is None else count
    if not wanted or not left:
        return
    with Fetcher(cluster, wanted, limits, out_of_range=out_of_range) as fetcher:
        quiet_since = clock()
        while wanted:
            patience = None if idle is None else idle - (clock() - quiet_since)
            if patience is not None and patience <= 0:
                return
            chunk = fetcher.next(patience)
            if chunk is None or (chunk.topic, chunk.partition) not in wanted:
                continue
            at = chunk.topic, chunk.partition
            end = ends.get(at)
            for record in chunk.records(check_crc):
                if end is not None and record.offset >= end:
                    break
                yield Consumed(*at, record)
                left -= 1
                if not left:
                    return
            if end is not None and chunk.next_offset >= end:
                del wanted[at]
                fetcher.stop([at])
            quiet_since = clock()


def beginning(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return the first offset of every partition of the topics."""
    return _offsets(cluster, topics, EARLIEST)


def end(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return the offset after the last record of every partition of the topics."""
    return _offsets(cluster, topics, LATEST)


def _offsets(cluster: Cluster, topics: Iterable[str], when: int) -> dict[TopicPartition, int]:
    wanted = {(topic, one.index): when for topic in topics for one in cluster.topic(topic).partitions}
    return {at: found.offset for at, found in list_offsets(cluster, wanted).items()}
