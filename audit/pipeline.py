"""The audit as a Spark job: tiers counted side by side, brought together by topic and producer, and judged there.

    __audit ------ events ----------------.
    the log ------ headers counted -------+-- by (topic, producer) --> judge() --> cells
    the warehouse  rows counted ----------'

The events are read before the ends of the logs are asked for: so what a producer says it had acknowledged can be there.
And they are read after the ends were asked for once before: what came later no event needs to tell of.
Only cells come back to the driver. It runs wherever the package is installed: local[*] or a cluster.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_classic.audit.committed import Passed, committed, tier_of, without_the_impossible
from kafka_classic.audit.findings import Cell, Verdict, worst
from kafka_classic.audit.groups import bounds_of
from kafka_classic.audit.heard import Settled, Told, heard, hints, told_by
from kafka_classic.audit.judge import GROUP as _GROUP_TIER
from kafka_classic.audit.judge import LOG, Bounds, Dossier, judge
from kafka_classic.audit.log_tier import Slice, Unreadable, chunks, count_slice, slices
from kafka_classic.audit.warehouse import CHECKPOINT
from kafka_classic.audit.warehouse_tier import committed_files, count_file, loaded, topic_of
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.configs import describe_topic_configs
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.monitoring import GROUP, PRODUCER, TOPIC, WINDOW_MS, Event, latest
from kafka_classic.client.offsets import EARLIEST, LATEST, list_offsets
from kafka_classic.client.tally import Line, Tally
from kafka_classic.client.topics import list_topics
from kafka_classic.wire.errors import KafkaError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WAREHOUSE = "warehouse"
_CLIENT = "kafka-classic-audit"
_PATIENCE_S = 20.0

Key = tuple[str, int]  # a topic and a producer id
At = tuple[str, int]  # a topic and a partition


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be audited. `begin` and `end` bound the windows, in milliseconds since 1970."""

    bootstrap: str
    topics: tuple[str, ...] = ()  # none: all but internal ones
    begin: int | None = None
    end: int | None = None
    warehouse: Path | None = None
    checkpoint: Path | None = None
    deep: bool = False  # decode all of the log, and compare contents there too
    groups: tuple[str, ...] = ()  # these by what they committed, where they tell nothing themselves
    settle_ms: int = 10_000  # how long an acknowledged message may take to be visible
    settled: Settled | None = None  # an earlier audit found them complete: only what is new is counted

    def windows(self) -> range:
        return range(self.begin or 0, 2**62 if self.end is None else self.end)


@dataclass(slots=True)
class Audit:
    """What an audit found."""

    question: Question
    at: int
    topics: list[str]
    tiers: list[str]
    cells: list[Cell]
    seconds: float = 0.0
    told: Told = field(default_factory=dict)
    gone: tuple[str, ...] = ()  # topics that were published to and are no more: nothing of them can be counted

    @property
    def verdict(self) -> Verdict:
        return worst(cell.verdict for cell in self.cells)

    @property
    def exit_code(self) -> int:
        """0 complete, 1 damaged, 2 not decidable; nothing to compare is not decidable either."""
        return {Verdict.COMPLETE: 0, Verdict.DAMAGED: 1}.get(self.verdict, 2)


def audit(spark: SparkSession, question: Question, clock: Callable[[], float] = time.time) -> Audit:
    """Run one audit.

    A batch whose checksum is not its producer's need not be altered: a broker makes it anew where the topic has a codec
    of its own. So what differs by that alone is looked at once more, message by message.
    """
    found = _audit(spark, question, clock)
    if question.deep or not (topics := _made_anew(found.cells)):
        return found
    there = {tier for cell in found.cells if cell.topic in topics for tier in cell.tiers}
    groups = tuple(group for group in question.groups if tier_of(group) in there)
    deeper = _audit(spark, replace(question, topics=topics, groups=groups, deep=True), clock)
    cells = [*(cell for cell in found.cells if cell.topic not in topics), *deeper.cells]
    return replace(found, cells=sorted(cells, key=_place), seconds=found.seconds + deeper.seconds)


def _made_anew(cells: Iterable[Cell]) -> tuple[str, ...]:
    """The topics of whose logs contents were compared and found to differ."""
    logs = ((cell.topic, cell.tiers[LOG]) for cell in cells if LOG in cell.tiers)
    return tuple(sorted({topic for topic, at in logs if at.compared and at.altered}))


def _place(cell: Cell) -> tuple[str, int, int]:
    return cell.topic, cell.window, cell.producer


def _audit(spark: SparkSession, question: Question, clock: Callable[[], float]) -> Audit:
    began = time.monotonic()
    context = spark.sparkContext
    with Cluster(question.bootstrap, _CLIENT, deadline=_PATIENCE_S) as cluster:
        topics = _topics(cluster, question)
        wanted = frozenset(topics)
        bootstrap = question.bootstrap
        now = int(clock() * 1000)
        places = [(topic, one.index) for topic in topics for one in cluster.topic(topic).partitions]
        sure = _offsets(cluster, dict.fromkeys(places, LATEST))
        parts = _events_slices(cluster)
        # Asked for everything, it must say what it cannot see: so events of other topics are looked at too.
        of = wanted if question.topics else None
        every = (
            context.parallelize(parts, max(1, len(parts)))
            .flatMap(lambda part: _read_events(bootstrap, part, of))
            .keyBy(lambda event: event.id)
            .reduceByKey(lambda one, other: one if one.revision >= other.revision else other)
            .values()
            .persist()
        )
        events = every.filter(lambda event: event.topic in wanted)
        reports = events.filter(lambda event: event.tier == GROUP).collect()
        groups = {(event.topic, event.group) for event in reports}
        producers = every.filter(lambda event: event.tier == PRODUCER).map(heard).collect()
        gone = {one.topic for one in producers if one.topic not in wanted and one.window in question.windows()}
        producers = [one for one in producers if one.topic in wanted]
        told = told_by(producers, question.windows())
        if question.settled is not None:
            question = replace(question, begin=max(question.settled.begin(told), question.begin or 0))
        told_ms, firsts = hints(producers, question.windows())
        window_ms = {topic: told_ms.get(topic, WINDOW_MS) for topic in topics}
        passed = committed(cluster, question.groups, topics, groups)
        bounds = {LOG: _log_bounds(cluster, places, question, firsts, sure)}
        passed = without_the_impossible(passed, {at: one.end for at, one in bounds[LOG].items() if not one.why})
    parts = _slices(bounds[LOG], context.defaultParallelism)
    deep = question.deep
    log = (
        context.parallelize(parts, max(1, len(parts)))
        .flatMap(lambda part: _count(bootstrap, part, window_ms[part.topic], deep))
        .persist()
    )
    for at, why in log.filter(lambda row: row[0] == "failed").map(lambda row: row[1]).collect():
        bounds[LOG][at].why = why
    _note_deleted(bootstrap, bounds[LOG])
    tallies = [log.filter(lambda row: row[0] == LOG)]
    for topic, group in sorted(groups):
        tier = bounds.setdefault(_GROUP_TIER + group, {})
        tier |= {(topic, index): found for index, found in bounds_of(reports, group, topic).items()}
    if question.warehouse is not None:
        rows, bounds[WAREHOUSE] = _warehouse(context, question, topics, window_ms)
        tallies.append(rows.filter(lambda row: row[0] == WAREHOUSE))
    tiers = [
        LOG,
        *sorted(tier for tier in bounds if tier not in (LOG, WAREHOUSE)),
        *sorted({tier for of_topic in passed.values() for tier in of_topic}),
        *([WAREHOUSE] * (WAREHOUSE in bounds)),
    ]
    of_topic = {
        topic: [
            tier
            for tier in tiers
            if tier in (LOG, WAREHOUSE) or tier in passed[topic] or (topic, tier.removeprefix(_GROUP_TIER)) in groups
        ]
        for topic in topics
    }
    shared = context.broadcast((_by_topic(bounds), of_topic, passed))
    windows, settle_ms = question.windows(), question.settle_ms

    def judged(item: tuple[Key, Iterable[Any]]) -> list[Cell]:
        by_topic, tiers_of, passed_of = shared.value
        (topic, producer), rows = item
        dossier = _dossier(
            topic, producer, rows, by_topic[topic], tiers_of[topic], passed_of[topic], window_ms[topic], now, settle_ms
        )
        return judge(dossier, windows)

    everything = events.flatMap(_of_event)
    for rdd in tallies:
        everything = everything.union(rdd.map(_of_tally))
    cells = everything.groupByKey(max(2, context.defaultParallelism)).flatMap(judged).collect()
    cells.sort(key=_place)
    every.unpersist()
    log.unpersist()
    shared.unpersist()
    seconds = time.monotonic() - began
    return Audit(question, now, topics, tiers, cells, seconds, told, tuple(sorted(filter(_not_internal, gone))))


# --- on the driver


def _topics(cluster: Cluster, question: Question) -> list[str]:
    there = cluster.retrying(lambda: list_topics(cluster))
    for name in question.topics:
        if name not in there:
            cluster.topic(name)  # says so
    return sorted(question.topics) or list(filter(_not_internal, there))


def _not_internal(topic: str) -> bool:
    return not topic.startswith("__")


def _events_slices(cluster: Cluster) -> list[Slice]:
    try:
        indices = [one.index for one in cluster.topic(TOPIC).partitions]
    except UnknownTopic:
        return []
    begin = list_offsets(cluster, {(TOPIC, index): EARLIEST for index in indices})
    end = list_offsets(cluster, {(TOPIC, index): LATEST for index in indices})
    return [
        part
        for index in indices
        for part in slices(TOPIC, index, begin[TOPIC, index].offset, end[TOPIC, index].offset, 64)
    ]


def _log_bounds(
    cluster: Cluster,
    places: Sequence[At],
    question: Question,
    firsts: Mapping[At, int],
    sure: Mapping[At, int | KafkaError],
) -> dict[At, Bounds]:
    found: dict[At, Bounds] = {}
    compacted = _compacted(cluster, sorted({topic for topic, _ in places}))
    starts, ends = (_offsets(cluster, dict.fromkeys(places, when)) for when in (EARLIEST, LATEST))
    times = _offsets(cluster, dict.fromkeys(places, question.begin)) if question.begin else {}
    for at in places:
        start, end = starts[at], ends[at]
        if at[0] in compacted:
            found[at] = Bounds(why="the topic is compacted: it loses messages on purpose", compacted=True)
            continue
        if isinstance(start, KafkaError) or isinstance(end, KafkaError):
            why = start if isinstance(start, KafkaError) else end
            found[at] = Bounds(why=f"partition {at[1]} of {at[0]!r} cannot be read: {why}")
            continue
        scanned = start
        if question.begin:
            timed = times[at]
            known = [timed if isinstance(timed, int) and timed >= 0 else end, firsts.get(at, end)]
            scanned = max(start, min(known))
        before = sure[at]
        found[at] = Bounds(start, end, sure=before if isinstance(before, int) else 0, scanned=scanned)
    return found


def _note_deleted(bootstrap: str, bounds: Mapping[At, Bounds]) -> None:
    """What retention took while the logs were counted is deleted and not missing."""
    wanted = {at: EARLIEST for at, one in bounds.items() if not one.why}
    with Cluster(bootstrap, _CLIENT, deadline=_PATIENCE_S) as cluster:
        for at, start in _offsets(cluster, wanted).items():
            if isinstance(start, KafkaError):
                bounds[at].why = f"partition {at[1]} of {at[0]!r} cannot be read: {start}"
            else:
                bounds[at].begin = max(bounds[at].begin, start)


def _compacted(cluster: Cluster, topics: Sequence[str]) -> set[str]:
    told = describe_topic_configs(cluster, topics, ["cleanup.policy"])
    return {topic for topic, settings in told.items() if any("compact" in (one.value or "") for one in settings)}


def _offsets(cluster: Cluster, wanted: Mapping[At, int]) -> dict[At, int | KafkaError]:
    """The offset of each partition, or why there is none: one that nobody leads keeps nobody else waiting for long."""
    try:
        return {at: found.offset for at, found in list_offsets(cluster, wanted, deadline=_PATIENCE_S / 4).items()}
    except KafkaError:
        found: dict[At, int | KafkaError] = {}
        for at, when in wanted.items():
            try:
                found[at] = list_offsets(cluster, {at: when}, deadline=1.0)[at].offset
            except KafkaError as error:
                found[at] = error
        return found


def _slices(bounds: Mapping[At, Bounds], tasks: int) -> list[Slice]:
    found = []
    for (topic, partition), one in bounds.items():
        if not one.why:
            found += slices(topic, partition, one.scanned, one.end, 4 * tasks)
    return found


def _warehouse(
    context: SparkContext, question: Question, topics: Sequence[str], window_ms: Mapping[str, int]
) -> tuple[Any, dict[At, Bounds]]:
    """The warehouse's files, one a task; what is in one that cannot be read is not known."""
    folder = question.warehouse
    assert folder is not None
    chosen = [path for path in committed_files(folder) if topic_of(path) in topics and path.exists()]
    bounds = loaded(question.checkpoint or folder / CHECKPOINT)
    rows = (
        context.parallelize(chosen, max(1, len(chosen)))
        .flatMap(lambda path: _count_file(path, window_ms[topic_of(path)]))
        .persist()
    )
    for topic, why in rows.filter(lambda row: row[0] == "failed").map(lambda row: row[1]).collect():
        for at, found in bounds.items():
            if at[0] == topic:
                found.why = why
    return rows, bounds


def _by_topic(bounds: Mapping[str, Mapping[At, Bounds]]) -> dict[str, dict[str, dict[int, Bounds]]]:
    found: dict[str, dict[str, dict[int, Bounds]]] = defaultdict(lambda: defaultdict(dict))
    for tier, partitions in bounds.items():
        for (topic, partition), one in partitions.items():
            found[topic][tier][partition] = one
    return {topic: dict(tiers) for topic, tiers in found.items()}


# --- on the executors


def _read_events(bootstrap: str, part: Slice, topics: frozenset[str] | None) -> Iterator[Event]:
    with Cluster(bootstrap, _CLIENT, deadline=_PATIENCE_S) as cluster:
        for chunk in chunks(cluster, part):
            found = []
            for record in chunk.records():
                if part.begin <= record.offset < part.end and record.value is not None:
                    try:
                        found.append(Event.decode(record.value))
                    except ValueError:
                        continue  # somebody else's message: nobody is kept from writing to the topic
            yield from latest(event for event in found if topics is None or event.topic in topics)


def _count(bootstrap: str, part: Slice, window_ms: int, deep: bool) -> list[Any]:
    try:
        with Cluster(bootstrap, _CLIENT, deadline=_PATIENCE_S) as cluster:
            found = count_slice(cluster, part, window_ms, deep=deep)
    except (KafkaError, Unreadable) as error:
        return [("failed", ((part.topic, part.partition), str(error)))]
    return [(LOG, line, tally) for line, tally in found.items()]


def _count_file(path: Path, window_ms: int) -> list[Any]:
    try:
        found = count_file(path, window_ms)
    except (OSError, ValueError, KeyError) as error:
        return [("failed", (topic_of(path), f"{path.name} cannot be read: {error}"))]
    return [(WAREHOUSE, line, tally) for line, tally in found.items()]


def _of_event(event: Event) -> list[tuple[Key, Any]]:
    if event.tier == PRODUCER:
        return [((event.topic, producer), ("event", event)) for producer in event.producers]
    tier = _GROUP_TIER + event.group
    return [
        (
            (event.topic, share.producer),
            (tier, (Line(event.topic, share.partition, share.producer), event.window), share.tally),
        )
        for share in event.shares
    ]


def _of_tally(row: tuple[str, tuple[Line, int], Tally]) -> tuple[Key, Any]:
    tier, (line, window), tally = row
    return (line.topic, line.producer), (tier, (line, window), tally)


def _dossier(
    topic: str,
    producer: int,
    rows: Iterable[Any],
    bounds: Mapping[str, Mapping[int, Bounds]],
    tiers: Sequence[str],
    passed: Mapping[str, Mapping[int, Passed]],
    window_ms: int,
    now: int,
    settle_ms: int,
) -> Dossier:
    events: list[Event] = []
    counts: dict[str, dict[tuple[int, int], Tally]] = {tier: {} for tier in tiers}
    for row in rows:
        if row[0] == "event":
            events.append(row[1])
            continue
        tier, (line, window), tally = row
        known = counts[tier].setdefault((line.partition, window), tally)
        if known is not tally:
            known.add(tally)
    return Dossier(topic, producer, window_ms, latest(events), dict(counts), bounds, now, settle_ms, passed)
