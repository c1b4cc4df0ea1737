"""Lets a test import what stands beside it (`from tests.log.batches import …`), and shares files out to workers.

The repository's root goes to the END of the path: `kafka_classic` itself must come from what was installed, as users
have it, and not from the source folder, which lacks the rooms that stand elsewhere (zk, consumer, audit).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)
# A SparkSession is a JVM, half a gigabyte and five seconds: the tests of the folder share one, so one worker runs them
# all. The loads that are killed have their own, and two at once on two cores would meet Spark's limits of time.
SPARK = ("tests/audit/spark/", "tests/audit/test_load_kills.py")
# Each document has a cluster of its own, and the longest takes minutes: any worker may take the next one.
DOCUMENTS = "tests/repo/test_documents.py"
# What takes longest begins first: begun last, it would run for minutes while the other workers have nothing left.
LONG_FIRST = (
    *SPARK,
    "tests/faults/",
    DOCUMENTS,
    "tests/consumer/test_simulation.py",
    "tests/clients/test_groups.py",
    "tests/cli/",
)


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """`--dist loadfile`, but what starts Spark goes to one worker like a single file, and documents go one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(DOCUMENTS):
            return nodeid
        return SPARK[0] if nodeid.startswith(SPARK) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # would put first the files with many tests, which are the quick ones
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: next((n for n, one in enumerate(LONG_FIRST) if item.nodeid.startswith(one)), 99))
