"""Measures the log alone: staging and committing, finding an offset, recovering after a crash.

    python -P bench/log.py [--quick] [--json] [--dir FOLDER]

One core, CPU time, so that a busy machine spoils it less; each figure is the median of several runs. The files are
written to the page cache of FOLDER's disk (the system's temporary folder if none is given) and never synced.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

from bench.load import results
from kafka_classic.log.config import LogConfig
from kafka_classic.log.log import Log
from kafka_classic.records.batch import HEADER, seal
from kafka_classic.records.encode import encode_batch

Row = tuple[str, float, str]
NOW = 1_700_000_000_000
LOOKUPS = 2000


def one_message(size: int = 200, **header: int) -> bytearray:
    return bytearray(encode_batch([(None, bytes(size), (), NOW)], **header))  # type: ignore[arg-type]


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def stage_all(stage: Callable[..., int], view: memoryview, headers: list[tuple[int, ...]]) -> None:
    for header in headers:
        stage(view, header, 0)


def staging(folder: Path, repeats: int) -> Iterator[Row]:
    """A turn of the broker: a thousand batches staged, one commit."""
    for name, config, batch in (
        ("stage one message, 270 bytes", LogConfig(), one_message()),
        ("the same, idempotent producer", LogConfig(), one_message(producer_id=1, producer_epoch=0, base_sequence=0)),
        ("the same, classic log, broker seals", LogConfig(classic=True), one_message()),
    ):
        log = Log.open(folder / f"stage-{abs(hash(name))}-0", config)
        view, staged, committed = memoryview(batch), [], []
        sequence = 0
        header = list(HEADER.unpack_from(batch))
        idempotent = header[9] >= 0
        for _ in range(repeats):
            headers = []
            for _ in range(1000):
                if idempotent:
                    header[11] = sequence
                    sequence += 1
                headers.append(tuple(header))
            staged.append(cpu(partial(stage_all, log.stage, view, headers)))
            committed.append(cpu(log.commit))
        yield name, statistics.median(staged) * 1e3, "µs"
        yield "    its share of a commit of 1,000", statistics.median(committed) * 1e3, "µs"
        log.delete()


def big_batches(folder: Path, megabytes: int) -> Iterator[Row]:
    log = Log.open(folder / "big-0", LogConfig())
    batch = one_message(1 << 20)
    view, header = memoryview(batch), HEADER.unpack_from(batch)

    def work() -> None:
        for _ in range(megabytes):
            log.stage(view, header, 0)
            log.commit()

    yield "append 1 MB batches", len(batch) * megabytes / cpu(work) / 1e9, "GB/s of CPU"
    log.delete()


def reading(folder: Path, megabytes: int) -> Iterator[Row]:
    """Lookups in a log of one-message batches, the hardest for a sparse index."""
    for kind in ("ordinary", "classic"):
        config = LogConfig(segment_bytes=megabytes << 18, classic=kind == "classic")
        log = Log.open(folder / f"read-{kind}-0", config)
        batch = one_message()
        if config.classic:
            seal(batch, last_offset_delta=len(batch) - 1)
        view, header = memoryview(batch), HEADER.unpack_from(batch)
        while log.size < megabytes << 20:
            for _ in range(1000):
                log.stage(view, header, 0)
            log.commit()
        log.recovery_point = log.exposed_offset = log.end_offset
        rng = random.Random(1)
        step = 1 if kind == "ordinary" else len(batch)
        active = [rng.randrange(log.segments[-1].base // step, log.end_offset // step) * step for _ in range(LOOKUPS)]
        old = [rng.randrange(0, log.segments[1].base // step) * step for _ in range(LOOKUPS)]
        log.read(0, 1 << 20)

        def at(offsets: list[int], log: Log = log) -> float:
            return cpu(lambda: [log.read(offset, 1 << 20) for offset in offsets]) / len(offsets) * 1e6

        def tailing(log: Log = log, view: memoryview = view, header: tuple[int, ...] = header) -> float:
            spent = 0.0
            for _ in range(LOOKUPS):
                end = log.end_offset
                log.stage(view, header, 0)  # type: ignore[arg-type]
                log.commit()
                log.exposed_offset = log.end_offset
                began = time.process_time_ns()
                log.read(end, 1 << 20)
                spent += time.process_time_ns() - began
            return spent / LOOKUPS / 1e3

        def sequentially(log: Log = log) -> float:
            count, offset = 0, 0
            began = time.process_time()
            while (found := log.read(offset, 1 << 20)) is not None:
                offset = found.next_offset
                count += 1
            return (time.process_time() - began) / count * 1e6

        yield f"{kind}: read at the end, as a waiting consumer does", tailing(), "µs"
        yield f"{kind}: read on, 1 MB at a time", sequentially(), "µs"
        yield f"{kind}: read anywhere in the active segment", at(active), "µs"
        yield f"{kind}: read anywhere in an old segment", at(old), "µs"
        log.delete()


def recovering(folder: Path, megabytes: int) -> Iterator[Row]:
    for name, batch in (("1 MB batches", one_message(1 << 20)), ("one-message batches", one_message())):
        log = Log.open(folder / "recover-0", LogConfig())
        view, header = memoryview(batch), HEADER.unpack_from(batch)
        while log.size < megabytes << 20:
            for _ in range(max(1, (1 << 20) // len(batch))):
                log.stage(view, header, 0)
            log.commit()
        size = log.size
        spent = cpu(partial(Log.open, log.dir, log.config))
        yield f"recovery after a crash, {name}", size / spent / 1e9, "GB/s of CPU"
        log.close()
        yield f"open after a clean stop, {name}", cpu(partial(Log.open, log.dir, log.config, clean=True)) * 1e3, "ms"
        log.delete()


def run(quick: bool, folder: Path) -> list[Row]:
    os.fsync = os.fdatasync = lambda fd: None  # the disk is not what is measured
    size = 64 if quick else 512
    rows = list(staging(folder, 30 if quick else 200))
    rows += big_batches(folder, 4 * size)
    rows += reading(folder, size)
    rows += recovering(folder, size)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller logs and fewer runs")
    parser.add_argument("--json", action="store_true", help="print JSON lines in place of the table")
    parser.add_argument("--dir", type=Path, help="make the logs under this folder")
    results.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        rows = run(options.quick, Path(folder))
    results.keep_run(results.rows("log", rows), options)
    if options.json:
        for name, figure, unit in rows:
            print(json.dumps({"case": name.strip(), "figure": figure, "unit": unit}, ensure_ascii=False))
        return
    table = Table("the log alone", "figure", "unit")
    table.columns[1].justify = "right"
    for name, figure, unit in rows:
        table.add_row(name, f"{figure:.2f}", unit)
    Console().print(table)


if __name__ == "__main__":
    main()
