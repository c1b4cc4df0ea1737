"""Measures our encoder, decoder and counter of records, side by side with aiokafka's C code where it is installed.

    python -P bench/records.py [--json] [--count 1000] [--size 200] [--repeats 31]

One core, one batch after the other. Each figure is the median over the repeats, in CPU time, so that a busy machine
spoils it less; ours and theirs take turns, so that what spoils one spoils the other.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.load import results
from kafka_classic.records.batch import HEADER_SIZE
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import NewRecord, encode_batch
from kafka_classic.records.walk import count_records

try:
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
except ImportError:
    DefaultRecordBatch = DefaultRecordBatchBuilder = None

NOW = 1_700_000_000_000
TEXT = b'{"user": 4711, "page": "/jobs/view", "server": "app-17.example", "took": 0.0125, "agent": "Mozilla/5.0"} '


def shapes(count: int, size: int) -> dict[str, list[NewRecord]]:
    """Batches of four makes: all alike, of all sizes over 30 ms, these with keys, these with headers."""
    rng = random.Random(1)
    content = [bytes(rng.choices(TEXT, k=2 * size)) for _ in range(count)]
    lengths = [rng.randint(size // 2, size + size // 2) for _ in range(count)]
    times = [NOW + i * 30 // count for i in range(count)]
    return {
        "alike": [(None, value[:size], (), NOW) for value in content],
        "all sizes": [(None, v[:n], (), t) for v, n, t in zip(content, lengths, times, strict=True)],
        "keys": [(b"%d" % i, v[:n], (), t) for i, (v, n, t) in enumerate(zip(content, lengths, times, strict=True))],
        "headers": [(None, v[:n], (("trace", b"x"),), t) for v, n, t in zip(content, lengths, times, strict=True)],
    }


def aiokafka_encode(records: list[NewRecord], codec: Codec) -> bytes:
    """The same batch by aiokafka's builder."""
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 30)
    append = builder.append
    for offset, (key, value, headers, timestamp) in enumerate(records):
        append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


def aiokafka_decode(batch: bytes) -> list[Any]:
    """The same records by aiokafka's reader."""
    reader = DefaultRecordBatch(batch)
    if not reader.validate_crc():
        raise ValueError("crc")
    return list(reader)


def measure(repeats: int, count: int, works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Records a second of each piece of work, which take turns."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            began = time.process_time()
            for _ in range(5):
                work()
            spent[name].append((time.process_time() - began) / 5)
    return {name: count / max(statistics.median(times), 1e-9) for name, times in spent.items()}


def run(count: int, size: int, repeats: int) -> list[dict[str, str | float]]:
    """All figures, a row for each shape and codec."""
    rows: list[dict[str, str | float]] = []
    made = shapes(count, size)
    cases = [(shape, Codec.NONE) for shape in made] + [("all sizes", codec) for codec in Codec if codec]
    # All batches are kept from the start: in an empty process every batch would be paid for in page faults.
    batches = [encode_batch(made[shape], codec) for shape, codec in cases]
    for (shape, codec), batch in zip(cases, batches, strict=True):
        records = made[shape]
        works: dict[str, Callable[[], object]] = {
            "encode": partial(encode_batch, records, codec),
            "decode": partial(decode_batch, batch),
        }
        if codec is Codec.NONE:
            works["count"] = partial(count_records, batch, HEADER_SIZE, len(batch))
        if DefaultRecordBatch is not None:
            in_lists: list[NewRecord] = [(key, value, list(headers), at) for key, value, headers, at in records]
            works["aiokafka_encode"] = partial(aiokafka_encode, in_lists, codec)
            works["aiokafka_decode"] = partial(aiokafka_decode, batch)
        rows.append({"records": shape, "codec": codec.name.lower(), **measure(repeats, count, works)})
    return rows


def lines(rows: list[dict[str, str | float]], case: results.Case) -> list[results.Line]:
    found = []
    for row in rows:
        about = {**case, "records": row["records"], "codec": row["codec"]}
        for name, figure in row.items():
            if isinstance(figure, float):
                subject, work = ("aiokafka", name[9:]) if name.startswith("aiokafka") else ("kafka-classic", name)
                found.append(results.Line("records", subject, {**about, "work": work}, "records/s", [figure]))
    return found


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON, in records a second")
    parser.add_argument("--count", type=int, default=1000, help="records in a batch")
    parser.add_argument("--size", type=int, default=200, help="bytes of a value, of the mean one where they differ")
    parser.add_argument("--repeats", type=int, default=31)
    results.add_option(parser)
    asked = parser.parse_args()
    rows = run(asked.count, asked.size, asked.repeats)
    results.keep_run(lines(rows, {"count": asked.count, "size": asked.size}), asked)
    if asked.json:
        print(json.dumps({"count": asked.count, "size": asked.size, "rows": rows}, indent=1))
        return
    names = ["encode", "aiokafka_encode", "decode", "aiokafka_decode", "count"]
    print(f"million records a second, batches of {asked.count} values of {asked.size} bytes")
    print(f"{'records':10} {'codec':7}" + "".join(f"{name.replace('_', ' '):>17}" for name in names))
    for row in rows:
        figures = (f"{row[name] / 1e6:17.2f}" if name in row else f"{'-':>17}" for name in names)  # type: ignore[operator]
        print(f"{row['records']:10} {row['codec']:7}" + "".join(figures))


if __name__ == "__main__":
    main()
