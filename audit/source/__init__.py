"""The data source `kafka_classic` for Spark: topics as tables and streams, with the options of Spark's Kafka source."""
