"""What Spark finds under the format `kafka_classic`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from kafka_classic.audit.source import schema as columns
from kafka_classic.audit.source.options import read_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "kafka_classic"


class KafkaClassicSource(DataSource):
    """Topics of any Kafka cluster: tables, streams, and what both can be written to.

    Made anew for every use, in a Python process beside the JVM: all that is wrong with the options is said here.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._read = read_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return columns.schema(self._read.headers, self._read.producer)

    def reader(self, schema: StructType) -> DataSourceReader:
        from kafka_classic.audit.source.read import reader

        columns.check_schema(schema)
        return reader(self._read, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from kafka_classic.audit.source.stream import StreamReader

        columns.check_schema(schema)
        return StreamReader(self._read, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from kafka_classic.audit.source.write import Writer

        return Writer(self._read, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from kafka_classic.audit.source.write import StreamWriter

        return StreamWriter(self._read, schema)
