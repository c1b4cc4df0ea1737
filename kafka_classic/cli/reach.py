"""The way from a command to a cluster: one check that a broker answers, then a client with attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster


@contextmanager
def connect(bootstrap: str, *, connect_timeout: float = 5.0, deadline: float = 15.0) -> Iterator[Cluster]:
    """The cluster behind a bootstrap list, closed at the end; a list with no live broker in it fails at once."""
    from kafka_classic.client.cluster import Cluster

    with Cluster(bootstrap, "kafka-classic-cli", connect_timeout=connect_timeout, deadline=deadline) as cluster:
        # A person at a terminal who mistyped a port should not wait for the attempts that a program makes.
        cluster.any()
        yield cluster
