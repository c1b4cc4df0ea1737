"""Fetch sessions as a consumer meets them: all at first, then only what is new; a lost one is begun anew."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as Error

from kafka_classic.records.decode import decode_records
from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import read_response
from tests.broker.calls import delete_records, fetch_all, rows_of, send_fetch, topic_id
from tests.broker.conftest import MakeTopic
from tests.broker.raw import Raw, batch, produce

LONG = 300_000


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_a_session_tells_all_at_first_and_then_only_what_changed(raw: Raw, topic_with: MakeTopic, version: int) -> None:
    topic, by_id = topic_with(3), version >= 13
    key = topic_id(raw, topic) if by_id else topic
    assert produce(raw, topic, batch(b"a"), partition=1)[0] == 0
    first = fetch_all(raw, version, {key: {0: 0, 1: 0, 2: 0}}, session=(0, 0))
    session = int(first.session_id)
    assert session > 0
    assert {p: bool(row.records) for (_, p), row in rows_of(first, by_id).items()} == {0: False, 1: True, 2: False}

    nothing = fetch_all(raw, version, {key: {1: 1}}, session=(session, 1))
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (Error.none, session, ())

    assert produce(raw, topic, batch(b"b"), partition=2)[0] == 0
    rows = rows_of(fetch_all(raw, version, {}, session=(session, 2), wait_ms=LONG), by_id)
    assert [p for _, p in rows] == [2]
    # Until it says that it has read on, it is sent the same again.
    rows = rows_of(fetch_all(raw, version, {}, session=(session, 3)), by_id)
    assert [r.value for _, row in rows.items() for r in decode_records(row.records)] == [b"b"]
    assert fetch_all(raw, version, {key: {2: 1}}, session=(session, 4)).responses == ()


def test_a_partition_joins_and_another_is_forgotten(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with(3)
    session = int(fetch_all(raw, 11, {topic: {0: 0}}, session=(0, 0)).session_id)
    for partition in range(3):
        assert produce(raw, topic, batch(b"x"), partition=partition)[0] == 0
    rows = rows_of(fetch_all(raw, 11, {topic: {1: 0}}, session=(session, 1), forgotten={topic: [0]}))
    assert [p for _, p in rows] == [1]
    rows = rows_of(fetch_all(raw, 11, {topic: {0: 0}}, session=(session, 2)))
    assert sorted(p for _, p in rows) == [0, 1]


def test_a_waiting_incremental_fetch_is_woken_by_any_of_its_partitions(
    address: str, raw: Raw, topic_with: MakeTopic
) -> None:
    topic = topic_with(5)
    with Raw(address) as waiting:
        first = fetch_all(waiting, 11, {topic: dict.fromkeys(range(5), 0)}, session=(0, 0))
        send_fetch(waiting, 11, {}, session=(int(first.session_id), 1), wait_ms=LONG)
        assert produce(raw, topic, batch(b"x"), partition=3)[0] == 0
        answer = read_response(Api.FETCH, 11, waiting.frame())[1]
        assert [p for _, p in rows_of(answer)] == [3]


def test_a_moved_start_is_told_without_any_data(raw: Raw, topic_with: MakeTopic) -> None:
    topic = topic_with()
    assert produce(raw, topic, batch(b"a"))[0] == 0
    first = fetch_all(raw, 11, {topic: {0: 1}}, session=(0, 0))
    assert delete_records(raw, topic, 1).low_watermark == 1
    (row,) = rows_of(fetch_all(raw, 11, {}, session=(int(first.session_id), 1), wait_ms=LONG)).values()
    assert (row.error_code, row.log_start_offset) == (Error.none, 1)


def test_a_wrong_epoch_and_an_unknown_session_are_refused_at_once(raw: Raw, kafka_topic: str) -> None:
    session = int(fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(0, 0)).session_id)
    wrong = fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(session, 9), wait_ms=LONG)
    assert (wrong.error_code, wrong.responses) == (Error.invalid_fetch_session_epoch, ())
    unknown = fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(session ^ 1, 1), wait_ms=LONG)
    assert (unknown.error_code, unknown.responses) == (Error.fetch_session_id_not_found, ())
    # The session itself took no harm.
    assert fetch_all(raw, 11, {}, session=(session, 1)).error_code is Error.none


def test_a_full_request_with_an_old_session_replaces_it(raw: Raw, kafka_topic: str) -> None:
    old = int(fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(0, 0)).session_id)
    new = int(fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(old, 0)).session_id)
    assert new not in (0, old)
    assert fetch_all(raw, 11, {}, session=(old, 1)).error_code is Error.fetch_session_id_not_found
    closing = fetch_all(raw, 11, {kafka_topic: {0: 0}}, session=(new, -1))
    assert (closing.error_code, closing.session_id, len(closing.responses)) == (Error.none, 0, 1)
    assert fetch_all(raw, 11, {}, session=(new, 1)).error_code is Error.fetch_session_id_not_found


def test_none_of_many_partitions_starves_behind_a_busy_one(raw: Raw, topic_with: MakeTopic) -> None:
    topic, one = topic_with(4), batch(b"v" * 1000)
    for partition in range(4):
        for _ in range(4):
            assert produce(raw, topic, one, partition=partition)[0] == 0
    limits = {"max_bytes": len(one), "partition_max_bytes": len(one)}
    at = dict.fromkeys(range(4), 0)
    answer = fetch_all(raw, 11, {topic: at}, session=(0, 0), **limits)
    session, epoch, order = int(answer.session_id), 1, []
    for _ in range(16):
        (served,) = [p for (_, p), row in rows_of(answer).items() if row.records]
        order.append(served)
        at[served] += 1
        answer = fetch_all(raw, 11, {topic: {served: at[served]}}, session=(session, epoch), **limits)
        epoch += 1
    assert [sorted(order[n : n + 4]) for n in range(0, 16, 4)] == [[0, 1, 2, 3]] * 4
