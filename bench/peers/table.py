"""What the paper's experiments gave, as tables to look at, with the paper's own figures and the goals beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.load.report import number
from bench.load.results import Line, ratios

RIVALS = ("rabbitmq", "activemq", "apache-kafka")  # each has a column of ratios
TITLES = {
    "produce": "producer throughput (figure 4, P28)",
    "consume": "consumer throughput, pulls of 200 KB, prefetch 1,000 (figure 5, P29)",
    "overhead": "bytes on disk of a message of 200 (P30)",
    "stored": "throughput against what is stored already (P31)",
    "lagging": "a producer beside a consumer that reads old data (P31)",
    "times": "how many times its rivals, round by round: kafka-classic by librdkafka",
}
# The paper's, on its own machines of 2011.
PAPER: dict[tuple[str, str, object], str] = {
    ("produce", "classic", 1): "50,000",
    ("produce", "classic", 50): "400,000",
    ("consume", "classic", None): "22,000",
    ("overhead", "classic", 50): "9",
    ("overhead", "activemq", 1): "144",
}
PAPER_TIMES: dict[tuple[object, object], str] = {
    ("produce", "rabbitmq"): "at least 2",
    ("produce", "activemq"): "orders of magnitude",
    ("consume", "rabbitmq"): "more than 4",
    ("consume", "activemq"): "more than 4",
}


def show(lines: Sequence[Line], titles: Mapping[str, str], console: Console) -> None:
    for experiment, group in groupby(lines, key=lambda line: line.experiment):
        _experiment(experiment, list(group), titles, console)


def _experiment(experiment: str, lines: list[Line], titles: Mapping[str, str], console: Console) -> None:
    rivals = [name for name in RIVALS if any(line.subject == name for line in lines)]
    spends = any(line.server_cpu_us for line in lines)
    table = Table(title=TITLES[experiment], title_justify="left")
    table.add_column("")
    table.add_column("case")
    for column in (
        "median",
        "lowest to highest",
        *(("server µs", "client µs") if spends else ()),
        *(f"x {rival}" for rival in rivals),
        "paper",
        "goal",
    ):
        table.add_column(column, justify="right")
    before = ""
    for line in lines:
        if _repeats(line):
            continue
        against = ratios(line, lines)
        table.add_row(
            "" if line.subject == before else titles.get(line.subject, line.subject),
            _case(line),
            f"{number(line.median)} {line.unit}",
            f"{number(min(line.runs))} to {number(max(line.runs))}",
            *((_us(line.server_cpu_us), _us(line.client_cpu_us)) if spends else ()),
            *(f"{against[rival]:.3g}" if rival in against else "" for rival in rivals),
            _paper(line),
            _goal(line),
        )
        before = line.subject
    console.print(table)


def _repeats(line: Line) -> bool:
    """Of a system without batches one row is enough; its line for the other case is there for the ratios."""
    return "no batches" in line.note and line.case.get("batch") == 50


def _case(line: Line) -> str:
    words = {name: f"{name} {value}" for name, value in line.case.items()}
    words |= {name: str(value) for name, value in line.case.items() if name in ("of", "act", "experiment")}
    words |= {name: f"{value} GB stored" for name, value in line.case.items() if name == "stored_gb"}
    return ", ".join(words.values())


def _us(values: list[float]) -> str:
    return f"{median(values):.2f}" if any(values) else ""


def _paper(line: Line) -> str:
    if line.experiment == "times":
        return PAPER_TIMES.get((line.case["experiment"], line.case["against"]), "")
    if line.case.get("of") == "disk":
        return ""
    return PAPER.get((line.experiment, line.subject.partition("-")[0], line.case.get("batch")), "")


def _goal(line: Line) -> str:
    if line.goal is None:
        return ""
    mark = "[green]reached[/green]" if line.reached else "[yellow]not reached[/yellow]"
    return f"{number(line.goal)} {mark}"
