"""LeaderAndIsr, StopReplica and UpdateMetadata: what the controller says, done in the order in which it says it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING
from uuid import UUID

import gevent

from kafka_classic.broker.cluster_view import PartitionView, TopicView
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import Endpoint
from kafka_classic.wire import control
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

log = logging.getLogger(__name__)

NO_ID = UUID(int=0)  # of a topic that another's tool wrote; kio reads it as None
A_BREATH = 100  # partitions; opening one takes up to a millisecond, and others want to be answered meanwhile


class Mandates:
    """Whom this broker obeys: the newest controller it has heard of, speaking to its newest registration."""

    def __init__(self) -> None:
        self.broker_epoch = -1
        self.controller_epoch = -1
        self._whole: tuple[int, int] | None = None

    def refuse(self, controller_epoch: int, broker_epoch: int) -> Error:
        if controller_epoch < self.controller_epoch:
            return Error.stale_controller_epoch
        if broker_epoch < self.broker_epoch:
            return Error.stale_broker_epoch
        self.controller_epoch = controller_epoch
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        return Error.none

    def first_word(self) -> bool:
        """Whether this controller tells this registration of the cluster for the first time."""
        now = (self.controller_epoch, self.broker_epoch)
        was, self._whole = self._whole, now
        return was != now


def leader_and_isr(
    broker: Broker, connection: Connection, request: control.LeaderAndIsrRequest
) -> control.LeaderAndIsrResponse:
    refused = broker.mandates.refuse(request.controller_epoch, request.broker_epoch)
    if refused is not Error.none:
        return control.LeaderAndIsrResponse(error_code=refused, topics=())
    broker.learn_settings({state.topic_name: state.topic_id or NO_ID for state in request.topic_states})
    if request.type == control.FULL:
        named = {(s.topic_name, row.partition_index) for s in request.topic_states for row in s.partition_states}
        broker.hosted.keep_only(named)
    broker.turn.end()  # what was staged was staged under the old rules
    now = time.monotonic()
    done = 0
    topics = []
    for state in request.topic_states:
        rows = []
        for row in state.partition_states:
            done += 1
            if done % A_BREATH == 0:
                gevent.sleep(0)
                broker.turn.end()
            told = Leadership(
                row.leader, row.leader_epoch, row.isr, row.replicas, row.partition_epoch, row.controller_epoch
            )
            code = broker.hosted.take(state.topic_name, state.topic_id or NO_ID, row.partition_index, told, now)
            rows.append(control.LeaderAndIsrPartitionError(partition_index=row.partition_index, error_code=code))
        topics.append(control.LeaderAndIsrTopicError(topic_id=state.topic_id, partition_errors=tuple(rows)))
    return control.LeaderAndIsrResponse(error_code=Error.none, topics=tuple(topics))


def stop_replica(
    broker: Broker, connection: Connection, request: control.StopReplicaRequest
) -> control.StopReplicaResponse:
    refused = broker.mandates.refuse(request.controller_epoch, request.broker_epoch)
    if refused is not Error.none:
        return control.StopReplicaResponse(error_code=refused, partition_errors=())
    broker.turn.end()
    rows = []
    deleted = False
    for topic in request.topic_states:
        for row in topic.partition_states:
            code = broker.hosted.stop(
                topic.topic_name, row.partition_index, row.leader_epoch, delete=row.delete_partition
            )
            deleted |= row.delete_partition
            rows.append(
                control.StopReplicaPartitionError(
                    topic_name=topic.topic_name, partition_index=row.partition_index, error_code=code
                )
            )
    if deleted:
        gevent.spawn(broker.remove_deleted)
    return control.StopReplicaResponse(error_code=Error.none, partition_errors=tuple(rows))


def update_metadata(
    broker: Broker, connection: Connection, request: control.UpdateMetadataRequest
) -> control.UpdateMetadataResponse:
    refused = broker.mandates.refuse(request.controller_epoch, request.broker_epoch)
    if refused is not Error.none:
        return control.UpdateMetadataResponse(error_code=refused)
    topics = [_topic(state) for state in request.topic_states]
    broker.learn_settings({topic.name: topic.topic_id for topic in topics if topic.partitions})
    brokers = {row.id: _broker(row) for row in request.live_brokers}
    broker.view.update(request.controller_id, brokers, topics, whole=broker.mandates.first_word())
    broker.hosted.forget_settings(broker.view.topics)
    broker.settle_in(request.broker_epoch)
    return control.UpdateMetadataResponse(error_code=Error.none)


def _topic(state: control.UpdateMetadataTopicState) -> TopicView:
    return TopicView(
        state.topic_name,
        state.topic_id or NO_ID,
        {
            row.partition_index: PartitionView(
                row.leader, row.leader_epoch, row.isr, row.replicas, row.offline_replicas
            )
            for row in state.partition_states
            if row.leader != control.LEADER_DURING_DELETION
        },
    )


def _broker(row: control.UpdateMetadataBroker) -> BrokerInfo:
    endpoints = tuple(str(Endpoint(e.listener, e.host, e.port)) for e in row.endpoints)
    first = row.endpoints[0]
    return BrokerInfo(id=row.id, host=first.host, port=first.port, rack=row.rack, endpoints=endpoints)
