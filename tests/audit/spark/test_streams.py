"""Topics as streams, by Spark: where batches begin and end, what is added, lost and limited, and a stream written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from kafka_classic.client.admin import create_partitions
from kafka_classic.client.offsets import delete_records
from tests.audit.topics import fill, new_topic, numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_classic.client.cluster import Cluster

# Where several other things run, starting Spark alone may take minutes.
pytestmark = pytest.mark.timeout(1500)


class Streaming:
    """Runs a query from a topic into a folder until it has caught up, again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.checkpoint = folder / "checkpoint"
        self.rows: list[tuple[int, int]] = []

    def run(self, **options: str) -> list[int]:
        """Return how many rows each batch had."""
        reader = self.spark.readStream.format("kafka_classic").option("kafka.bootstrap.servers", self.bootstrap)
        stream = reader.options(**{"startingOffsets": "earliest", **options}).load()
        sizes: list[int] = []

        def take(rows: DataFrame, number: int) -> None:
            found = [(row.partition, int(row.value)) for row in rows.select("partition", "value").collect()]
            sizes.append(len(found))
            self.rows += found

        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(1000)
        return sizes

    def values(self) -> list[int]:
        return sorted(value for _, value in self.rows)

    def offsets(self, batch: int) -> dict[str, dict[str, int]]:
        told = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        found: dict[str, dict[str, int]] = json.loads(told)
        return found


@pytest.fixture
def streaming(spark: SparkSession, kafka_bootstrap: str, tmp_path: Path) -> Streaming:
    return Streaming(spark, kafka_bootstrap, tmp_path)


def test_a_stream_goes_on_where_it_was_and_reads_a_partition_that_was_added_from_its_first_record(
    streaming: Streaming, cluster: Cluster
) -> None:
    topic = new_topic(cluster)
    fill(streaming.bootstrap, topic, 0, numbers(0, 100))
    sizes = streaming.run(subscribe=topic, maxOffsetsPerTrigger="40")
    assert sizes == [0, 40, 40, 20]  # the first one only logs where the query begins
    assert streaming.offsets(0) == {topic: {"0": 0}}
    create_partitions(cluster, {topic: 2})
    fill(streaming.bootstrap, topic, 1, numbers(100, 30))
    fill(streaming.bootstrap, topic, 0, numbers(130, 5))
    streaming.run(subscribe=topic)
    assert streaming.values() == list(range(135))


def test_a_query_that_begins_at_latest_and_dies_in_its_first_batch_misses_nothing_after_its_start(
    streaming: Streaming, cluster: Cluster
) -> None:
    topic = new_topic(cluster)
    fill(streaming.bootstrap, topic, 0, numbers(0, 10))
    streaming.run(subscribe=topic, startingOffsets="latest")
    assert streaming.offsets(0) == {topic: {"0": 10}}
    # As a kill before the first commit leaves it.
    for commit in (streaming.checkpoint / "commits").iterdir():
        commit.unlink()
    fill(streaming.bootstrap, topic, 0, numbers(10, 10))
    streaming.run(subscribe=topic, startingOffsets="latest")
    assert streaming.values() == list(range(10, 20))


def test_what_retention_deleted_stops_a_stream_before_a_batch_is_logged_and_it_can_go_on_without(
    streaming: Streaming, cluster: Cluster
) -> None:
    topic = new_topic(cluster)
    fill(streaming.bootstrap, topic, 0, numbers(0, 10))
    streaming.run(subscribe=topic)
    fill(streaming.bootstrap, topic, 0, numbers(10, 10))
    delete_records(cluster, {(topic, 0): 15})
    logged = sorted(path.name for path in (streaming.checkpoint / "offsets").iterdir())
    with pytest.raises(PySparkException, match=f"offsets 10 to 15 of {topic}-0 are lost: the log begins at 15"):
        streaming.run(subscribe=topic)
    assert sorted(path.name for path in (streaming.checkpoint / "offsets").iterdir()) == logged
    streaming.run(subscribe=topic, failOnDataLoss="false")
    assert streaming.values() == [*range(10), *range(15, 20)]


def test_a_stream_is_written_into_a_topic(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster, tmp_path: Path
) -> None:
    source, target = new_topic(cluster), new_topic(cluster)
    fill(kafka_bootstrap, source, 0, numbers(0, 300))
    reader = spark.readStream.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    stream = reader.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
    writer = stream.writeStream.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination(1000)
    table = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", kafka_bootstrap)
    assert sorted(int(row.value) for row in table.option("subscribe", target).load().collect()) == list(range(300))
