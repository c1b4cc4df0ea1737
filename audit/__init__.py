"""The Spark data source, the load into the warehouse, and the count-based audit (P24 to P26).

from kafka_classic.audit import register

register(spark)
spark.read.format("kafka_classic").option("kafka.bootstrap.servers", …).option("subscribe", "events").load()

Nothing of Spark is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the format `kafka_classic` known to a session, and let filters reach it, which Spark has off by default."""
    from kafka_classic.audit.source.source import KafkaClassicSource

    spark.dataSource.register(KafkaClassicSource)
    spark.conf.set(_PUSHDOWN, "true")
