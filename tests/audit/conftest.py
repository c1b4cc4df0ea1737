"""One SparkSession for all tests of Spark: they stand in tests/audit/spark, which one xdist worker runs as a whole.

(See `pytest_xdist_make_scheduler` in tests/conftest.py.) Tests of this room that need no session stand beside this
file and are shared out like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafka_classic.audit.session import spark_session
from kafka_classic.client.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_classic.testing.cluster import LocalCluster


# Tests run little of a lot of code: only the first compiler, and no collector with threads of its own.
FRUGAL = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of the whole test run, as `kafka-classic load` and the audit start theirs."""
    session = spark_session("tests", "local[2,2]", {**FRUGAL, "spark.sql.shuffle.partitions": "2"}, log_level="off")
    yield session
    session.stop()


@pytest.fixture
def cluster(kafka_cluster: LocalCluster) -> Iterator[Cluster]:
    """A client of the session's broker."""
    with Cluster(kafka_cluster.bootstrap) as client:
        yield client
