"""The Spark data source, the load into the warehouse, and the count-based audit (P24 to P26).

from kafka_classic.audit import register

register(spark)  # or not: Spark finds the format by itself
spark.read.format("kafka_classic").option("kafka.bootstrap.servers", …).option("subscribe", "events").load()

Nothing of Spark is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the format `kafka_classic` known to a session.

    Filters do not reach it, which is Spark's default, and must not: Spark 4.3 keeps what it planned for the first query
    with filters for every later one of the same DataFrame, which then silently lacks what those dropped.
    """
    from kafka_classic.audit.source.source import KafkaClassicSource

    spark.dataSource.register(KafkaClassicSource)
