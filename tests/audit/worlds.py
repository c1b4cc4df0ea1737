"""Worlds to sabotage: producers' events, the bytes of logs and the rows of a warehouse, all made by the real code.

Each sabotage is done to one cell at one tier and says what an audit must find there; everywhere else it must find
nothing.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_classic.audit.findings import Cell, Verdict
from kafka_classic.audit.judge import LOG, Bounds, Dossier, judge
from kafka_classic.audit.log_tier import Slice, count_chunk
from kafka_classic.audit.warehouse_tier import count_rows
from kafka_classic.client.chunk import read_chunk
from kafka_classic.client.fingerprint import fingerprint, words_of
from kafka_classic.client.monitoring import PRODUCER, Event, Share, latest
from kafka_classic.client.spans import Run, add_run
from kafka_classic.client.tally import Line, Tally
from kafka_classic.producer.auditing import Account, Counted, Fate
from kafka_classic.records.batch import read_header, seal
from kafka_classic.records.codecs import Codec
from kafka_classic.records.decode import decode_batch
from kafka_classic.records.encode import NewRecord, encode_batch

WINDOW_MS = 60_000
EPOCH_MS = 1_700_000_040_000 - 1_700_000_040_000 % WINDOW_MS
WAREHOUSE = "warehouse"
GROUP = "group readers"


class CellKey(NamedTuple):
    topic: str
    window: int
    producer: int


@dataclass
class Truth:
    """What an audit must say of a cell at a tier."""

    verdict: Verdict = Verdict.COMPLETE
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Made:
    """A batch as its producer made it, and where it came to lie."""

    topic: str
    partition: int
    producer: int
    window: int
    data: bytes
    records: list[NewRecord]

    @property
    def key(self) -> CellKey:
        return CellKey(self.topic, self.window, self.producer)

    def run(self) -> Run:
        header = read_header(self.data)
        first, count = header.base_sequence, header.record_count
        return Run(header.producer_epoch, first, first + count, header.base_offset, header.last_offset)


class World:
    """Some topics, partitions, producers and windows; each producer writes a few batches to each partition."""

    def __init__(
        self, seed: int, *, topics: int = 3, partitions: int = 2, producers: int = 3, windows: int = 6
    ) -> None:
        self.rng = random.Random(seed)
        self.made: list[Made] = []
        self.log: dict[tuple[str, int], list[Made]] = defaultdict(list)
        self.rows: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        self.group: dict[CellKey, dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
        self.bounds: dict[str, dict[tuple[str, int], Bounds]] = {LOG: {}, WAREHOUSE: {}, GROUP: {}}
        self.accounts: dict[CellKey, Account] = {}
        self.open: set[CellKey] = set()
        self.truth: dict[tuple[CellKey, str], Truth] = {}
        names = [f"topic-{number}" for number in range(topics)]
        for topic in names:
            for partition in range(partitions):
                self._fill(topic, partition, producers, windows)

    def _fill(self, topic: str, partition: int, producers: int, windows: int) -> None:
        rng = self.rng
        offset, sequences = 0, dict.fromkeys(range(producers), 0)
        for number in range(windows):
            window = EPOCH_MS + number * WINDOW_MS
            order = [producer for producer in range(producers) for _ in range(rng.randint(3, 5))]
            rng.shuffle(order)
            for producer in order:
                records = [self._record(window) for _ in range(rng.randint(2, 30))]
                codec = rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP))
                data = encode_batch(
                    records,
                    codec,
                    base_offset=offset,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequences[producer],
                )
                made = Made(topic, partition, producer, window, data, records)
                sequences[producer] += len(records)
                offset += len(records)
                self.made.append(made)
                self.log[topic, partition].append(made)
                self._account(made)
                self._load(made)
                add_run(self.group[made.key][partition], made.run())
        for tier in self.bounds:
            self.bounds[tier][topic, partition] = Bounds(0, offset)

    def _record(self, window: int) -> NewRecord:
        rng = self.rng
        key = rng.choice((None, b"", rng.randbytes(rng.randint(1, 8))))
        value = rng.choice((None, rng.randbytes(rng.randint(0, 50)), rng.randbytes(40)))
        headers = (("trace", rng.randbytes(4)),) if rng.random() < 0.1 else ()
        return key, value, headers, window + rng.randrange(WINDOW_MS)

    def _account(self, made: Made) -> None:
        account = self.accounts.setdefault(made.key, Account(state="closed"))
        counted = Counted(fingerprint(words_of(made.records)), 1)
        crc = read_header(made.data).crc
        account.add(
            Fate((made.topic, made.window), made.partition, made.producer, made.run(), "acknowledged", counted, crc, 5)
        )

    def _load(self, made: Made) -> None:
        run = made.run()
        for place, (key, value, headers, timestamp) in enumerate(made.records):
            self.rows[made.topic, made.partition].append(
                {
                    "key": key,
                    "value": value,
                    "headers": [{"key": name, "value": word} for name, word in headers],
                    "topic": made.topic,
                    "partition": made.partition,
                    "offset": run.first_offset + place,
                    "timestamp": timestamp,
                    "timestampType": 0,
                    "producerId": made.producer,
                    "producerEpoch": run.epoch,
                    "sequence": run.first + place,
                    "arrived": timestamp + 1000,
                    "window": made.window,
                }
            )

    # --- sabotage

    def must_find(self, key: CellKey, tier: str, verdict: Verdict = Verdict.DAMAGED, **counts: int) -> None:
        self.truth[key, tier] = Truth(verdict, counts)

    def batches_of(self, key: CellKey) -> list[Made]:
        return [made for made in self.made if made.key == key]

    def rows_of(self, key: CellKey) -> list[dict[str, Any]]:
        return [
            row
            for rows in self.rows.values()
            for row in rows
            if (row["topic"], row["window"], row["producerId"]) == key
        ]

    # --- the audit, without Spark

    def audit(self) -> list[Cell]:
        return [cell for dossier in self.dossiers() for cell in judge(dossier)]

    def dossiers(self) -> list[Dossier]:
        """What is known of each topic and producer."""
        tallies: dict[str, dict[tuple[Line, int], Tally]] = {LOG: {}, WAREHOUSE: {}, GROUP: {}}
        for (topic, partition), batches in self.log.items():
            bounds = self.bounds[LOG][topic, partition]
            data = b"".join(made.data for made in batches if read_header(made.data).last_offset >= bounds.begin)
            part = Slice(topic, partition, bounds.begin, 2**40)
            chunk = read_chunk(topic, partition, bounds.begin, 2**40, memoryview(data))
            count_chunk(tallies[LOG], chunk, part, WINDOW_MS)
        for rows in self.rows.values():
            tallies[WAREHOUSE] = count_rows(_arrow(rows), WINDOW_MS) | tallies[WAREHOUSE]
        for key, partitions in self.group.items():
            for partition, runs in partitions.items():
                count = sum(run.size for run in runs)
                tally = Tally(count, 0, list(runs), None, None)
                tallies[GROUP][Line(key.topic, partition, key.producer), key.window] = tally
        return [
            self._dossier(topic, producer, tallies)
            for topic in {made.topic for made in self.made}
            for producer in {made.producer for made in self.made if made.topic == topic}
        ]

    def _dossier(self, topic: str, producer: int, tallies: dict[str, dict[tuple[Line, int], Tally]]) -> Dossier:
        events = []
        for key, account in self.accounts.items():
            if (key.topic, key.producer) == (topic, producer):
                shares = [Share.from_json(share.to_json()) for share in account.shares.values()]
                state = "open" if key in self.open else "closed"
                event = Event(PRODUCER, "s", topic, key.window, WINDOW_MS, state, 2, [producer], shares, "host", "c")
                _, value = event.encode()
                opened = Event(PRODUCER, "s", topic, key.window, WINDOW_MS, "open", 1, [producer])
                events += [Event.decode(value), opened]  # what came first may be read last
        counts = {
            tier: {
                (line.partition, window): tally
                for (line, window), tally in found.items()
                if (line.topic, line.producer) == (topic, producer)
            }
            for tier, found in tallies.items()
        }
        bounds = {
            tier: {partition: one for (name, partition), one in places.items() if name == topic}
            for tier, places in self.bounds.items()
        }
        return Dossier(topic, producer, WINDOW_MS, latest(events), counts, bounds, now=10**15)


def flip(data: bytes, at: int, *, sealed: bool) -> bytes:
    """One bit of a batch flipped, and its checksum made to fit or not."""
    changed = bytearray(data)
    changed[at] ^= 0x10
    if sealed:
        seal(changed)
    return bytes(changed)


def with_altered_record(data: bytes, rng: random.Random) -> bytes:
    """The batch with one message's value changed, encoded and sealed anew."""
    header = read_header(data)
    records: list[NewRecord] = [
        (record.key, record.value, record.headers, record.timestamp) for record in decode_batch(data)
    ]
    place = rng.randrange(len(records))
    key, value, headers, timestamp = records[place]
    records[place] = (key, (value or b"") + b"!", headers, timestamp)
    return encode_batch(
        records,
        Codec(header.codec),
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def moved_to(data: bytes, offset: int) -> bytes:
    """The batch at another offset, which lies outside of its checksum."""
    return offset.to_bytes(8, "big") + data[8:]


def _arrow(rows: list[dict[str, Any]]) -> list[Any]:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestampType", pa.int32()),
            ("producerId", pa.int64()),
            ("producerEpoch", pa.int32()),
            ("sequence", pa.int32()),
            ("arrived", pa.int64()),
        ]
    )
    table = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)
    return list(table.to_batches(max_chunksize=100))
