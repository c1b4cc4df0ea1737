"""Records are lost where Kafka's design admits it, and only there: measured, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_classic.testing.faults import FaultyCluster
from kafka_classic.testing.losses import AT_RISK, FAULTS, HEALTHY, SETTINGS, admitted, measure


@pytest.fixture(scope="module")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("losses"), 3, SETTINGS) as cluster:
        yield cluster


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_lost_is_what_the_design_admits(frail: FaultyCluster, fault: str) -> None:
    frail.mend()
    cells = measure(frail, fault)
    assert [(cell.acks, cell.unclean) for cell in cells if cell.lost] == [
        (cell.acks, cell.unclean) for cell in cells if admitted(cell)
    ], cells
    for cell in cells:
        assert cell.acknowledged >= HEALTHY
        # What was written while the followers were held back, and nothing that they had. (A fetch that was answered as
        # the network was cut may have carried the first of it.)
        assert 0 <= cell.lost <= AT_RISK
