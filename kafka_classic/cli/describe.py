"""What `topics describe` shows of a topic, gathered from metadata, offsets and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_classic.client.cluster import Cluster


def describe_topic(cluster: Cluster, name: str) -> dict[str, object]:
    """A topic as a JSON object: its partitions with their offsets, its settings that differ from the defaults."""
    from kafka_classic.client.admin import (
        EARLIEST,
        LATEST,
        Resource,
        describe_configs,
        describe_topics,
        list_offsets,
    )

    (topic,) = describe_topics(cluster, [name])
    # A partition without a leader has nobody to ask for its offsets: they stay unknown, the rest is shown.
    led = [(name, partition.index) for partition in topic.partitions if partition.leader >= 0]
    start = list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    end = list_offsets(cluster, dict.fromkeys(led, LATEST))
    settings = describe_configs(cluster, Resource.TOPIC, name)
    return {
        "topic": name,
        "id": str(topic.id),
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "start": start[name, partition.index].offset if (name, partition.index) in start else None,
                "end": end[name, partition.index].offset if (name, partition.index) in end else None,
            }
            for partition in topic.partitions
        ],
        "configs": {setting.name: setting.value for setting in settings if not setting.is_default},
    }
