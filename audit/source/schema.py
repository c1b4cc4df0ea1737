"""The columns of the data source: those of Spark's own Kafka source, and on request the producer of each record."""

from __future__ import annotations

from difflib import get_close_matches

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_classic.settings import SettingsError

KAFKA: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
HEADERS: dict[str, DataType] = {
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
}
# From the batch's header: they cost a message nothing on the wire. Null where a producer has no id.
PRODUCER: dict[str, DataType] = {"producerId": LongType(), "producerEpoch": IntegerType(), "sequence": IntegerType()}
ALL = {**KAFKA, **HEADERS, **PRODUCER}


def schema(headers: bool, producer: bool) -> StructType:
    """Return the columns where the user names none."""
    chosen = {**KAFKA, **(HEADERS if headers else {}), **(PRODUCER if producer else {})}
    return StructType([StructField(name, kind) for name, kind in chosen.items()])


def check_schema(wanted: StructType) -> None:
    """Refuse a user's schema that names a column we do not have, or gives one another type."""
    for field in wanted.fields:
        kind = ALL.get(field.name)
        if kind is None:
            near = get_close_matches(field.name, ALL, 1, 0.0)
            raise SettingsError(
                f"there is no column {field.name!r}; did you mean {near[0]!r}? All are: {', '.join(ALL)}"
            )
        if field.dataType.simpleString() != kind.simpleString():
            raise SettingsError(
                f"column {field.name!r} is {kind.simpleString()}, not {field.dataType.simpleString()}: "
                "name its own type and cast it in the query"
            )
