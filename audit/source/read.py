"""Topics as a table: plans its tasks on the driver and reads one range of offsets in each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from kafka_classic.audit.source import filters, positions
from kafka_classic.audit.source.columns import Columns, Piece, pieces_of
from kafka_classic.audit.source.fetch import fail, fetch_range, tolerate
from kafka_classic.audit.source.options import Options, Where
from kafka_classic.audit.source.plan import Range, between, split
from kafka_classic.client.offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Spark refuses a reader that takes filters in a session whose pushdown is off, which is the default. A session with it
# on asks in a program of its own: only there filters are taken.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class RangeTask(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: Range, since_ms: int | None = None) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted
        self.since_ms = since_ms


class Reader(DataSourceReader):
    """A batch query's reader."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_batch()
        self._options = options
        self._schema = schema
        self._pushed = filters.Pushed()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with positions.connect(options) as cluster:
            places = positions.subscribed(cluster, options)
            start = positions.resolve(cluster, places, options.start or Where(all=EARLIEST), "startingOffsets")
            end = positions.resolve(cluster, places, options.end or Where(all=LATEST), "endingOffsets")
        left = self._pushed.inside(between(start, end))
        return tasks(options, left, self._pushed.since_ms)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._schema, partition)


class FilteringReader(Reader):
    """The same, which leaves unread what the query's filters would drop."""

    def pushFilters(self, filters_given: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._pushed = filters.push(filters_given)
        return filters_given  # Spark applies them again: what is read may begin in the middle of what matches


def reader(options: Options, schema: StructType) -> Reader:
    """Return the reader that this session can use."""
    return (FilteringReader if _PUSHING in sys.modules else Reader)(options, schema)


def tasks(options: Options, ranges: Iterable[Range], since_ms: int | None = None) -> list[InputPartition]:
    """Return the tasks of some ranges, cut as the options say."""
    return [RangeTask(one, since_ms) for one in split(ranges, options.min_partitions, options.max_records)]


def read_task(options: Options, schema: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read one task's range as Arrow batches, on an executor."""
    if not isinstance(partition, RangeTask):
        return  # Spark makes one task where there is nothing to read
    wanted = partition.wanted
    arrow = to_arrow_schema(schema, timezone="UTC")
    on_loss = fail if options.fail_on_data_loss else tolerate
    with positions.connect(options) as cluster:

        def pieces() -> Iterator[Piece]:
            for chunk in fetch_range(
                cluster, wanted, limits=options.limits, on_loss=on_loss, patience=options.patience_s
            ):
                yield from pieces_of(chunk, wanted.start, wanted.end, arrow.names, partition.since_ms)

        yield from Columns(wanted.topic, wanted.partition, arrow).batches(pieces())
