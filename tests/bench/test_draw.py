"""The figures of results: each experiment has its own, with labelled axes, the paper's numbers, an honest caption."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.load.results import Line, read
from tests.bench.lines import kept

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "draw.py"
LIBRDKAFKA, OWN = "kafka-classic (librdkafka)", "kafka-classic (its own client)"


def lines() -> Iterator[Line]:
    """A line of every case of every experiment that has a figure."""
    series = [(second / 10, 1e5 + second) for second in range(1, 200)]

    def line(experiment: str, subject: str = LIBRDKAFKA, unit: str = "msg/s", **case: Any) -> Line:
        cpu = [0.1, 0.2, 0.3]
        goal = 150_000.0 if case.get("acks") == "all" else None
        return Line(experiment, subject, case, unit, [8e5, 9e5, 9.5e5], True, cpu, cpu, series, goal)

    for subject in ("classic-librdkafka", "classic-own", "rabbitmq", "activemq", "a stranger"):
        yield from (line("produce", subject, batch=batch) for batch in (1, 50))
        yield line("consume", subject, prefetch=1000)
        yield from (
            line("overhead", subject, "B", batch=batch, of=of) for batch in (1, 50) for of in ("overhead", "disk")
        )
    yield from (line("stored", stored_gb=size, act=act) for size in (1, 20) for act in ("produce", "consume"))
    yield from (line("lagging", consumer=consumer, of="producer") for consumer in ("none", "at the end", "lagging"))
    yield line("lagging", consumer="lagging", of="consumer")
    for subject in (LIBRDKAFKA, OWN):
        yield from (
            line("latency", subject, "ms", per_second=rate, figure=figure)
            for rate in (100, 1000)
            for figure in ("p50", "p99", "p99.9")
        )
        yield from (
            line("codecs", subject, codec=codec, way=way) for codec in ("none", "lz4") for way in ("in", "out", "disk")
        )
    for way in ("in", "out"):
        yield from (line("partitions", partitions=count, way=way, messages=1000) for count in (1, 1000))
        yield from (line("clients", clients=count, way=way, messages=1000) for count in (1, 64))
    yield from (line("replicas", replicas=count, acks=acks) for count in (1, 3) for acks in ("1", "all"))
    for subject in ("sendfile", "read+write of 16 KB"):
        yield from (
            line("transfer", subject, "GB/s", client=client, figure=figure)
            for client in ("copied", "dropped")
            for figure in ("rate", "broker")
        )
    yield line("idle", brokers=3, figure="start")


FIGURES = (
    *("figure-4-producer", "figure-5-consumer", "overhead", "stored", "lagging", "latency", "codecs", "partitions"),
    *("clients", "replicas", "transfer"),
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the notebooks' extra only")
    from kafka_classic.notebooks import results

    path = kept(tmp_path_factory.mktemp("lines") / "r.jsonl", *lines())
    return {one.name: one for one in results.figures(read(path))}


def words(figure: Any) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def test_every_experiment_has_its_figure(drawn: dict[str, Any]) -> None:
    assert set(drawn) == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_axes_say_what_they_are(drawn: dict[str, Any], name: str) -> None:
    axes = drawn[name].figure.axes
    assert all(one.get_xlabel() for one in axes)
    assert axes[0].get_ylabel()


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_names_machine_load_and_spread(drawn: dict[str, Any], name: str) -> None:
    caption = drawn[name].caption
    assert "2 cores" in caption
    assert "a processor" in caption
    assert "load average 0.5" in caption
    assert "Medians of 3 runs" in caption


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("figure-4-producer", ("paper's Kafka: 50,000", "paper's Kafka: 400,000")),
        ("figure-5-consumer", ("paper's Kafka: 22,000",)),
        ("overhead", ("Kafka: 9", "ActiveMQ: 144")),
        ("replicas", ("150,000",)),
    ],
)
def test_the_papers_numbers_and_the_goals_are_marked(
    drawn: dict[str, Any], name: str, numbers: tuple[str, ...]
) -> None:
    assert all(number in words(drawn[name].figure) for number in numbers)


def test_all_subjects_are_told_apart(drawn: dict[str, Any]) -> None:
    shown = words(drawn["figure-4-producer"].figure)
    for subject in (
        "kafka-classic, librdkafka",
        "kafka-classic, its own clients",
        "RabbitMQ, persistent",
        "a stranger",
    ):
        assert f"{subject}: 900,000/s" in shown
    lines = drawn["figure-4-producer"].figure.axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == 6  # with the paper's


def test_the_last_run_of_each_experiment_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the notebooks' extra only")
    from kafka_classic.notebooks import results

    path = kept(tmp_path / "r.jsonl", *lines())
    old = [{**line, "run": "2000-01-01T00:00:00Z"} for line in read(path)]
    consume = [line for line in read(path) if line["experiment"] == "consume"]
    found = {one.name: one for one in results.figures([*old, *consume])}
    assert set(found) == set(FIGURES)
    assert "2000-01-01" in found["latency"].caption
    assert "2000-01-01" not in found["figure-5-consumer"].caption


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env={**os.environ, **environment})


@pytest.mark.parametrize("format", ["svg", "png"])
def test_the_program_writes_a_file_for_each_figure(tmp_path: Path, format: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the notebooks' extra only")
    path = kept(tmp_path / "r.jsonl", *(line for line in lines() if line.experiment in ("consume", "replicas", "idle")))
    done = run(path, "--to", tmp_path / "figures", "--format", format)
    assert done.returncode == 0, done.stderr
    written = sorted((tmp_path / "figures").iterdir())
    assert [one.name for one in written] == [f"figure-5-consumer.{format}", f"replicas.{format}"]
    assert all(one.stat().st_size > 5000 for one in written)
    assert "no figure for: idle" in done.stderr
    if format == "svg":
        assert "Consumer throughput over time" in written[0].read_text()  # for those who cannot see it


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path) -> None:
    # A package of that name that cannot be imported, ahead of the real one if there is one.
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')"
    )
    done = run(kept(tmp_path / "r.jsonl", *lines()), "--to", tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    (told,) = done.stderr.splitlines()
    assert "matplotlib" in told
    assert "pip install 'kafka-classic[notebooks]'" in told


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the notebooks' extra only")
    done = run(tmp_path / "nowhere.jsonl", "--to", tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
