"""Rows into topics, from batches and from streams: the columns value, key, topic, partition and headers.

Each task writes with a producer of its own, acks=all and idempotent, and reports success only once every record is
acknowledged. A task that is tried again writes again: at least once, as Spark's own sink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafka_classic.audit.source.options import Options
from kafka_classic.producer import Producer
from kafka_classic.producer.futures import RecordFuture
from kafka_classic.settings import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_COLUMNS = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
# Bigger batches than a producer's default: whoever writes a table is not waiting for the first row.
_SETTINGS = {"batch.size": str(256 << 10), "linger.ms": "20", "client.id": "kafka-classic-spark"}
_UNDECIDED = 20_000


class Written(WriterCommitMessage):
    """How many records a task has written."""

    def __init__(self, records: int) -> None:
        self.records = records


class Writer(DataSourceArrowWriter):
    """Of a batch query."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(options, schema, overwrite=False)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what a task reported is written."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: what was written stays."""


def check(options: Options, schema: StructType, overwrite: bool) -> None:
    """Refuse what cannot be written, before any task runs."""
    if overwrite:
        raise SettingsError('a topic can only be appended to: use mode("append")')
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise SettingsError(f"there is no column 'value' to write, only {', '.join(types) or 'none'}")
    if "topic" not in types and options.topic is None:
        raise SettingsError("say where to write: the option 'topic', or a column of that name")
    for name, allowed in _COLUMNS.items():
        if types.get(name, allowed[0]) not in allowed:
            raise SettingsError(f"column {name!r} is {types[name]}: cast it to {' or '.join(allowed)}")


def write(options: Options, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write a task's rows; returns when all are acknowledged, raises if one cannot be."""
    undecided: deque[RecordFuture] = deque()
    count = 0
    with Producer(options.bootstrap, {**_SETTINGS, **options.producing}) as producer:
        for batch in batches:
            for value, key, topic, partition, headers in _rows(batch, options.topic):
                if topic is None:
                    raise SettingsError("the column 'topic' is null in a row: fill it, or set the option 'topic'")
                undecided.append(producer.send(topic, value, key, headers, partition=partition))
                count += 1
                if len(undecided) > _UNDECIDED:
                    undecided.popleft().result()
        producer.flush()
        for future in undecided:
            future.result()
    return Written(count)


def _rows(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[Any, ...]]:
    """The option 'topic' is stronger than the column, as in Spark."""
    topics = [topic] * batch.num_rows if topic is not None else _column(batch, "topic")
    headers = ([(one["key"], one["value"]) for one in row or ()] for row in _column(batch, "headers"))
    return zip(_bytes(batch, "value"), _bytes(batch, "key"), topics, _column(batch, "partition"), headers, strict=True)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows


def _bytes(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    return [one.encode() if isinstance(one, str) else one for one in _column(batch, name)]
