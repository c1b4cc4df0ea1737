"""Topics of a test's own, with records in known places."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kafka_classic import Producer
from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster

START = 1_700_000_000_000


def new_topic(cluster: Cluster, partitions: int = 1, **configs: str) -> str:
    """Create a topic and return its name; settings with underscores for dots."""
    name = f"t{uuid.uuid4().hex[:10]}"
    named = {key.replace("_", "."): value for key, value in configs.items()}
    create_topics(cluster, [NewTopic(name, partitions, configs=named)])
    return name


def fill(bootstrap: str, topic: str, partition: int, values: Iterable[bytes], start_ms: int = START) -> None:
    """Write values into one partition, a millisecond apart."""
    with Producer(bootstrap, {"batch.size": "2000"}) as producer:
        for index, value in enumerate(values):
            producer.send(topic, value, b"k%d" % (index % 7), timestamp=start_ms + index, partition=partition)


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%08d" % number for number in range(first, first + count)]
