"""The cluster itself and its brokers' disks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Refused
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.client.metadata import Broker
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller: int
    brokers: tuple[Broker, ...]


class ReplicaSize(NamedTuple):
    """A replica on a disk; `lag` is how far it is behind the high watermark."""

    size: int
    lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A broker's data directory; the disk's sizes are -1 when the broker does not tell them."""

    path: str
    error: Error
    replicas: dict[TopicPartition, ReplicaSize]
    total_bytes: int
    usable_bytes: int


def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """Return the cluster's id, its controller and its live brokers."""
    from kio.schema.describe_cluster.v2 import DescribeClusterRequest

    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=False)
    answer = cluster.call(cluster.any, Api.DESCRIBE_CLUSTER, request)
    if answer.error_code:
        raise Refused(answer.error_code, answer.error_message)
    brokers = (Broker(int(b.broker_id), str(b.host), int(b.port), b.rack) for b in answer.brokers)
    return ClusterDescription(str(answer.cluster_id), int(answer.controller_id), tuple(sorted(brokers)))


def describe_log_dirs(cluster: Cluster, brokers: Iterable[int] | None = None) -> dict[int, list[LogDir]]:
    """Return the data directories of all live brokers, or of those named, with the sizes of what they hold."""
    from kio.schema.describe_log_dirs.v5 import DescribeLogDirsRequest

    found: dict[int, list[LogDir]] = {}
    for broker in sorted(cluster.brokers() if brokers is None else brokers):
        answer = cluster.call(
            lambda id=broker: cluster.connection(id),  # type: ignore[misc]
            Api.DESCRIBE_LOG_DIRS,
            DescribeLogDirsRequest(topics=None),
        )
        if answer.error_code:
            raise Refused(answer.error_code)
        found[broker] = [
            LogDir(
                str(result.log_dir),
                result.error_code,
                {
                    (str(topic.name), int(one.partition_index)): ReplicaSize(
                        int(one.partition_size), int(one.offset_lag), one.is_future_key
                    )
                    for topic in result.topics
                    for one in topic.partitions
                },
                int(result.total_bytes),
                int(result.usable_bytes),
            )
            for result in answer.results
        ]
    return found
