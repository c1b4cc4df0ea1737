"""The tier of the warehouse: every row of the files that its commit log names is decoded, named and fingerprinted.

The truth of what is in the warehouse is the sink's commit log, and the truth of how far it has come is the checkpoint
of the query that fills it. What was in a file that the log names and that is not there is not counted: it is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from kafka_classic.audit.judge import Bounds
from kafka_classic.audit.warehouse import COMMITS
from kafka_classic.client.fingerprint import fingerprint, words
from kafka_classic.client.spans import UNNUMBERED, Run, add_run
from kafka_classic.client.tally import NOBODY, Line, Tally

_STORED = (
    "key",
    "value",
    "headers",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "producerId",
    "producerEpoch",
    "sequence",
)
_ROWS = 10_000  # in an Arrow batch
_LOG_APPEND_TIME = 1


def committed_files(folder: Path) -> list[Path]:
    """The files that the sink's commit log names: the last compacted list, and what was added or deleted since."""
    log = folder / COMMITS
    batches = sorted(
        (int(path.name.removesuffix(".compact")), path.name.endswith(".compact"), path)
        for path in log.iterdir()
        if path.name.removesuffix(".compact").isdigit()
    )
    start = max((place for place, (_, compact, _) in enumerate(batches) if compact), default=0)
    files: dict[Path, None] = {}
    for _, _, path in batches[start:]:
        for line in path.read_text().splitlines()[1:]:
            if not line.strip():
                continue
            told = json.loads(line)
            name = Path(unquote(urlparse(told["path"]).path))
            if told.get("action", "add") == "add":
                files[name] = None
            else:
                files.pop(name, None)
    return list(files)


def loaded(checkpoint: Path) -> dict[tuple[str, int], Bounds]:
    """How far the query has come, by its checkpoint: up to the end of the last batch that it committed."""
    found: dict[tuple[str, int], Bounds] = {}
    done = {int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")}
    offsets = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    for number in offsets:
        if number not in done:
            continue
        # A version, what Spark notes of the batch, and then a line for the query's only source.
        for line in (checkpoint / "offsets" / str(number)).read_text().splitlines()[2:]:
            told = json.loads(line) if line.startswith("{") else {}
            for topic, partitions in told.items():
                for partition, end in partitions.items():
                    found.setdefault((topic, int(partition)), Bounds(0, 0)).end = end
    return found


def count_rows(batches: Iterable[Any], window_ms: int) -> dict[tuple[Line, int], Tally]:
    """Count Arrow record batches: the load's columns, and `arrived` (when their file was written, in milliseconds)."""
    tallies: dict[tuple[Line, int], Tally] = {}
    for batch in batches:
        if batch.num_rows:
            _count(tallies, batch, window_ms)
    return tallies


def _count(tallies: dict[tuple[Line, int], Tally], batch: Any, window_ms: int) -> None:
    import numpy as np
    import pyarrow as pa

    def column(name: str) -> Any:
        return batch.column(batch.schema.get_field_index(name))

    def numbers(name: str, null: int = 0) -> Any:
        cells = column(name).cast(pa.int64())
        return cells.fill_null(null).to_numpy(zero_copy_only=False)

    partitions, offsets, kinds = numbers("partition"), numbers("offset"), numbers("timestampType")
    producers, epochs, sequences = (numbers(name, -1) for name in ("producerId", "producerEpoch", "sequence"))
    times = column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    topics = column("topic").cast(pa.string()).dictionary_encode()
    codes, names = topics.indices.to_numpy(), topics.dictionary.to_pylist()
    numbered = producers != NOBODY
    places = np.where(numbered, sequences, offsets)
    windows = times - times % window_ms
    begins = np.ones(len(places), bool)
    begins[1:] = places[1:] != places[:-1] + 1
    for cells in (codes, partitions, producers, epochs, windows, kinds):
        begins[1:] |= cells[1:] != cells[:-1]
    keys, values = column("key").to_pylist(), column("value").to_pylist()
    headers = [_headers(row) for row in column("headers").to_pylist()]
    found = words(keys, values, headers, times.tolist())
    arrived = numbers("arrived")
    sizes = [len(key or b"") + len(value or b"") for key, value in zip(keys, values, strict=True)]
    starts = np.flatnonzero(begins).tolist()
    for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
        line = Line(names[codes[start]], int(partitions[start]), int(producers[start]))
        window = int(windows[start])
        tally = tallies.get((line, window))
        if tally is None:
            tally = tallies[line, window] = Tally(batches=None)
        first, count = int(places[start]), end - start
        epoch = int(epochs[start]) if numbered[start] else UNNUMBERED
        add_run(tally.runs, Run(epoch, first, first + count, int(offsets[start]), int(offsets[end - 1])))
        tally.count += count
        tally.bytes += sum(sizes[start:end])
        delays = np.maximum(arrived[start:end] - times[start:end], 0)
        tally.slowest = max(tally.slowest, int(delays.max()))
        tally.delays += int(delays.sum())
        if kinds[start] == _LOG_APPEND_TIME:
            tally.content = None
        elif tally.content is not None:
            tally.content = tally.content.plus(fingerprint(found[start:end], range(first, first + count)))


def _headers(row: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((one["key"], one["value"]) for one in row) if row else ()


def topic_of(path: Path) -> str:
    """The topic whose rows a file holds: the nearest folder that is named so tells it."""
    return next(unquote(part.removeprefix("topic=")) for part in reversed(path.parts) if part.startswith("topic="))


def count_file(path: Path, window_ms: int) -> dict[tuple[Line, int], Tally]:
    """Count the rows of one Parquet file; raises OSError or ValueError where it cannot be read."""
    import pyarrow.parquet

    topic, arrived = topic_of(path), int(path.stat().st_mtime * 1000)
    with pyarrow.parquet.ParquetFile(path) as file:
        return count_rows(
            (_whole(batch, topic, arrived) for batch in file.iter_batches(_ROWS, columns=list(_STORED))), window_ms
        )


def _whole(batch: Any, topic: str, arrived: int) -> Any:
    """The rows with what the file's name and time say of all of them."""
    import pyarrow as pa

    count = batch.num_rows
    named = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), [topic])
    columns = [*batch.columns, named, pa.array([arrived] * count, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "topic", "arrived"])
