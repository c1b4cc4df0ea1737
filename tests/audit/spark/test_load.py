"""The load by Spark: what lies in the warehouse, that one loader works at a time, and how it ends when data is lost."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka_classic.audit import warehouse
from kafka_classic.audit.load import Load, LoaderAtWork, LoadFailed
from kafka_classic.client.offsets import delete_records
from tests.audit.topics import START, fill, new_topic, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_classic.client.cluster import Cluster

HOUR_MS = 3_600_000

# Where several other things run, starting Spark alone may take minutes.
pytestmark = pytest.mark.timeout(1500)


def test_topics_are_loaded_once_by_topic_date_and_hour_and_read_by_the_commit_log(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster, tmp_path: Path
) -> None:
    one, two = new_topic(cluster, 2), new_topic(cluster)
    fill(kafka_bootstrap, one, 0, numbers(0, 100), START)
    fill(kafka_bootstrap, one, 1, numbers(100, 100), START + HOUR_MS)
    fill(kafka_bootstrap, two, 0, numbers(200, 100), START)
    folder = tmp_path / "warehouse"
    with Load.start(spark, kafka_bootstrap, [one, two], folder, once=True) as load:
        with pytest.raises(LoaderAtWork, match="another loader is at work"):
            Load.start(spark, kafka_bootstrap, [one, two], folder, once=True)
        batches = list(load.batches())
    assert [(batch.records, batch.behind) for batch in batches] == [(300, 0)]
    assert batches[0].offsets == {one: {"0": 100, "1": 100}, two: {"0": 100}}
    assert json.loads(json.dumps(batches[0].as_mapping()))["records"] == 300
    # What a killed task leaves, and no commit names.
    (leftover,) = folder.glob(f"topic={two}/date=*/hour=*/*.parquet")
    leftover.with_name("part-leftover.parquet").write_bytes(leftover.read_bytes())
    with Load.start(spark, kafka_bootstrap, [one, two], folder, once=True) as load:
        assert list(load.batches()) == []
    rows = warehouse.read(spark, folder).orderBy("value").collect()
    assert [int(row.value) for row in rows] == list(range(300))
    assert list(rows[0].asDict()) == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
        *("producerId", "producerEpoch", "sequence", "date", "hour"),
    ]
    assert [(row.topic, row.partition, row.offset, row.sequence) for row in rows[::100]] == [
        *((one, 0, 0, 0), (one, 1, 0, 0), (two, 0, 0, 0))
    ]
    assert {(row.partition, row.date, row.hour) for row in rows[:200]} == {
        *((0, date(2023, 11, 14), 22), (1, date(2023, 11, 14), 23))
    }


def test_hours_are_those_of_utc_in_a_session_of_any_time_zone(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster)
    for start in (START, 0):
        fill(kafka_bootstrap, topic, 0, numbers(0, 1), start)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")  # five hours and a half away
    try:
        with Load.start(spark, kafka_bootstrap, [topic], tmp_path, once=True) as load:
            list(load.batches())
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    folders = {f"{path.parents[1].name}/{path.parent.name}" for path in tmp_path.rglob("part-*.parquet")}
    assert folders == {"date=2023-11-14/hour=22", "date=1970-01-01/hour=0"}


def test_a_load_that_finds_records_deleted_says_which_and_goes_on_when_told_to(
    spark: SparkSession, kafka_bootstrap: str, cluster: Cluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster)
    fill(kafka_bootstrap, topic, 0, numbers(0, 10))
    with Load.start(spark, kafka_bootstrap, [topic], tmp_path, format="json", once=True) as load:
        assert sum(batch.records for batch in load.batches()) == 10
    fill(kafka_bootstrap, topic, 0, numbers(10, 20))
    delete_records(cluster, {(topic, 0): 25})
    with (
        Load.start(spark, kafka_bootstrap, [topic], tmp_path, format="json", once=True) as load,
        pytest.raises(LoadFailed, match=f"offsets 10 to 25 of {topic}-0 are lost: the log begins at 25 now"),
    ):
        list(load.batches())
    options = {"failOnDataLoss": "false"}
    with Load.start(spark, kafka_bootstrap, [topic], tmp_path, format="json", once=True, options=options) as load:
        assert sum(batch.records for batch in load.batches()) == 5
    found = warehouse.read(spark, tmp_path).collect()
    assert sorted(int(row.value) for row in found) == [*range(10), *range(25, 30)]


def test_a_folder_that_nothing_was_loaded_into_is_no_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(warehouse.NotAWarehouse, match="is no folder that `kafka-classic load` wrote"):
        warehouse.read(spark, tmp_path)
