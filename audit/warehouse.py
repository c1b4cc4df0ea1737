"""The folder that topics are loaded into: what is in it, whose it is, and how it is read.

    DIR/topic=…/date=…/hour=…/part-….parquet      the records, by the hour of their event time in UTC
    DIR/_spark_metadata/                          the sink's commit log: which files count
    DIR/_checkpoint/                              the query's: from which offset to which each commit goes
    DIR/_load.json                                which cluster and topics it was loaded from, in which format
    DIR/_lock                                     held by the one loader at work

A load that was killed leaves files that no commit names. So the folder is read by its commit log: by `read`, or by
Spark when it is given just this folder. A raw listing of the files would count records twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_classic.audit.source.schema import ALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "orc", "json")
PARTITIONED_BY = ("topic", "date", "hour")
CHECKPOINT = "_checkpoint"
COMMITS = "_spark_metadata"
LOCK = "_lock"
_MARK = "_load.json"


class NotAWarehouse(ValueError):
    """The folder is not one that topics were loaded into, or not in this way."""


class Origin(NamedTuple):
    """What a folder was loaded from."""

    cluster: str | None
    topics: tuple[str, ...]
    format: str


def read(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the records of a warehouse: exactly those that were committed, each once."""
    from pyspark.sql.types import DateType, IntegerType, StructField, StructType

    found = origin(Path(folder))
    if found is None:
        raise NotAWarehouse(f"{folder} is no folder that `kafka-classic load` wrote: there is no {_MARK} in it")
    kinds = {**ALL, "date": DateType(), "hour": IntegerType()}
    # Named, because Spark would take a topic called 2024 for a number.
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    if not (Path(folder) / COMMITS).is_dir():
        return spark.createDataFrame([], schema)  # nothing committed yet
    return spark.read.format(found.format).schema(schema).load(str(folder)).select(*kinds)


def origin(folder: Path) -> Origin | None:
    """Return what a folder was loaded from, or None if it has not been."""
    try:
        told = json.loads((folder / _MARK).read_text())
        return Origin(told["cluster"], tuple(told["topics"]), told["format"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise NotAWarehouse(
            f"{folder / _MARK} cannot be read ({error!r}): restore it, or load into another folder"
        ) from None


def claim(folder: Path, wanted: Origin) -> Origin:
    """Mark a folder as loaded from there and return what it is loaded from now; refuses one that holds anything else.

    Topics may be added to a folder. One that is left out would look as if it had no more records, so it stays.
    """
    before = origin(folder)
    if before is None:
        if folder.exists() and (not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())):
            raise NotAWarehouse(f"{folder} holds something else: load into an empty or a new folder")
    else:
        _check_same(folder, before, wanted)
        wanted = wanted._replace(topics=tuple(sorted({*before.topics, *wanted.topics})))
    if wanted != before:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{_MARK}.new"
        fresh.write_text(json.dumps(wanted._asdict()) + "\n")
        fresh.replace(folder / _MARK)
    return wanted


def _check_same(folder: Path, before: Origin, wanted: Origin) -> None:
    if before.cluster != wanted.cluster:
        raise NotAWarehouse(
            f"{folder} was loaded from cluster {before.cluster}, and this is {wanted.cluster}: their offsets would mix"
        )
    if before.format != wanted.format:
        raise NotAWarehouse(
            f"{folder} holds {before.format}: load with --format {before.format}, or into another folder"
        )
    left_out: Sequence[str] = sorted(set(before.topics) - set(wanted.topics))
    if left_out:
        raise NotAWarehouse(f"{folder} is loaded from {', '.join(before.topics)}: name {', '.join(left_out)} too")
