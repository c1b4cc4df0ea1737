"""Topics as tables, by Spark: what is read, what is spared, what is refused, and rows written back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from kafka_classic.client.offsets import delete_records
from kafka_classic.client.simple import beginning, consume
from kafka_classic.testing.waiting import until
from tests.audit.topics import START, fill, new_topic, numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_classic.client.cluster import Cluster

# Where several other things run, starting Spark alone may take minutes.
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def topic(spark: SparkSession, kafka_cluster: Any) -> str:
    """Two partitions: 0 to 999 and 1000 to 1199; what stands where the tests only read."""
    from kafka_classic.client.cluster import Cluster

    with Cluster(kafka_cluster.bootstrap) as cluster:
        name = new_topic(cluster, 2)
    fill(kafka_cluster.bootstrap, name, 0, numbers(0, 1000), START)
    fill(kafka_cluster.bootstrap, name, 1, numbers(1000, 200), START)
    return name


def table(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**{"subscribe": topic, **options}).load()


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """A session in which filters reach the source, for one query a table."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_the_format_is_found_without_being_registered(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    assert table(spark, kafka_bootstrap, topic).count() == 1200


def test_the_columns_are_those_of_sparks_own_source(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    frame = table(spark, kafka_bootstrap, topic, includeHeaders="true", includeProducer="true")
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert list(kinds.items())[:7] == [
        *(("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint")),
        *(("timestamp", "timestamp"), ("timestampType", "int")),
    ]
    assert kinds["headers"] == "array<struct<key:string,value:binary>>"
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert len(rows) == 1200
    for number, row in enumerate(rows):
        index = number if number < 1000 else number - 1000
        assert (bytes(row.value), bytes(row.key)) == (b"%08d" % number, b"k%d" % (index % 7))
        assert (row.topic, row.partition, row.offset, row.timestampType) == (topic, number // 1000, index, 0)
        assert row.headers is None
        assert (row.producerId >= 0, row.producerEpoch, row.sequence) == (True, 0, index)
    assert rows[5].timestamp == datetime.fromtimestamp((START + 5) / 1000, UTC).replace(tzinfo=None)


def test_a_table_that_was_filtered_is_whole_in_the_next_query(
    spark: SparkSession, kafka_bootstrap: str, topic: str
) -> None:
    frame = table(spark, kafka_bootstrap, topic)
    assert values(frame.where("partition = 1 and offset < 3")) == [1000, 1001, 1002]
    assert frame.count() == 1200
    assert values(frame.where("partition = 0 and offset < 2")) == [0, 1]


def test_filters_on_partition_offset_and_time_give_what_they_say_and_spare_the_rest(
    spark: SparkSession, kafka_bootstrap: str, topic: str, pushdown: None
) -> None:
    frame = table(spark, kafka_bootstrap, topic)
    found = frame.where("partition in (0, 7) and offset >= 990 and offset < 995 and topic = '" + topic + "'")
    assert values(found) == [990, 991, 992, 993, 994]
    # One task is left: that of partition 0.
    assert found.rdd.getNumPartitions() == 1
    assert values(frame.where("timestamp >= timestamp_millis(1700000000997)")) == [997, 998, 999]


def test_columns_are_chosen_by_a_schema_of_the_users(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    reader = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    reader = reader.option("subscribe", topic)
    assert reader.schema("offset long, partition int").load().agg({"offset": "sum"}).collect()[0][0] == 519_400
    assert reader.schema("partition int").load().count() == 1200
    with pytest.raises(PySparkException, match="there is no column 'valeu'; did you mean 'value'"):
        reader.schema("valeu binary").load().count()
    with pytest.raises(PySparkException, match="column 'value' is binary, not string: name its own type and cast"):
        reader.schema("value string").load().count()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"T":{"0":10,"1":-2}}', "endingOffsets": '{"T":{"0":12,"1":3}}'}, "10 11 1000 1001 1002"),
        ({"startingTimestamp": str(START + 197), "endingTimestamp": str(START + 199)}, "197 198 1197 1198"),
        (
            {
                "startingOffsetsByTimestamp": f'{{"T":{{"0":{START + 998},"1":{START + 500}}}}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            "998 999",
        ),
        ({"assign": '{"T":[1]}', "endingOffsets": '{"T":{"1":2}}'}, "1000 1001"),
        (
            {"subscribePattern": "T.*", "minPartitions": "5", "startingOffsets": '{"T":{"0":999,"1":198}}'},
            "999 1198 1199",
        ),
    ],
)
def test_where_reading_begins_and_ends(
    spark: SparkSession, kafka_bootstrap: str, topic: str, options: dict[str, str], expected: str
) -> None:
    named = {name: text.replace("T", topic) for name, text in options.items()}
    reader = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    chosen = {} if {"assign", "subscribePattern"} & named.keys() else {"subscribe": topic}
    assert " ".join(map(str, values(reader.options(**chosen, **named).load()))) == expected


def test_a_partition_is_shared_out_to_tasks(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    frame = table(spark, kafka_bootstrap, topic, minPartitions="7", maxRecordsPerPartition="250")
    assert frame.rdd.getNumPartitions() == 7
    assert values(frame) == list(range(1200))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOfsets": "earliest"}, "there is no option 'startingofsets'; did you mean startingOffsets"),
        (
            {"kafka.fetch.max.byte": "1"},
            "there is no option 'kafka.fetch.max.byte'; did you mean kafka.fetch.max.bytes",
        ),
        ({"startingTimestamp": str(START + 5000)}, "no record is that late in .*-0, .*-1"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    spark: SparkSession, kafka_bootstrap: str, topic: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        table(spark, kafka_bootstrap, topic, **options).count()


def test_an_unknown_topic_is_named(spark: SparkSession, kafka_bootstrap: str) -> None:
    with pytest.raises(PySparkException, match="there is no topic 'nowhere'"):
        table(spark, kafka_bootstrap, "nowhere").count()


def test_what_retention_has_deleted_stops_the_query_with_the_lost_range_named(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 50))
    delete_records(cluster, {(topic, 0): 30})
    places = {"startingOffsets": f'{{"{topic}":{{"0":10}}}}'}
    with pytest.raises(PySparkException, match=f"offsets 10 to 30 of {topic}-0 are lost: the log begins at 30 now"):
        table(spark, kafka_bootstrap, topic, **places).count()
    assert values(table(spark, kafka_bootstrap, topic, failOnDataLoss="false", **places)) == list(range(30, 50))


def test_a_classic_topic_whose_offsets_are_bytes_is_read_whole(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster
) -> None:
    topic = new_topic(cluster, classic="true", flush_messages="1")
    fill(kafka_bootstrap, topic, 0, numbers(0, 300))
    # What was written can be read once it was flushed (P8), which is not waited for by who writes.
    until(lambda: sum(1 for _ in consume(cluster, beginning(cluster, [topic]), count=300, idle=0.2)) == 300)
    assert values(table(spark, kafka_bootstrap, topic, minPartitions="4")) == list(range(300))


def test_rows_are_written_with_all_that_they_have(spark: SparkSession, kafka_bootstrap: str, cluster: Cluster) -> None:
    topic = new_topic(cluster, 3)
    rows = spark.sql(
        "select cast(id as string) key, cast(id * 2 as string) value, cast(id % 3 as int) partition,"
        f" '{topic}' topic, if(id % 2 = 0, array(struct('h' as key, cast('v' as binary) as value)), null) headers"
        " from range(900)"
    )
    writer = rows.write.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    writer.option("kafka.compression.type", "lz4").mode("append").save()
    found = table(spark, kafka_bootstrap, topic, includeHeaders="true").collect()
    assert sorted(int(row.key) for row in found) == list(range(900))
    for row in found:
        id = int(row.key)
        assert (int(row.value), row.partition) == (id * 2, id % 3)
        headers = [(header.key, bytes(header.value)) for header in row.headers or ()]
        assert headers == ([("h", b"v")] if id % 2 == 0 else [])


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("select 1 value", {"topic": "x"}, "column 'value' is int: cast it to binary or string"),
        ("select 'a' value", {}, "say where to write: the option 'topic', or a column of that name"),
        ("select 'a' key", {"topic": "x"}, "there is no column 'value' to write"),
        ("select 'a' value", {"topic": "x", "kafka.acks": "most"}, "kafka.*acks"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_before_anything_is(
    spark: SparkSession, kafka_bootstrap: str, query: str, options: dict[str, str], message: str
) -> None:
    writer = spark.sql(query).write.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    with pytest.raises(PySparkException, match=message):
        writer.options(**options).mode("append").save()
