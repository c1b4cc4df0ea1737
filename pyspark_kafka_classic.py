"""By this name Spark finds the data source of an installed kafka-classic by itself: it looks for `pyspark_…`."""

from kafka_classic.audit.source.source import KafkaClassicSource as DefaultSource

__all__ = ["DefaultSource"]
