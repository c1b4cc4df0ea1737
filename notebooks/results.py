"""Figures of measured results: lines of `bench/results` in, figures with captions out, the paper's numbers marked.

A line is what `bench/load/results.py` keeps: experiment, subject, case, runs, median, low, high, series, machine …
Each function takes the lines of one experiment of one run; `figures()` draws all that it knows of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from kafka_classic.notebooks import draw
from kafka_classic.notebooks.charts import (
    KNOWN,
    MARKERS,
    Line,
    along,
    bars,
    legend_above,
    looks,
    mark_level,
    median_of,
    number,
    over_time,
    plain_numbers,
    processor_time,
    say,
    subjects,
    ticks_at,
    title,
    values,
    where,
)  # fmt: skip
from kafka_classic.notebooks.measured import last_runs

PAPER_PRODUCER = {1: 50_000, 50: 400_000}  # P28, by batch size
PAPER_CONSUMER = 22_000  # P29
PAPER_OVERHEAD = {"Kafka": 9, "ActiveMQ": 144}  # P30


class Drawn(NamedTuple):
    """A figure, the name of its file, and what is said below it."""

    name: str
    figure: Figure
    caption: str


def conditions(lines: Sequence[Line]) -> str:
    """How often, on what machine and when this was measured: what every caption ends with."""
    machine = lines[0]["machine"]
    counts = {len(line["runs"]) for line in lines}
    often = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else f"{counts.pop()}"
    form = " Short runs, which say less than long ones." if machine.get("quick") else ""
    return (
        f"Medians of {often} runs, bars from the lowest to the highest.{form} {machine['cores']} cores for "
        f"servers and clients ({machine['cpu']}, {machine['memory_gb']:g} GB), Linux {machine['kernel']}, Python "
        f"{machine['python']}, load average {machine['load_average']:.1f}; {lines[0]['run']}."
    )


def produce(lines: Sequence[Line]) -> Drawn:
    """Figure 4 of the paper."""
    batches = sorted(values(lines, "batch"))
    fig, axes = draw.figure(9.5, 4.6, columns=len(batches), sharey=True, squeeze=False)
    for each, batch in zip(axes.flat, batches, strict=True):
        told = PAPER_PRODUCER.get(batch)
        over_time(each, where(lines, batch=batch), {f"the paper's Kafka: {told:,}": told} if told else {})
        say(
            each,
            f"batch size {batch}",
            "seconds (logarithmic)",
            "" if batch != batches[0] else "messages a second (logarithmic)",
        )
    return Drawn(
        "figure-4-producer",
        fig,
        "Producer throughput over time, one process, messages of 200 bytes (figure 4 of the paper, P28). The legend "
        "has the median of the whole runs, until the server had everything; the line is the median run, by what its "
        "client had handed over. Systems without batches stand in both panels "
        f"with the same runs. {conditions(lines)}",
    )


def consume(lines: Sequence[Line]) -> Drawn:
    """Figure 5 of the paper."""
    fig, axes = draw.figure(7, 4.6)
    over_time(axes, lines, {f"the paper's Kafka: {PAPER_CONSUMER:,}": PAPER_CONSUMER})
    say(axes, "", "seconds (logarithmic)", "messages a second (logarithmic)")
    return Drawn(
        "figure-5-consumer",
        fig,
        "Consumer throughput over time, one process, messages of 200 bytes (figure 5 of the paper, P29). The legend "
        f"has the median of the whole runs, the line is the median run. {conditions(lines)}",
    )


def latency(lines: Sequence[Line]) -> Drawn:
    names = subjects(lines)
    fig, axes = draw.figure(9.5, 3.8, columns=len(names), sharey=True, squeeze=False)
    for each, subject in zip(axes.flat, names, strict=True):
        mine = [line for line in lines if line["subject"] == subject]
        along(each, mine, "per_second", lambda line: str(line["case"]["figure"]), draw.PALETTE)
        first = "milliseconds (logarithmic)" if subject == names[0] else ""
        say(each, title(mine[0]), "records a second (logarithmic)", first)
        each.set_yscale("log")
        plain_numbers(each.yaxis)
    legend_above(fig, axes.flat[0])
    return Drawn(
        "latency",
        fig,
        "End-to-end latency, one record at a time at a fixed rate, nothing gathered, acks=1: from the moment a record "
        "was due until the consumer, another process, has it. Where a run had fewer than 1,000 records, p99.9 is the "
        f"slowest of them. {conditions(lines)}",
    )


WAYS = {"in": "produced", "out": "consumed", "produce": "produced", "consume": "consumed"}


def clients_or_partitions(lines: Sequence[Line], key: str, xlabel: str, what: str) -> Drawn:
    fig, (left, right) = draw.figure(9.5, 3.8, columns=2)
    along(left, lines, key, lambda line: WAYS[line["case"]["way"]], draw.PALETTE)
    say(left, "how fast (more is better)", xlabel, "messages a second")
    left.set_ylim(bottom=0)
    plain_numbers(left.yaxis)
    for at, way in enumerate(("in", "out")):
        processor_time(right, where(lines, way=way), key, WAYS[way], draw.PALETTE[at], MARKERS[at])
    say(right, "what it costs (less is better)", xlabel, "µs of processor time a message")
    right.set_ylim(0, right.get_ylim()[1] * 1.4)  # room for the legend
    ticks_at(right, values(lines, key))
    for each in (left, right):
        each.legend(frameon=False, fontsize=9)
    return Drawn(key, fig, f"{what} {conditions(lines)}")


def partitions(lines: Sequence[Line]) -> Drawn:
    return clients_or_partitions(
        lines,
        "partitions",
        "partitions (logarithmic)",
        f"The same {number(lines[0]['case']['messages'])} messages of 200 bytes through 1 to 1,000 partitions of one "
        "broker, one librdkafka, 200 messages to each partition in turn, acks=1.",
    )


def clients(lines: Sequence[Line]) -> Drawn:
    return clients_or_partitions(
        lines,
        "clients",
        "producers, or consumers (logarithmic)",
        f"The same {number(lines[0]['case']['messages'])} messages of 200 bytes by 1 to 64 producers, then 1 to 64 "
        "consumers, each a librdkafka with its share of 64 partitions of one broker, all in one process; acks=1.",
    )


def codecs(lines: Sequence[Line]) -> Drawn:
    fig, axes = draw.figure(11, 3.8, columns=3)
    titles = {
        "in": ("produced (more is better)", "messages a second"),
        "out": ("consumed (more is better)", "messages a second"),
        "disk": ("on the broker's disk (less is better)", "bytes a message"),
    }
    look = looks(subjects(lines))
    for each, (way, (words, ylabel)) in zip(axes, titles.items(), strict=True):
        bars(each, where(lines, way=way), "codec", title, look)
        say(each, words, "codec", ylabel)
    legend_above(fig, axes[0])
    return Drawn(
        "codecs",
        fig,
        "Log lines of about 190 bytes, none twice in a batch, one partition, acks=1, linger.ms=5, batches as each "
        f"client makes them by default. {conditions(lines)}",
    )


def replicas(lines: Sequence[Line]) -> Drawn:
    fig, (left, right) = draw.figure(9.5, 3.8, columns=2)
    look = looks(["acks=1", "acks=all"])
    look = {"acks=1": look[KNOWN[0]], "acks=all": look[KNOWN[1]]}

    def acks(line: Line) -> str:
        return f"acks={line['case']['acks']}"

    bars(left, lines, "replicas", acks, look)
    for goal in {line["goal"] for line in lines if line["goal"]}:
        mark_level(left, goal, f"goal of the\nlast bar:\n{number(goal)}", room=0.7)
    say(left, "how fast (more is better)", "replicas", "messages a second")
    cost = [
        {**line, "median": median_of(cpu), "low": min(cpu), "high": max(cpu)}
        for line in lines
        if (cpu := line["server_cpu_us"])
    ]
    bars(right, cost, "replicas", acks, look)
    say(right, "what it costs all brokers (less is better)", "replicas", "µs of processor time a message")
    legend_above(fig, left)
    return Drawn(
        "replicas",
        fig,
        "Three brokers, a client and ZooKeeper on the same cores; messages of 200 bytes to three partitions by one "
        "librdkafka. The rate is that of acknowledged messages, the processor time that until every replica has them. "
        + conditions(lines),
    )


def transfer(lines: Sequence[Line]) -> Drawn:
    fig, (left, right) = draw.figure(9.5, 3.8, columns=2)
    names = subjects(lines)
    order = looks(())
    look = {name: order[known] for name, known in zip(names, KNOWN, strict=False)}
    for each, figure, words, ylabel in (
        (left, "rate", "how fast (more is better)", "GB a second"),
        (right, "broker", "what it costs the broker (less is better)", "seconds of processor time for 1 GB"),
    ):
        bars(each, where(lines, figure=figure), "client", lambda line: str(line["subject"]), look)
        say(each, words, "what the client does with the bytes", ylabel)
    legend_above(fig, left)
    return Drawn(
        "transfer",
        fig,
        "A log in the page cache, fetched over loopback by one connection, 1 MB a fetch, from brokers that differ in "
        "this alone: sendfile (P10), or reading and writing pieces. `copied`: the client reads the bytes; `dropped`: "
        f"its kernel throws them away. {conditions(lines)}",
    )


def overhead(lines: Sequence[Line]) -> Drawn:
    found = where(lines, of="overhead")
    fig, axes = draw.figure(8.5, 3.8)
    bars(axes, found, "batch", title, looks(subjects(found)))
    for words, told in PAPER_OVERHEAD.items():
        mark_level(axes, told, f"the paper's\n{words}: {told}", room=0.15)
    say(axes, "", "messages handed over at once", "bytes beyond the message's own")
    legend_above(fig, axes)
    return Drawn(
        "overhead",
        fig,
        "What a message of 200 bytes takes on disk beyond its own bytes (P30); systems without batches stand in both "
        f"groups with the same runs. {conditions(found)}",
    )


def stored(lines: Sequence[Line]) -> Drawn:
    fig, axes = draw.figure(8, 3.8)
    along(axes, lines, "stored_gb", lambda line: f"{WAYS[line['case']['act']]}, {title(line)}", draw.PALETTE)
    say(axes, "", "GB stored already (logarithmic)", "messages a second")
    axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)
    legend_above(fig, axes)
    return Drawn(
        "stored",
        fig,
        "Messages of 200 bytes a second, produced at the end of a log and consumed from its start, against what it "
        f"holds already (P31). {conditions(lines)}",
    )


def lagging(lines: Sequence[Line]) -> Drawn:
    fig, axes = draw.figure(8, 3.8)
    order = looks(())
    look = {"producer": order[KNOWN[0]], "consumer": order[KNOWN[1]]}
    bars(axes, lines, "consumer", lambda line: str(line["case"]["of"]), look)
    say(axes, "", "the consumer beside the producer", "messages a second")
    legend_above(fig, axes)
    return Drawn(
        "lagging",
        fig,
        "A producer alone, beside a consumer at the log's end, and beside one that lags behind and reads old data from "
        "the disk (P31). All share the cores: what the old data costs is the difference of the last two. "
        + conditions(lines),
    )


FIGURES: dict[str, Callable[[Sequence[Line]], Drawn]] = {
    "produce": produce,
    "consume": consume,
    "overhead": overhead,
    "stored": stored,
    "lagging": lagging,
    "latency": latency,
    "partitions": partitions,
    "clients": clients,
    "codecs": codecs,
    "replicas": replicas,
    "transfer": transfer,
}


def figures(lines: Iterable[Line]) -> Iterator[Drawn]:
    """All figures of these lines, experiment by experiment; of an experiment measured several times, the last run."""
    for experiment, found in last_runs(lines).items():
        if experiment in FIGURES:
            yield FIGURES[experiment](found)
