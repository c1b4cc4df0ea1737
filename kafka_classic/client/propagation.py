"""Waiting until every live broker's metadata shows a change: the next request may go to any of them."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Closed
from kafka_classic.client.metadata import Topic, read_metadata
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError


class _NotYet(KafkaError):
    @property
    def retriable(self) -> bool:
        return True


def shows(topic: Topic | None, partitions: int) -> bool:
    """Tell whether this view of a topic shows that many partitions with leaders: 0 is gone, -1 is any number."""
    if partitions == 0:
        return topic is None or topic.error == Error.unknown_topic_or_partition
    if topic is None or topic.error or len(topic.partitions) < max(partitions, 1):
        return False
    return all(partition.leader >= 0 for partition in topic.partitions)


def await_topics(cluster: Cluster, partitions: Mapping[str, int], timeout: float) -> None:
    """Wait until every broker that can be reached shows these topics with so many partitions, each with a leader.

    What is not shown in time is no error: the change is made, and a partition whose brokers are all down gets its
    leader whenever they come back.
    """
    from kio.schema.metadata.v13 import MetadataRequest
    from kio.schema.metadata.v13.request import MetadataRequestTopic
    from kio.schema.types import TopicName

    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in partitions),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )

    def check(node: int) -> None:
        try:
            answer = cluster.connection(node).request(Api.METADATA, request)
        except Closed:
            raise
        except KafkaError:
            return  # a broker that is away asks for itself when it comes back
        topics = read_metadata(answer).topics
        for name, count in partitions.items():
            if not shows(topics.get(name), count):
                raise _NotYet(Error.leader_not_available, f"broker {node} does not show {name!r} yet")

    for node in cluster.brokers():
        try:
            cluster.retrying(lambda node=node: check(node), timeout)  # type: ignore[misc]
        except _NotYet:
            return
    cluster.forget()
