"""The peers take turns, ratios are taken within a round, and who fails is left out by name."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from bench.load.results import Line
from bench.peers import goals, table
from bench.peers.comparison import Comparison
from bench.peers.peer import WARM, Measured, PeerFailed
from bench.peers.sizes import Sizes

SIZES = Sizes(3, 1000, 100, 100, 10, (), 0, 0, 0)


class Scripted:
    """A peer that gives the rates it was told to, and writes down what was asked of it."""

    keeps = True
    settles_s = 0.0

    def __init__(self, name: str, batches: tuple[int, ...], rates: list[float], asked: list[str]) -> None:
        self.name = self.title = name
        self.batches = batches
        self._rates = {batch: iter(rates) for batch in (*batches, 0)}
        self._asked = asked
        self._stored = 0

    def missing(self) -> str:
        return ""

    def start(self, folder: Path) -> None: ...

    def stop(self) -> None: ...

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        self._asked.append(f"{self.name} in {batch}")
        self._stored += messages * (size + 30)
        return Measured(1000, 1.0, 0.1, 0.1) if not warm else self._next(batch)

    def consume(self, messages: int) -> Measured:
        self._asked.append(f"{self.name} out")
        return self._next(0)

    def clear(self) -> None:
        self._asked.append(f"{self.name} clear")

    def stored_bytes(self) -> int:
        return self._stored

    def _next(self, batch: int) -> Measured:
        rate = next(self._rates[batch], None)
        if rate is None:
            raise PeerFailed(f"{self.name} is out of memory")
        return Measured(int(rate), 1.0, 0.1, 0.1, [(0.0, 0), (1.0, int(rate))])


def compared(*wanted: str, theirs: tuple[float, ...] = (10, 20, 40)) -> tuple[Comparison, list[str]]:
    asked: list[str] = []
    ours = Scripted("classic-librdkafka", (1, 50), [400, 200, 1200], asked)
    rival = Scripted("rabbitmq", (1,), list(theirs), asked)
    comparison = Comparison([ours, rival], SIZES, wanted, str)
    comparison.run()
    return comparison, asked


def test_everybody_has_a_turn_in_every_round() -> None:
    _, asked = compared("produce", "consume")
    ours = [f"classic-librdkafka {act}" for act in ("in 1", "clear", "in 50", "out", "clear")]
    assert asked == 3 * [*ours, "rabbitmq in 1", "rabbitmq out", "rabbitmq clear"]


def test_to_read_only_the_batches_that_are_read_are_written() -> None:
    comparison, asked = compared("consume")
    assert "classic-librdkafka in 1" not in asked
    assert {line.experiment for line in comparison.lines()} == {"consume"}


def test_a_ratio_is_the_median_of_the_ratios_within_a_round() -> None:
    comparison, _ = compared("produce", "consume")
    assert comparison.ratios("classic-librdkafka", "rabbitmq", 50) == [40, 10, 30]
    found = {(line.case["experiment"], line.case.get("batch")): line for line in goals.lines(comparison, ["produce"])}
    assert found["produce", 50].median == 30
    assert found["produce", 50].reached is True
    assert found["produce", 1].goal == 1.5
    assert ("consume", None) not in found


def test_who_has_no_batches_stands_beside_both_of_ours() -> None:
    lines = [line for line in compared("produce")[0].lines() if line.subject == "rabbitmq"]
    assert [line.case for line in lines] == [{"batch": 1}, {"batch": 50}]
    assert lines[0].runs == lines[1].runs == [10, 20, 40]
    assert "no batches" in lines[1].note


def test_the_run_over_time_is_the_one_in_the_middle() -> None:
    [first, *_] = compared("produce")[0].lines()
    assert first.median == 400
    assert first.series == [(1.0, 400.0)]


def test_what_the_disk_holds_beyond_the_message_is_its_overhead() -> None:
    lines = compared("overhead")[0].lines()
    assert {(line.case["of"], line.median) for line in lines} == {("overhead", 30), ("disk", 230)}
    assert all(not line.more_is_better for line in lines)


def test_who_fails_is_named_and_the_others_go_on() -> None:
    comparison, asked = compared("produce", theirs=(10,))
    assert comparison.failed == {"rabbitmq": "rabbitmq is out of memory"}
    assert {line.subject for line in comparison.lines()} == {"classic-librdkafka"}
    assert asked.count("classic-librdkafka in 50") == 3


def test_the_table_has_the_papers_figure_and_whether_the_goal_is_reached() -> None:
    own = Line("produce", "classic-own", {"batch": 50}, "msg/s", [390_000, 410_000, 420_000], goal=400_000)
    rival = Line("produce", "rabbitmq", {"batch": 50}, "msg/s", [20_500], note="it has no batches")
    out = io.StringIO()
    table.show([own, rival], {"classic-own": "ours"}, Console(file=out, width=160))
    [row] = [line for line in out.getvalue().splitlines() if "ours" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        *("ours", "batch 50", "410,000 msg/s", "390,000 to 420,000", "20", "400,000", "400,000 reached")
    ]
