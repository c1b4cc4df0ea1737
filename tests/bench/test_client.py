"""A client of the comparison is followed by its lines: what it did, how fast, and what it cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from bench.peers.client import Client, Told, understand
from bench.peers.peer import Measured, PeerFailed
from kafka_classic.testing.waiting import until

BEGIN = '{"ns": 0, "messages": 0}'
MIDDLE = '{"ns": 500000000, "messages": 4000}'
END = '{"ns": 2000000000, "messages": 10000, "cpu_ns": 300000000, "done": true}'


def printing(*lines: str, then: str = "") -> list[str]:
    return [sys.executable, "-c", f"for line in {lines!r}: print(line, flush=True)\n{then}"]


def rising() -> Iterator[float]:
    yield from (1.0, 1.5)


def test_a_line_says_when_and_how_many() -> None:
    assert understand(MIDDLE) == Told(0.5, 4000)
    assert understand(END) == Told(2.0, 10_000, 0.3, True)


@pytest.mark.parametrize("line", ["", "SLF4J: no logger", "[1, 2]", '{"ns": 3}', '{"ns": null, "messages": 1}', "7"])
def test_what_is_no_line_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(PeerFailed, match=r"no progress line"):
        understand(line)


def test_a_run_is_measured_from_its_first_line_to_its_last() -> None:
    server = rising()
    measured = Client(printing(BEGIN, MIDDLE, END), lambda: next(server)).wait()
    assert measured == Measured(10_000, 2.0, 0.5, 0.3, [(0.0, 0), (0.5, 4000), (2.0, 10_000)])
    assert (measured.rate, measured.server_us, measured.client_us) == pytest.approx((5000, 50, 30))
    assert measured.rates() == [(0.5, 8000), (2.0, 4000)]


def test_what_is_left_at_the_end_is_no_step_of_its_own() -> None:
    series = [(0.0, 0), (0.1, 100), (0.2, 200), (0.204, 201)]
    assert Measured(201, 0.204, 0, 0, series).rates() == [(0.1, 1000), (0.204, 971.2)]


def test_a_long_run_is_drawn_with_few_points_and_to_its_end() -> None:
    series = [(number / 10, number * 100) for number in range(1001)]
    rates = Measured(100_000, 100.0, 0, 0, series).rates(points=10)
    assert len(rates) <= 11
    assert rates[-1][0] == 100.0
    assert {rate for _, rate in rates} == {1000.0}


def test_what_a_client_complains_about_is_in_the_error() -> None:
    with pytest.raises(PeerFailed, match="the broker is gone"):
        Client(printing(BEGIN, then="raise SystemExit('the broker is gone')"), lambda: 0.0).wait()


def test_a_client_that_ends_without_its_last_line_has_failed() -> None:
    with pytest.raises(PeerFailed, match="code 0"):
        Client(printing(BEGIN, MIDDLE), lambda: 0.0).wait()


def test_a_client_that_stands_still_is_ended() -> None:
    client = Client(printing(BEGIN, then="import time; time.sleep(600)"), lambda: 0.0)
    with pytest.raises(PeerFailed, match="stands still after 0 messages"):
        client.wait(stuck_s=0.5)


def test_a_client_that_is_stopped_counts_for_what_it_had_done() -> None:
    waiting = '{"ns": 900000000, "messages": 4000}'
    client = Client(printing(BEGIN, MIDDLE, waiting, then="import time; time.sleep(600)"), lambda: 0.0)
    until(lambda: len(client.told) == 3, "its lines")
    measured = client.stop()
    assert (measured.messages, measured.wall_s) == (4000, 0.5)
