"""What stands in a topic, read back by our own client."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.simple import beginning, consume, end
from kafka_classic.records.record import Record


def new_topic(bootstrap: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
    """A fresh topic."""
    name = f"produced-{uuid.uuid4().hex[:8]}"
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic(name, partitions, configs=dict(configs or {}))])
    return name


def read(bootstrap: str, topic: str) -> dict[int, list[Record]]:
    """Every record of a topic, by partition, in order of offsets."""
    with Cluster(bootstrap) as cluster:
        first, last = beginning(cluster, [topic]), end(cluster, [topic])
        found: dict[int, list[Record]] = {partition: [] for _, partition in first}
        for _, partition, record in consume(cluster, first, until=last):
            found[partition].append(record)
    return found


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of a topic of one partition."""
    return [record.value for record in read(bootstrap, topic)[0]]
