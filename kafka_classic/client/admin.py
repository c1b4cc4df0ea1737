"""What an administrator asks of a cluster, gathered from the files of this room that each do one part of it."""

from kafka_classic.client.configs import (
    Resource,
    Setting,
    Source,
    alter_configs,
    describe_configs,
    describe_topic_configs,
)
from kafka_classic.client.controlling import (
    Election,
    Reassignment,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from kafka_classic.client.describe import (
    ClusterDescription,
    LogDir,
    ReplicaSize,
    describe_cluster,
    describe_log_dirs,
)
from kafka_classic.client.offsets import (
    EARLIEST,
    HIGH_WATERMARK,
    LATEST,
    MAX_TIMESTAMP,
    OffsetAt,
    delete_records,
    list_offsets,
    offsets_of_topic,
)
from kafka_classic.client.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topics,
    list_topics,
)

__all__ = [
    "EARLIEST",
    "HIGH_WATERMARK",
    "LATEST",
    "MAX_TIMESTAMP",
    "ClusterDescription",
    "CreatedTopic",
    "Election",
    "LogDir",
    "NewTopic",
    "OffsetAt",
    "Reassignment",
    "ReplicaSize",
    "Resource",
    "Setting",
    "Source",
    "alter_configs",
    "alter_reassignments",
    "create_partitions",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_log_dirs",
    "describe_topic_configs",
    "describe_topics",
    "elect_leaders",
    "list_offsets",
    "list_reassignments",
    "list_topics",
    "offsets_of_topic",
]
