"""The shapes that figures of results are made of: lines over time or over a quantity, bars, levels, and their looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from kafka_classic.notebooks import draw

Line = Mapping[str, Any]
# Each system has its colour, hatch and marker in all figures; what is not named here takes what is left, in order.
KNOWN = ("librdkafka", "rabbitmq", "activemq", "apache-kafka", "own", "rabbitmq-transient")
OURS = {
    **dict.fromkeys(("kafka-classic (librdkafka)", "classic-librdkafka"), "librdkafka"),
    **dict.fromkeys(("kafka-classic (its own client)", "classic-own"), "own"),
}
TITLES = {
    "librdkafka": "kafka-classic, librdkafka",
    "own": "kafka-classic, its own clients",
    "rabbitmq": "RabbitMQ, persistent",
    "rabbitmq-transient": "RabbitMQ, transient",
    "activemq": "ActiveMQ, persistent",
    "apache-kafka": "Apache Kafka, librdkafka",
}
MARKERS = "os^DvPX"
_POINTS = 60


class Look(NamedTuple):
    colour: str
    hatch: str
    marker: str


def looks(subjects: Iterable[str]) -> dict[str, Look]:
    """How each subject is drawn: as everywhere, whichever of them are there."""
    order = [*KNOWN, *(subject for subject in dict.fromkeys(subjects) if OURS.get(subject, subject) not in KNOWN)]
    found = {}
    for number, subject in enumerate(order):
        at = number % len(draw.PALETTE)
        look = Look(draw.PALETTE[at], draw.HATCHES[at], MARKERS[at])
        names = [subject, TITLES.get(subject, subject), *(name for name, ours in OURS.items() if ours == subject)]
        found.update(dict.fromkeys(names, look))
    return found


def title(line: Line) -> str:
    """A subject as people call it."""
    name = str(line["subject"])
    subject = OURS.get(name, name)
    return TITLES.get(subject, subject)


def number(value: float, _: object = None) -> str:
    """A figure in three digits and few letters: 1.2 M, 400,000, 3.5, 0.02."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def values(lines: Iterable[Line], key: str) -> list[Any]:
    """What a case has for a key, each once, in order."""
    return list(dict.fromkeys(line["case"][key] for line in lines if key in line["case"]))


def where(lines: Iterable[Line], **case: object) -> list[Line]:
    """The lines whose case has these values."""
    return [line for line in lines if all(line["case"].get(key) == value for key, value in case.items())]


def subjects(lines: Iterable[Line]) -> list[str]:
    return list(dict.fromkeys(line["subject"] for line in lines))


def median_of(numbers: Sequence[float]) -> float:
    ordered = sorted(numbers)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def over_time(axes: Any, lines: Sequence[Line], paper: Mapping[str, float]) -> None:
    """Throughput over time, each subject a line, on logarithmic scales; the paper's numbers dotted."""
    look = looks(subjects(lines))
    for line in sorted(lines, key=lambda line: -float(line["median"])):
        found = thinned(line["series"])
        colour, _, marker = look[line["subject"]]
        axes.plot(
            [at for at, _ in found], [rate for _, rate in found], color=colour, linewidth=1.4, marker=marker,
            markersize=4, markevery=max(1, len(found) // 5), label=f"{title(line)}: {number(line['median'])}/s",
        )  # fmt: skip
    for words, rate in paper.items():
        mark_level(axes, rate, words, place="left")  # where those that are slow have not begun
    axes.set_xscale("log")
    axes.set_yscale("log", nonpositive="mask")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17))


def thinned(series: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A series (seconds, messages a second) with the mean of neighbours where it has more points than can be seen."""
    size = max(1, -(-len(series) // _POINTS))
    parts = [series[at : at + size] for at in range(0, len(series), size)]
    return [(part[-1][0], sum(rate for _, rate in part) / len(part)) for part in parts]


def mark_level(axes: Any, level: float, words: str, room: float = 0.0, place: str = "right") -> None:
    """A number that others told, as a dotted line with its name; `room` is made for it right of the last bar."""
    if room:
        axes.set_xlim(right=axes.get_xlim()[1] + room)
    x = 0.995 if place == "right" else 0.005
    axes.axhline(level, color=draw.INK, linewidth=1, linestyle=":", zorder=3)
    axes.text(
        x, level, words, transform=axes.get_yaxis_transform(), fontsize=8, color=draw.INK, horizontalalignment=place,
        verticalalignment="bottom", zorder=4,
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.0},
    )  # fmt: skip


def along(axes: Any, lines: Sequence[Line], key: str, named: Callable[[Line], str], colours: Sequence[str]) -> None:
    """Medians over a quantity of the case, on a logarithmic scale with its own values as ticks; spreads as bars."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(named(line), []).append(line)
    for at, (label, group) in enumerate(groups.items()):
        ordered = sorted(group, key=lambda line: float(line["case"][key]))
        # A little apart, so that the bars of one do not hide those of another.
        places = [line["case"][key] * 1.04 ** (at - (len(groups) - 1) / 2) for line in ordered]
        medians = [line["median"] for line in ordered]
        spread = [
            [line["median"] - line["low"] for line in ordered],
            [line["high"] - line["median"] for line in ordered],
        ]
        axes.errorbar(
            places, medians, yerr=spread, color=colours[at % len(colours)], marker=MARKERS[at % len(MARKERS)],
            markersize=5, linewidth=1.6, elinewidth=0.9, capsize=3, label=label,
        )  # fmt: skip
    ticks_at(axes, values(lines, key))


def ticks_at(axes: Any, places: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(places, [number(place) for place in places])
    axes.xaxis.set_minor_locator(NullLocator())


def bars(axes: Any, lines: Sequence[Line], key: str, named: Callable[[Line], str], look: Mapping[str, Look]) -> None:
    """Medians as bars, a group for each value of `key`, a bar in it for each name; what they are is written above."""
    groups = values(lines, key)
    names = list(dict.fromkeys(map(named, lines)))
    width = 0.84 / len(names)
    upright = len(groups) * len(names) > 8
    for line in lines:
        at, place = names.index(named(line)), groups.index(line["case"][key])
        x = place + (at - (len(names) - 1) / 2) * width
        colour, hatch, _ = look[named(line)]
        spread = [[line["median"] - line["low"]], [line["high"] - line["median"]]]
        axes.bar(
            x, line["median"], width=width * 0.92, color=colour, hatch=hatch, edgecolor="white", linewidth=0,
            yerr=spread, capsize=2, error_kw={"linewidth": 0.9, "ecolor": draw.INK},
            label=named(line) if named(line) not in axes.get_legend_handles_labels()[1] else None,
        )  # fmt: skip
        axes.annotate(
            number(line["median"]), (x, line["high"]), xytext=(0, 3), textcoords="offset points", fontsize=7,
            color=draw.INK, horizontalalignment="center", rotation=90 if upright else 0,
        )  # fmt: skip
    axes.set_xticks(range(len(groups)), [str(group) for group in groups])
    axes.margins(y=0.3 if upright else 0.16)
    plain_numbers(axes.yaxis)


def plain_numbers(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(number))


def processor_time(axes: Any, lines: Sequence[Line], key: str, label: str, colour: str, marker: str) -> None:
    """The servers' processor time a message as a line, the clients' dashed."""
    ordered = sorted(lines, key=lambda line: float(line["case"][key]))
    places = [line["case"][key] for line in ordered]
    for whose, words, style in (("server_cpu_us", "broker", "-"), ("client_cpu_us", "client", "--")):
        if all(line[whose] for line in ordered):
            axes.plot(
                places, [median_of(line[whose]) for line in ordered], color=colour, linestyle=style, marker=marker,
                markersize=4, label=f"{words}, {label}",
            )  # fmt: skip


def say(axes: Any, words: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """The words of a panel: its title, and what its axes are."""
    axes.set_title(words, fontsize=10.5)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)


def legend_above(fig: Figure, axes: Any) -> None:
    """One legend for all panels, above them."""
    handles, labels = axes.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)), frameon=False, fontsize=9)
