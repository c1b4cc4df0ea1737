"""Measures compaction: how fast one pass is, what memory it takes, and what a broker's clients notice of it.

    python -P bench/compaction.py [--quick] [--json] [--dir FOLDER]

The passes are of one log alone, on one core, by CPU time. The latency is that of one client which produces one message
at a time (acks=1) to another topic of the broker, wall time, before and while a log is compacted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import confluent_kafka.admin
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from bench.load import results, sockets
from bench.load.frames import produce_frame
from bench.load.producing import CLASSIC
from kafka_classic.log.checkpoint import read_checkpoint
from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.codecs import Codec
from kafka_classic.records.encode import encode_batch
from kafka_classic.testing.cluster import LocalCluster

A: Any = confluent_kafka.admin
Row = tuple[str, float, str]
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=16 << 20, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
VALUE = 100


def batches(megabytes: int, keys: int, count: int, codec: Codec, varied: bool = False) -> Iterator[bytes]:
    """Batches of records with keys drawn at random, until there are so many bytes."""
    rng = random.Random(1)
    size = 0
    while size < megabytes << 20:
        rows = []
        for _ in range(count):
            value = rng.randbytes(rng.randrange(VALUE // 2, VALUE * 3 // 2) if varied else VALUE)
            rows.append((b"key %09d" % rng.randrange(keys), value, (), NOW_MS))
        one = encode_batch(rows, codec)
        size += len(one)
        yield one


def passes(folder: Path, megabytes: int) -> Iterator[Row]:
    os.fsync = os.fdatasync = lambda fd: None  # the disk is not what is measured
    for name, count, codec, varied in (
        ("batches of 100, values of one size", 100, Codec.NONE, False),
        ("batches of 100, values of many sizes", 100, Codec.NONE, True),
        ("the same, zstd", 100, Codec.ZSTD, True),
        ("batches of one", 1, Codec.NONE, False),
    ):
        log = Log.open(folder / "t-0", CONFIG)
        for one in batches(megabytes, megabytes * 1000, count, codec, varied):
            log.append(one)
        log.roll()
        log.flush()
        for what in ("first pass", "second pass, a tenth is new"):
            size = log.size
            began = time.process_time()
            done = log.compact(time.time())
            spent = time.process_time() - began
            assert done is not None
            assert done.error is None
            yield f"{name}: {what}, records", done.keeping.seen / spent / 1e3, "thousand/s of CPU"
            yield "    bytes", size / spent / 1e6, "MB/s of CPU"
            yield "    share of records kept", 100 * done.keeping.kept / done.keeping.seen, "%"
            for one in batches(max(megabytes // 10, 1), megabytes * 1000, count, codec, varied):
                log.append(one)
            log.roll()
            log.flush()
        log.delete()


def memory(folder: Path, megabytes: int) -> Iterator[Row]:
    """More keys than fit into the bound: what Python allocates at most during one pass."""
    log = Log.open(folder / "m-0", CONFIG)
    for one in batches(megabytes, 10**9, 100, Codec.NONE):
        log.append(one)
    log.roll()
    log.flush()
    bound = megabytes << 18
    tracemalloc.start()
    done = log.compact(time.time(), memory=bound)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done is not None
    yield "the bound on memory for keys", bound / 1e6, "MB"
    yield "    keys that one pass took", done.keys / 1e3, "thousand"
    yield "    most memory allocated, buffers included", peak / 1e6, "MB"
    log.delete()


def latency(folder: Path, megabytes: int) -> Iterator[Row]:
    settings = {"log.cleaner.backoff.ms": "100", "log.flush.offset.checkpoint.interval.ms": "200"}
    with LocalCluster(folder / "cluster", settings=settings) as cluster:
        broker = cluster.brokers[0]
        address = broker.host, broker.port
        admin = A.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 3})
        never = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(8 << 20)}
        topics = [NewTopic("compacted", 1, 1, config=never), NewTopic("plain", 1, 1)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        records = 0
        with sockets.connect(address) as sock:
            for one in batches(megabytes, 10**6, 100, Codec.NONE, varied=True):
                sockets.ask(sock, produce_frame(CLASSIC, "compacted", 0, one))
                records += 100
        frame = produce_frame(CLASSIC, "plain", 0, encode_batch([(None, bytes(200), (), int(time.time() * 1000))]))
        with sockets.connect(address) as sock:
            sockets.latencies(sock, frame, 500)
            yield from percentiles("alone", sockets.latencies(sock, frame, 10_000))
            began, cpu = time.monotonic(), broker.cpu_seconds()
            change = A.ConfigEntry("min.cleanable.dirty.ratio", "0.1", incremental_operation=A.AlterConfigOpType.SET)
            resource = A.ConfigResource(A.ConfigResource.Type.TOPIC, "compacted", incremental_configs=[change])
            admin.incremental_alter_configs([resource])[resource].result(60)
            took: list[float] = []
            checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
            while read_checkpoint(checkpoint).get(("compacted", 0), 0) < records * 0.7:
                took += sockets.latencies(sock, frame, 200)
            seconds = time.monotonic() - began
        yield from percentiles("while a log is compacted", sorted(took))
        yield "    the pass, beside the producer", records / seconds / 1e3, "thousand records/s"
        yield "    broker's CPU meanwhile", (broker.cpu_seconds() - cpu) / seconds * 100, "% of a core"


def percentiles(name: str, took: list[float]) -> Iterator[Row]:
    for what, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        yield f"produce one message, {name}: {what}", took[int(len(took) * share)] / 1e3, "ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller logs")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--dir", type=Path, help="make the logs under this folder")
    results.add_option(parser)
    options = parser.parse_args()
    size = 16 if options.quick else 128
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        rows = list(latency(Path(folder), 2 * size))
        rows += passes(Path(folder), size)
        rows += memory(Path(folder), size)
    results.keep_run(results.rows("compaction", rows), options)
    if options.json:
        for name, figure, unit in rows:
            print(json.dumps({"case": name.strip(), "figure": figure, "unit": unit}, ensure_ascii=False))
        return
    table = Table("compaction", "figure", "unit")
    table.columns[1].justify = "right"
    for name, figure, unit in rows:
        table.add_row(name, f"{figure:.2f}", unit)
    Console().print(table)


if __name__ == "__main__":
    main()
