"""The stream reader, called as Spark calls it, on a real broker: from where to where each micro-batch goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kafka_classic.audit.source.fetch import DataLost
from kafka_classic.audit.source.options import read_options
from kafka_classic.audit.source.schema import schema
from kafka_classic.audit.source.stream import StreamReader
from kafka_classic.client.admin import NewTopic, create_partitions, create_topics, delete_topics
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.offsets import delete_records
from kafka_classic.settings import SettingsError
from tests.audit.topics import fill, new_topic, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_classic.client.cluster import Cluster

    Make = Callable[..., StreamReader]
ALL = ReadMaxRows((1 << 63) - 1)


@pytest.fixture
def make(kafka_bootstrap: str) -> Iterator[Make]:
    made: list[StreamReader] = []

    def reader(topic: str, **options: str) -> StreamReader:
        given = {
            "kafka.bootstrap.servers": kafka_bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        made.append(StreamReader(read_options(given), schema(headers=False, producer=False)))
        return made[-1]

    yield reader
    for one in made:
        one.stop()


def read(reader: StreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[int]:
    batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
    return sorted(int(value) for batch in batches for value in batch.column("value").to_pylist())


def test_the_first_batch_is_empty_and_the_next_has_all(make: Make, cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 100))
    reader = make(topic)
    begin = reader.initialOffset()
    assert reader.latestOffset(begin, ALL) == begin == {topic: {"0": 0}}
    end = reader.latestOffset(begin, ALL)
    assert end == {topic: {"0": 100}} == reader.reportLatestOffset()
    assert read(reader, begin, end) == list(range(100))


def test_a_query_of_one_batch_only_has_no_empty_one(make: Make, cluster: Cluster, kafka_bootstrap: str) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 10))
    reader = make(topic)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {topic: {"0": 10}}


def test_a_replayed_first_batch_is_followed_by_one_with_data(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 10))
    reader = make(topic)
    begin = reader.initialOffset()
    assert list(reader.partitions(begin, begin)) == []  # as it was logged by the life before
    assert reader.latestOffset(begin, ALL) == {topic: {"0": 10}}


def test_a_limit_holds_for_each_batch_and_available_now_ends_where_it_began(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster, 2)
    fill(kafka_bootstrap, topic, 0, numbers(0, 90))
    fill(kafka_bootstrap, topic, 1, numbers(90, 10))
    reader = make(topic, maxOffsetsPerTrigger="20")
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    fill(kafka_bootstrap, topic, 0, numbers(100, 50))
    start = reader.latestOffset(reader.initialOffset(), limit)
    sizes = []
    while (end := reader.latestOffset(start, limit)) != start:
        sizes.append(len(read(reader, start, end)))
        start = end
    assert start == {topic: {"0": 90, "1": 10}}
    assert max(sizes) <= 20
    assert sum(sizes) == 100


def test_a_batch_waits_until_there_is_enough_or_it_has_waited_long(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 10))
    start = {topic: {"0": 0}}
    patient, hurried = (
        make(topic, minOffsetsPerTrigger="11"),
        make(topic, minOffsetsPerTrigger="11", maxTriggerDelay="0s"),
    )
    assert patient.latestOffset(start, ALL) == start
    assert hurried.latestOffset(start, ALL) == {topic: {"0": 10}}
    fill(kafka_bootstrap, topic, 0, numbers(10, 1))
    assert patient.latestOffset(start, ALL) == {topic: {"0": 11}}


def test_a_partition_that_was_added_is_read_from_its_first_record(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 5))
    start = {topic: {"0": 5}}
    create_partitions(cluster, {topic: 2})
    fill(kafka_bootstrap, topic, 1, numbers(5, 5))
    reader = make(topic)
    end = reader.latestOffset(start, ALL)
    assert end == {topic: {"0": 5, "1": 5}}
    assert read(reader, start, end) == [5, 6, 7, 8, 9]


def test_deleted_records_are_a_loss_before_a_batch_is_planned(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 20))
    delete_records(cluster, {(topic, 0): 15})
    start = {topic: {"0": 10}}
    with pytest.raises(DataLost, match=f"offsets 10 to 15 of {topic}-0 are lost: the log begins at 15 now"):
        make(topic).latestOffset(start, ALL)
    reader = make(topic, failOnDataLoss="false")
    assert read(reader, start, reader.latestOffset(start, ALL)) == [15, 16, 17, 18, 19]


def test_a_topic_that_was_made_anew_is_a_loss_and_nothing_is_read_twice(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 20))
    start = {topic: {"0": 20}}
    delete_topics(cluster, [topic])
    with pytest.raises(UnknownTopic, match=f"there is no topic '{topic}'"):
        make(topic).latestOffset(start, ALL)
    assert make(topic, failOnDataLoss="false").latestOffset(start, ALL) == start
    create_topics(cluster, [NewTopic(topic, 1)])
    fill(kafka_bootstrap, topic, 0, numbers(20, 5))
    with pytest.raises(DataLost, match=r"the log ends at 5 now; was the topic made anew"):
        make(topic).latestOffset(start, ALL)
    assert make(topic, failOnDataLoss="false").latestOffset(start, ALL) == start


def test_a_topic_that_was_deleted_keeps_nobody_from_reading_the_others_where_losses_are_let_pass(
    make: Make, cluster: Cluster, kafka_bootstrap: str
) -> None:
    stays, goes = new_topic(cluster), new_topic(cluster)
    fill(kafka_bootstrap, stays, 0, numbers(0, 20))
    start = {stays: {"0": 5}, goes: {"0": 0}}
    delete_topics(cluster, [goes])
    with pytest.raises(UnknownTopic, match=f"there is no topic '{goes}'"):
        make(f"{stays},{goes}").latestOffset(start, ALL)
    reader = make(f"{stays},{goes}", failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert end == {stays: {"0": 20}, goes: {"0": 0}}
    assert read(reader, start, end) == list(range(5, 20))


def test_topics_that_come_to_match_a_pattern_are_read_too(make: Make, cluster: Cluster, kafka_bootstrap: str) -> None:
    first = new_topic(cluster)
    options = {
        "kafka.bootstrap.servers": kafka_bootstrap,
        "subscribePattern": f"{first}.*",
        "startingOffsets": "earliest",
    }
    reader = StreamReader(read_options(options), schema(headers=False, producer=False))
    try:
        start = reader.initialOffset()
        create_topics(cluster, [NewTopic(f"{first}-more", 1)])
        fill(kafka_bootstrap, f"{first}-more", 0, numbers(0, 3))
        reader.latestOffset(start, ALL)
        end = reader.latestOffset(start, ALL)
        assert end == {first: {"0": 0}, f"{first}-more": {"0": 3}}
        assert read(reader, start, end) == [0, 1, 2]
    finally:
        reader.stop()


def test_a_stream_with_an_end_is_refused(make: Make) -> None:
    with pytest.raises(SettingsError, match="a stream has no end: endingOffsets"):
        make("any", endingOffsets="latest")
