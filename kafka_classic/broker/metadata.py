"""Metadata and DescribeCluster: who the brokers are, and which of them leads each partition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import kio.schema.describe_cluster.v2.response as describe_cluster_response
import kio.schema.metadata.v13.response as metadata_response
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.metadata.v13.request import MetadataRequest

from kafka_classic.broker.cluster_view import PartitionView, TopicView
from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.unhurried import Unhurried
from kafka_classic.settings import INTERNAL_TOPICS
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

# kio's number types are checked at each making, a microsecond a field; answers are built without that.
M: Any = metadata_response
C: Any = describe_cluster_response

NO_TIME = timedelta(0)
CREATION_WAIT_S = 5.0  # for all topics that one request names; it is asked again for what is not there by then


def metadata(broker: Broker, connection: Connection, request: MetadataRequest) -> Any:
    view = broker.view
    failed: dict[str, Error] = {}
    if not view.wait_until(lambda: view.told, CREATION_WAIT_S):
        # One that has just come up knows of no topic yet, which is not to be taken for there being none.
        failed = {row.name: Error.leader_not_available for row in request.topics or () if row.name}
    elif request.topics and request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
        missing = dict.fromkeys(row.name for row in request.topics if row.name and row.name not in view.topics)
        if missing:
            failed = broker.topics.create_missing(missing, Deadline(CREATION_WAIT_S))
    if request.topics is None:
        every = [view.topics[name] for name in sorted(view.topics)]
        topics = Unhurried(partial(_topic, broker), every)
    else:
        topics = Unhurried(lambda row: _one(broker, row.name, row.topic_id, failed), request.topics)
    return M.MetadataResponse(
        throttle_time=NO_TIME,
        brokers=tuple(
            M.MetadataResponseBroker(node_id=info.id, host=host, port=port, rack=info.rack)
            for info, host, port in broker.view.addresses(connection.listener)
        ),
        cluster_id=view.cluster_id,
        controller_id=view.controller(),
        topics=topics,
        error_code=Error.none,
    )


def describe_cluster(broker: Broker, connection: Connection, request: DescribeClusterRequest) -> Any:
    if request.endpoint_type != 1:
        return C.DescribeClusterResponse(
            throttle_time=NO_TIME,
            error_code=Error.unsupported_endpoint_type,
            error_message="the controllers of this cluster are its brokers; ask with endpoint type 1",
            cluster_id=broker.view.cluster_id,
            brokers=(),
        )
    return C.DescribeClusterResponse(
        throttle_time=NO_TIME,
        error_code=Error.none,
        cluster_id=broker.view.cluster_id,
        controller_id=broker.view.controller(),
        brokers=tuple(
            C.DescribeClusterBroker(broker_id=info.id, host=host, port=port, rack=info.rack, is_fenced=False)
            for info, host, port in broker.view.addresses(connection.listener)
        ),
    )


def _one(broker: Broker, name: str | None, topic_id: Any, failed: dict[str, Error]) -> Any:
    view = broker.view
    if topic_id is not None and topic_id.int:
        known = view.names.get(topic_id)
        if known is None:
            return _failed(None, topic_id, Error.unknown_topic_id)
        return _topic(broker, view.topics[known])
    if name is None:
        return _failed(None, topic_id, Error.unknown_topic_id)
    info = view.topics.get(name)
    if info is not None:
        return _topic(broker, info)
    unknown = Error.unknown_topic_or_partition if broker.topics.valid_name(name) else Error.invalid_topic_exception
    return _failed(name, None, failed.get(name, unknown))


def _failed(name: str | None, topic_id: Any, code: Error) -> Any:
    return M.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=())


def _topic(broker: Broker, info: TopicView) -> Any:
    deserted = _deserted(broker, info) if broker.fence.closed else frozenset()
    partitions = Unhurried(partial(_partition, info.partitions, deserted), sorted(info.partitions))
    return M.MetadataResponseTopic(
        error_code=Error.none,
        name=info.name,
        topic_id=info.topic_id,
        is_internal=info.name in INTERNAL_TOPICS,
        partitions=partitions,
    )


def _deserted(broker: Broker, info: TopicView) -> frozenset[int]:
    """The partitions that this broker leads for all it heard, and that another leads by now: who, it cannot tell."""
    me = broker.settings.broker_id
    mine = (index for index, known in info.partitions.items() if known.leader == me)
    found = ((index, broker.hosted.find(info.name, index)[0]) for index in mine)
    return frozenset(index for index, one in found if one is not None and broker.fence.deserted(one))


def _partition(partitions: Mapping[int, PartitionView], deserted: frozenset[int], index: int) -> Any:
    leader, epoch, isr, replicas, offline = partitions[index]
    if index in deserted:
        leader = -1
    return M.MetadataResponsePartition(
        error_code=Error.none if leader >= 0 else Error.leader_not_available,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
