"""Offsets committed to a coordinator: every version, every refusal, and what stands in `__consumer_offsets`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kafka_classic.groups.placing import partition_of
from kafka_classic.groups.records import OffsetKey, OffsetValue, read_key, read_offset
from kafka_classic.records.decode import decode_records
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from kafka_classic.wire.errors import Error
from tests.broker.calls import create_partitions, delete_topics, metadata, topic_id
from tests.broker.conftest import MakeTopic, make_topic
from tests.broker.group_calls import (
    commit,
    committed,
    coordinator,
    delete_offsets,
    fetch_offsets,
    find_coordinator,
)
from tests.broker.raw import Raw, batch, fetch, produce

OFFSETS = "__consumer_offsets"


@pytest.fixture
def group(raw: Raw) -> str:
    name = f"g-{uuid.uuid4().hex[:12]}"
    coordinator(raw, name)
    return name


@pytest.mark.parametrize("version", range(2, 10))
def test_what_is_committed_is_fetched_in_every_version(
    raw: Raw, group: str, topic_with: MakeTopic, version: int
) -> None:
    topic = topic_with(3)
    told = commit(raw, group, {(topic, 0): 7, (topic, 2): 9}, version=version, metadata="why", epoch=4)
    assert set(told.values()) == {Error.none}
    for reading in range(1, 10):
        _, rows = fetch_offsets(raw, group, {topic: (0, 1, 2)}, version=reading)
        assert [rows[topic, n].committed_offset for n in range(3)] == [7, -1, 9]
        assert [rows[topic, n].metadata for n in range(3)] == ["why", "", "why"]
        assert rows[topic, 0].committed_leader_epoch == (4 if version >= 6 and reading >= 5 else -1)
        if reading >= 2:
            assert committed(raw, group, version=reading) == {(topic, 0): 7, (topic, 2): 9}


def test_topics_go_by_their_ids_from_version_10_on(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(1)
    id, nobody = topic_id(raw, topic), uuid.uuid4()
    assert commit(raw, group, {(id, 0): 5, (nobody, 0): 5}, version=10) == {
        (id, 0): Error.none,
        (nobody, 0): Error.unknown_topic_id,
    }
    assert committed(raw, group, version=10) == {(id, 0): 5}
    _, rows = fetch_offsets(raw, group, {id: (0,), nobody: (0,)}, version=10)
    assert rows[id, 0].committed_offset == 5
    assert rows[nobody, 0].error_code == Error.unknown_topic_id


def test_a_commit_is_refused_row_by_row(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(1)
    assert commit(raw, group, {(topic, 0): 1, (topic, 1): 1, ("nowhere", 0): 1}) == {
        (topic, 0): Error.none,
        (topic, 1): Error.unknown_topic_or_partition,
        ("nowhere", 0): Error.unknown_topic_or_partition,
    }
    assert commit(raw, group, {(topic, 0): 2}, metadata="é" * 2049) == {(topic, 0): Error.offset_metadata_too_large}
    assert committed(raw, group) == {(topic, 0): 1}


def test_a_generation_that_there_is_not_cannot_commit(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(1)
    assert commit(raw, group, {(topic, 0): 1}, generation=3, member="m") == {(topic, 0): Error.illegal_generation}
    assert committed(raw, group) == {}


def test_it_stands_in_the_offsets_topic_as_kafka_writes_it(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(1)
    commit(raw, group, {(topic, 0): 41}, metadata="note", epoch=2)
    _, _, found = fetch(raw, OFFSETS, 0, partition=partition_of(group, 50))
    mine = [r for r in decode_records(found) if r.key and read_key(r.key) == OffsetKey(group, topic, 0)]
    assert mine[-1].value is not None
    value = read_offset(mine[-1].value)
    assert value._replace(committed_at=0) == OffsetValue(41, 2, "note", 0)
    assert 0 <= mine[-1].timestamp - value.committed_at < 60_000


def test_the_offsets_topic_is_internal_and_only_brokers_write_to_it(raw: Raw, group: str) -> None:
    (told,) = metadata(raw, OFFSETS).topics
    assert told.is_internal
    assert len(told.partitions) == 50
    before = fetch(raw, OFFSETS, 0)[1]
    for acks in (1, -1, 1):
        assert produce(raw, OFFSETS, batch(b"mine"), acks=acks) == (Error.invalid_topic_exception, -1)
    assert fetch(raw, OFFSETS, 0)[1] == before
    assert create_partitions(raw, OFFSETS, 51).error_code == Error.invalid_partitions


def test_offsets_are_deleted_on_demand(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(3)
    commit(raw, group, {(topic, n): n for n in range(3)})
    answer = delete_offsets(raw, group, {topic: (0, 2, 9)})
    assert answer.error_code == Error.none
    assert [row.error_code for row in answer.topics[0].partitions] == [
        Error.none,
        Error.none,
        Error.unknown_topic_or_partition,
    ]
    assert committed(raw, group) == {(topic, 1): 1}
    assert delete_offsets(raw, f"{group}-not", {topic: (0,)}).error_code == Error.group_id_not_found


def test_a_deleted_topic_takes_its_offsets_along(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic, other = topic_with(2), topic_with(1)
    commit(raw, group, {(topic, 0): 1, (topic, 1): 1, (other, 0): 1})
    (deleted,) = delete_topics(raw, topic)
    assert deleted.error_code == Error.none
    until(lambda: committed(raw, group) == {(other, 0): 1})


def test_there_is_no_coordinator_for_transactions_nor_for_what_nobody_knows(raw: Raw) -> None:
    for version in range(1, 7):
        assert find_coordinator(raw, "t", key_type=1, version=version)[0].error_code == Error.coordinator_not_available
    assert find_coordinator(raw, "t", key_type=7)[0].error_code == Error.invalid_request
    assert find_coordinator(raw, "g" * 3, version=0)[0].error_code == Error.none


def test_one_whose_name_no_record_can_hold_is_refused(raw: Raw, group: str, topic_with: MakeTopic) -> None:
    topic = topic_with(1)
    assert commit(raw, "g" * 32_768, {(topic, 0): 1}) == {(topic, 0): Error.invalid_group_id}


def test_offsets_survive_a_kill(restartable: LocalCluster) -> None:
    broker = restartable.brokers[0]
    topic = make_topic(broker.address, 2)
    with Raw(broker.address) as raw:
        coordinator(raw, "survivor")
        for offset in range(20):
            assert set(commit(raw, "survivor", {(topic, 0): offset, (topic, 1): 2 * offset}).values()) == {Error.none}
        delete_offsets(raw, "survivor", {topic: (1,)})
    broker.kill()
    broker.start()
    broker.wait_ready()
    with Raw(broker.address) as raw:
        until(lambda: fetch_offsets(raw, "survivor", None)[0] == Error.none)
        assert committed(raw, "survivor") == {(topic, 0): 19}


@pytest.mark.soak  # retention counts in minutes
def test_offsets_of_a_group_that_is_gone_are_forgotten_by_the_clock_and_stay_so(tmp_path: Path) -> None:
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "200"}
    with LocalCluster(tmp_path, settings=settings) as cluster:
        broker = cluster.brokers[0]
        topic = make_topic(broker.address, 1)
        with Raw(broker.address) as raw:
            coordinator(raw, "gone")
            coordinator(raw, "there")
            assert commit(raw, "gone", {(topic, 0): 7}) == {(topic, 0): Error.none}

            def forgotten() -> bool:
                assert commit(raw, "there", {(topic, 0): 9}) == {(topic, 0): Error.none}
                return committed(raw, "gone") == {}

            until(forgotten, timeout=120.0)
            assert committed(raw, "there") == {(topic, 0): 9}
        broker.kill()
        broker.start()
        broker.wait_ready()
        with Raw(broker.address) as raw:
            until(lambda: fetch_offsets(raw, "there", None)[0] == Error.none)
            assert committed(raw, "there") == {(topic, 0): 9}
            until(lambda: fetch_offsets(raw, "gone", None)[0] == Error.none)
            assert committed(raw, "gone") == {}
