"""Records are lost where Kafka's design admits it, and only there: measured, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_classic.testing.losses import AT_RISK, FAULTS, HEALTHY, admitted, measure


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_lost_is_what_the_design_admits(tmp_path: Path, fault: str) -> None:
    cells = measure(tmp_path, fault)
    assert [(cell.acks, cell.unclean) for cell in cells if cell.lost] == [
        (cell.acks, cell.unclean) for cell in cells if admitted(cell)
    ], cells
    for cell in cells:
        assert cell.acknowledged >= HEALTHY
        # What was written while the followers were held back, and nothing that they had. (A fetch that was answered as
        # the network was cut may have carried the first of it.)
        assert 0 <= cell.lost <= AT_RISK, cell
