"""A partition's batches as they lie in the broker's segment files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafka_classic.records.batch import BatchHeader, iter_batches
from kafka_classic.testing.cluster import LocalCluster


class Lying(NamedTuple):
    """A batch, the segment it lies in (by the offset in the file's name) and its position there."""

    segment: int
    position: int
    header: BatchHeader


def partition_dir(cluster: LocalCluster, topic: str, partition: int = 0) -> Path:
    return cluster.brokers[0].data_dir / f"{topic}-{partition}"


def batches_on_disk(cluster: LocalCluster, topic: str, partition: int = 0) -> list[Lying]:
    return [
        Lying(int(path.stem), position, header)
        for path in sorted(partition_dir(cluster, topic, partition).glob("*.log"))
        for position, header in iter_batches(path.read_bytes())
    ]
