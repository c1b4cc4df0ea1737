"""Measure the Spark source: rows of 200-byte messages a second, from a broker on the same machine into Spark.

    python -P bench/spark.py [--quick] [--json] [--rows N] [--repeats N]

Two partitions, two tasks, batches of 1,000 messages. "noop" is Spark's sink that takes every column of every row and
keeps nothing; "load" is what `kafka-classic load` does, into Parquet. The first run of each case warms up the JVM and
is not counted. The broker works on the same cores. Processor time is that of broker, JVM and Python workers together:
on a busy machine it says more than the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.load import results
from kafka_classic import Producer
from kafka_classic.audit import warehouse
from kafka_classic.audit.load import Load
from kafka_classic.audit.session import spark_session
from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 200
IN_A_BATCH = 1000
PARTITIONS = 2


class Case(NamedTuple):
    title: str
    topic: str
    columns: str | None = None


CASES = (
    Case("all seven columns, noop", "alike"),
    Case("the value alone, noop", "alike", "value binary"),
    Case("no column of the records, counted", "alike", "partition int"),
    Case("all seven columns, lz4, noop", "lz4"),
    Case("all seven columns, 100 to 300 B, noop", "sizes"),
)


def fill(bootstrap: str, topic: str, rows: int) -> None:
    """Sets of 1,000 messages to one partition and the other."""
    codec = "lz4" if topic == "lz4" else "none"
    filler = b'{"user": 4711, "page": "/jobs/view", "server": "app-17"}' * 6
    with Producer(bootstrap, {"compression.type": codec}) as producer:
        for first in range(0, rows, IN_A_BATCH):
            sizes = [SIZE if topic != "sizes" else 100 + index * 7 % 201 for index in range(IN_A_BATCH)]
            values = [b"%010d" % (first + index) + filler[: size - 10] for index, size in enumerate(sizes)]
            producer.send_batch(topic, values, partition=first // IN_A_BATCH % PARTITIONS)


def read(spark: SparkSession, bootstrap: str, case: Case) -> None:
    reader = spark.read.format("kafka_classic").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", case.topic)
    table = (reader.schema(case.columns) if case.columns else reader).load()
    table.write.format("noop").mode("overwrite").save()


def load(spark: SparkSession, bootstrap: str, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kafka-classic-bench-") as folder:
        with Load.start(spark, bootstrap, ["alike"], Path(folder), once=True) as running:
            found = sum(batch.records for batch in running.batches())
        if found != rows:
            raise AssertionError(f"{found} rows were loaded in place of {rows}")
        if warehouse.origin(Path(folder)) is None:
            raise AssertionError("no warehouse")


def processor_s() -> float:
    """Processor time of this process and all below it, the JVM, the Python workers and the broker, dead ones too."""
    ticks = 0
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            threads = list(Path(f"/proc/{pid}/task").iterdir())
            todo += [int(child) for thread in threads for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    rows_per_s: float
    rows_per_processor_s: float


def measure(work: Callable[[], None], rows: int, repeats: int) -> list[Run]:
    """Return each run but the first."""
    runs = []
    for _ in range(repeats + 1):
        began, processor = time.perf_counter(), processor_s()
        work()
        runs.append(Run(rows / (time.perf_counter() - began), rows / (processor_s() - processor)))
    return runs[1:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a million rows, one run a case")
    parser.add_argument("--json", action="store_true", help="one JSON object a case")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int)
    results.add_option(parser)
    options = parser.parse_args()
    rows = options.rows or (1_000_000 if options.quick else 10_000_000)
    rows -= rows % (IN_A_BATCH * PARTITIONS)
    repeats = options.repeats or (1 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="kafka-classic-bench-") as folder, LocalCluster(Path(folder), 1) as servers:
        bootstrap = servers.bootstrap
        with Cluster(bootstrap) as cluster:
            create_topics(cluster, [NewTopic(name, PARTITIONS) for name in sorted({case.topic for case in CASES})])
        for name in sorted({case.topic for case in CASES}):
            fill(bootstrap, name, rows)
        spark = spark_session("bench", "local[2]")
        lines: list[results.Line] = []
        try:
            works: dict[str, Callable[[], None]] = {case.title: partial(read, spark, bootstrap, case) for case in CASES}
            works["load into Parquet"] = partial(load, spark, bootstrap, rows)
            for title, work in works.items():
                runs = measure(work, rows, repeats)
                _tell(title, runs, options.json)
                lines += _lines({"case": title, "rows": rows}, runs)
        finally:
            spark.stop()
    results.keep_run(lines, options)
    return 0


def _lines(case: results.Case, runs: list[Run]) -> list[results.Line]:
    """By the clock, and by the processor time of all processes."""
    rates = zip(("rows/s", "rows/s of processor time"), zip(*runs, strict=True), strict=True)
    return [results.Line("spark", "kafka-classic", {**case, "by": by}, by, list(found)) for by, found in rates]


def _tell(title: str, runs: list[Run], as_json: bool) -> None:
    load_average = os.getloadavg()[0]
    if as_json:
        told: dict[str, Any] = {"case": title, "runs": [run._asdict() for run in runs], "load_average": load_average}
        print(json.dumps(told), flush=True)
        return
    wall = statistics.median(run.rows_per_s for run in runs) / 1e6
    processor = statistics.median(run.rows_per_processor_s for run in runs) / 1e6
    print(
        f"{title:40} {wall:6.2f} M rows/s, {processor:.2f} M a second of processor time, all processes "
        f"(load average {load_average:.1f})",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
