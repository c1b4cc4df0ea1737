"""A load on a machine so busy that Spark gives up a Python process it has just started: begun again, not ended."""

from __future__ import annotations

import io
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kafka_classic.audit.load import Load, LoadFailed

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """A stand-in for Spark's: commits some batches, then ends or fails."""

    def __init__(self, batches: range, failure: str | None) -> None:
        self._batches = batches
        self._failure = failure

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802  # Spark's name
        return [Progress(number) for number in self._batches]

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        if self._failure is not None:
            raise PySparkException(self._failure)
        return True

    def stop(self) -> None:
        pass


class Progress:
    numInputRows = 7  # noqa: N815
    batchDuration = 1  # noqa: N815

    def __init__(self, number: int) -> None:
        self.batchId = number
        self.sources = (Source(),)


class Source:
    endOffset = "{}"  # noqa: N815
    latestOffset = None  # noqa: N815


def loading(*lives: Query) -> Load:
    coming = iter(lives)
    return Load(lambda: next(coming), io.BytesIO())  # type: ignore[arg-type, return-value]


def test_a_python_process_that_spark_gave_up_is_not_the_end_of_a_load() -> None:
    with loading(Query(range(2), LATE), Query(range(1, 4), None)) as load:
        assert [batch.number for batch in load.batches()] == [0, 1, 2, 3]


def test_what_commits_between_is_not_counted_as_giving_up() -> None:
    lives = [Query(range(n, n + 1), LATE) for n in range(12)]
    with loading(*lives, Query(range(0), None)) as load:
        assert len(list(load.batches())) == 12


def test_a_load_that_never_gets_anywhere_ends_and_says_why() -> None:
    with loading(*(Query(range(0), LATE) for _ in range(20))) as load, pytest.raises(LoadFailed, match="connect back"):
        list(load.batches())


def test_any_other_failure_ends_the_load_at_once() -> None:
    with loading(Query(range(1), "the disk is full")) as load, pytest.raises(LoadFailed, match="disk is full"):
        list(load.batches())
