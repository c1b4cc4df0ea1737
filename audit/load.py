"""Topics into the warehouse (P26): data and offsets are stored together or not at all, so each record is there once.

A micro-batch of Structured Streaming goes: the offsets it ends at into the checkpoint; files; one line in the sink's
commit log that names them, which is the moment it counts; the checkpoint's own commit. Killed anywhere, the next life
does the same batch again, and the sink passes over one that it has committed.

    with Load.start(spark, "127.0.0.1:9092", ["events"], Path("warehouse"), once=True) as load:
        for batch in load.batches():
            print(batch.records)
"""

from __future__ import annotations

import fcntl
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka_classic.audit import register, warehouse
from kafka_classic.audit.source.source import FORMAT
from kafka_classic.audit.warehouse import CHECKPOINT, LOCK, PARTITIONED_BY, Origin
from kafka_classic.client.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_POLL_S = 0.2
# Spark gives a Python process that it starts ten seconds, and no setting changes that: a busy machine may need longer.
# To begin again is safe at any moment, and a load that goes on for weeks must not end by it.
_LATE = "Python worker failed to connect back"
_PATIENT_TIMES = 5  # in a row
_HANDOVER_S = 10.0  # a JVM whose Python was killed takes a moment to notice
# Without it every task sorts its rows by their folder; so many files it may hold open instead.
_WRITERS = {"spark.sql.maxConcurrentOutputFileWriters": "64"}
# By the clock of UTC, whatever time zone the session has: to_date() and hour() would go by that.
_DATE = "date_from_unix_date(cast(floor(unix_seconds(timestamp) / 86400) as int))"
_HOUR = "cast(pmod(unix_seconds(timestamp), 86400) div 3600 as int)"
_OURS = re.compile(r"^(?:\w+: )*kafka_classic\.[\w.]+: (.+)$", re.MULTILINE)


class LoadFailed(RuntimeError):
    """The load has stopped; what was committed stays, and a new start goes on from there."""


class LoaderAtWork(RuntimeError):
    """Another loader is at work on the folder."""


class Batch(NamedTuple):
    """A micro-batch that is committed."""

    number: int
    records: int
    seconds: float
    offsets: Mapping[str, Mapping[str, int]]
    behind: int  # offsets that waited in the topics when it was planned, after those it took

    def as_mapping(self) -> dict[str, Any]:
        return {"batch": self.number, **{name: getattr(self, name) for name in self._fields[1:]}}


def prepare(bootstrap: str, topics: Sequence[str], folder: Path, format: str = "parquet") -> Origin:
    """Check that the topics are there and the folder is free or theirs, and claim it; quick, and without Spark."""
    if "://" in str(folder) or ":/" in str(folder):
        raise warehouse.NotAWarehouse(f"{folder} is no folder of this machine: mount it, and name the mount")
    with Cluster(bootstrap) as cluster:
        for topic in topics:
            cluster.topic(topic)
        wanted = Origin(cluster.metadata(()).cluster_id, tuple(sorted(set(topics))), format)
    await_no_loader(folder)
    return warehouse.claim(folder, wanted)


def await_no_loader(folder: Path, patience: float = _HANDOVER_S, sleep: Callable[[float], object] = time.sleep) -> None:
    """Wait for a loader that is about to end; raises LoaderAtWork if one goes on."""
    end = time.monotonic() + patience
    while not _free(folder / LOCK):
        if time.monotonic() >= end:
            raise _at_work(folder)
        sleep(_POLL_S)


def _free(lock: Path) -> bool:
    try:
        with open(lock, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class Load:
    """A load at work. The JVM, which writes, holds the folder's lock: for as long as it lives, whoever else died."""

    def __init__(self, begin: Callable[[], StreamingQuery], lock: Any) -> None:
        self._begin = begin
        self._query = begin()
        self._lock = lock
        self._told = -1

    @classmethod
    def start(
        cls,
        spark: SparkSession,
        bootstrap: str,
        topics: Sequence[str],
        folder: Path,
        *,
        format: str = "parquet",
        once: bool = False,
        every: float = 30.0,
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Begin to load: until all is there that was at the start (`once`), else a batch every so many seconds."""
        from pyspark.sql import functions as f

        folder = folder.absolute()
        pace = f"{round(every * 1000)} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": pace}
        chosen = prepare(bootstrap, topics, folder, format)
        lock = _lock(spark, folder)
        try:
            register(spark)
            for name, value in _WRITERS.items():
                spark.conf.set(name, value)
            rows = (
                spark.readStream.format(FORMAT)
                .option("kafka.bootstrap.servers", bootstrap)
                .option("subscribe", ",".join(chosen.topics))
                .option("startingOffsets", "earliest")
                .option("includeHeaders", "true")
                .option("includeProducer", "true")
                .options(**dict(options or {}))
                .load()
            )
            writer = (
                rows.withColumn("date", f.expr(_DATE))
                .withColumn("hour", f.expr(_HOUR))
                .writeStream.format(format)
                .partitionBy(*PARTITIONED_BY)
                .option("path", str(folder))
                .option("checkpointLocation", str(folder / CHECKPOINT))
                .trigger(**trigger)
            )
            return cls(writer.start, lock)
        except BaseException:
            lock.close()
            raise

    def batches(self) -> Iterator[Batch]:
        """Yield each batch with records as it is committed, until the load ends; raises LoadFailed if it fails."""
        from pyspark.errors import PySparkException

        ended = False
        late = 0
        while not ended:
            failed = None
            try:
                ended = bool(self._query.awaitTermination(_POLL_S))  # type: ignore[arg-type]  # takes parts of seconds
            except PySparkException as error:
                failed = error
            for news in self._news():
                late = 0
                yield news
            if failed is not None:
                if _LATE not in str(failed) or late == _PATIENT_TIMES:
                    raise LoadFailed(reason(str(failed))) from failed
                late += 1
                log.warning("a Python process of Spark's took longer than Spark waits for it: the batch is begun again")
                self._query = self._begin()

    def _news(self) -> Iterator[Batch]:
        for told in self._query.recentProgress:
            if told.batchId > self._told and told.numInputRows:
                self._told = told.batchId
                yield batch(told.batchId, told.numInputRows, told.batchDuration, told.sources[0])

    def close(self) -> None:
        """Stop; a batch that is not committed is done again by the next load."""
        try:
            self._query.stop()
        finally:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def batch(number: int, records: int, milliseconds: int, source: Any) -> Batch:
    """Read what Spark reports of a batch."""
    offsets = json.loads(source.endOffset)
    # A batch that is done again was planned by an earlier life: this one has not asked for the end yet, and tells null.
    latest = json.loads(source.latestOffset or "null") or {}
    behind = sum(
        max(0, end - offsets.get(topic, {}).get(index, 0))
        for topic, ends in latest.items()
        for index, end in ends.items()
    )
    return Batch(number, records, milliseconds / 1000, offsets, behind)


def reason(text: str) -> str:
    """Find in Spark's pages of stack traces what one of ours said, else the first line."""
    found = _OURS.search(text)
    return found[1] if found else text.strip().splitlines()[0]


def _lock(spark: SparkSession, folder: Path) -> Any:
    from py4j.protocol import Py4JJavaError

    assert spark._jvm is not None
    file = spark._jvm.java.io.RandomAccessFile(str(folder / LOCK), "rw")
    try:
        held = file.getChannel().tryLock()
    except Py4JJavaError:  # this very JVM holds it
        held = None
    if held is None:
        file.close()
        raise _at_work(folder)
    return file


def _at_work(folder: Path) -> LoaderAtWork:
    return LoaderAtWork(f"another loader is at work on {folder}: let it go on, or stop it first")
