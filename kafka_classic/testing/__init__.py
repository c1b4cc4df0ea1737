"""A cluster of real processes with faults, and the pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_classic.testing.broker import BrokerProcess
    from kafka_classic.testing.cluster import LocalCluster
    from kafka_classic.testing.faults import FaultyCluster

__all__ = ["BrokerProcess", "FaultyCluster", "LocalCluster"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: pytest loads this package in every test run, used or not."""
    if name == "LocalCluster":
        from kafka_classic.testing.cluster import LocalCluster

        return LocalCluster
    if name == "BrokerProcess":
        from kafka_classic.testing.broker import BrokerProcess

        return BrokerProcess
    if name == "FaultyCluster":
        from kafka_classic.testing.faults import FaultyCluster

        return FaultyCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
