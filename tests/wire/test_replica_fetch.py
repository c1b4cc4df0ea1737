"""A follower's Fetch, packed by hand, compared with what the broker reads and writes."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_request_header
from kafka_classic.wire.errors import MalformedRequest
from kafka_classic.wire.fetch import PartitionOut, read_fetch, write_fetch_response
from kafka_classic.wire.replica_fetch import VERSION, Limits, Wanted, pack_replica_fetch, read_replica_fetch

ONE, OTHER = UUID(int=1), UUID(int=2)
LIMITS = Limits(500, 1, 10 << 20, 1 << 20)


def test_the_broker_reads_what_a_follower_asks() -> None:
    wanted = [Wanted(ONE, 0, 7, 100, 3), Wanted(OTHER, 2, 8, 0, 0), Wanted(ONE, 5, 9, 2**40, 0)]
    frame = pack_replica_fetch(42, b"broker-1-fetcher-2", 1, LIMITS, wanted)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:])
    assert header[:4] == (Api.FETCH, VERSION, 42, "broker-1-fetcher-2")
    request = read_fetch(frame[4:], header.body_at, len(frame) - 4, VERSION)
    assert (request.replica_id, request.max_wait_ms, request.min_bytes) == (1, 500, 1)
    assert (request.max_bytes, request.session_epoch, request.rack_id) == (10 << 20, -1, "")
    found = {
        (p.topic, p.partition, p.current_leader_epoch, p.fetch_offset, p.log_start_offset) for p in request.partitions
    }
    assert found == {(*w,) for w in wanted}


def test_a_follower_reads_what_the_broker_answers() -> None:
    rows = [
        (ONE, [PartitionOut(0, 0, 10, 10, 2, 5), PartitionOut(1, 74, -1, -1, 0, 0)]),
        (OTHER, [PartitionOut(3, 0, 7, 7, 0, 300)]),
    ]
    pieces = write_fetch_response(VERSION, 9, 0, 0, 0, rows)
    frame = bytearray(pieces[0] + b"abcde" + pieces[1] + b"x" * 300 + pieces[2])
    failure, got = read_replica_fetch(frame[4:])
    assert failure == 0
    assert [(*g[:5], bytes(g.records)) for g in got] == [
        (ONE, 0, 0, 10, 2, b"abcde"),
        (ONE, 1, 74, -1, 0, b""),
        (OTHER, 3, 0, 7, 0, b"x" * 300),
    ]


def test_an_answer_that_is_cut_short_is_refused() -> None:
    pieces = write_fetch_response(VERSION, 9, 0, 0, 0, [(ONE, [PartitionOut(0, 0, 10, 10, 2, 50)])])
    whole = pieces[0] + b"r" * 50 + pieces[1]
    for end in range(4, len(whole) - 3):
        with pytest.raises(MalformedRequest):
            read_replica_fetch(bytearray(whole[4:end]))
