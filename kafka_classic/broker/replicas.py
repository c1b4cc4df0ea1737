"""LeaderAndIsr, StopReplica and UpdateMetadata: what the controller says, done in the order in which it says it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import gevent
from gevent.event import Event
from gevent.lock import Semaphore

from kafka_classic.broker.cluster_view import NO_ID, PartitionView, TopicView
from kafka_classic.broker.unhurried import AT_A_TIME_S, BREATH_S
from kafka_classic.replication.replica import Leadership
from kafka_classic.settings import Endpoint
from kafka_classic.wire import control
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

log = logging.getLogger(__name__)


class Word(Protocol):
    """What every request of a controller says of itself."""

    @property
    def controller_epoch(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...


class Mandates:
    """Whom this broker obeys: the newest controller it has heard of, speaking to its newest registration."""

    def __init__(self) -> None:
        self.broker_epoch = -1
        self.controller_epoch = -1
        self._whole: tuple[int, int] | None = None
        self._registered = Event()
        self._at_a_time = Semaphore(1)

    def registered(self, broker_epoch: int) -> None:
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        self._registered.set()

    @contextmanager
    def hear(self, word: Word) -> Iterator[Error]:
        """Whether to obey, for as long as it takes: one request after the other, whoever sends them.

        An earlier controller's that is still being done must not have its way after a later one's. And before this
        broker has registered it cannot tell what is said to it from what was meant for its life before.
        """
        self._registered.wait()
        with self._at_a_time:
            yield self._refuse(word.controller_epoch, word.broker_epoch)

    def _refuse(self, controller_epoch: int, broker_epoch: int) -> Error:
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
    with broker.mandates.hear(request) as refused:
        if refused is not Error.none:
            return control.LeaderAndIsrResponse(error_code=refused, topics=())
        broker.leaders = {row.broker_id: (row.host_name, row.port) for row in request.live_leaders}
        broker.learn_settings({state.topic_name: state.topic_id or NO_ID for state in request.topic_states})
        broker.turn.end()  # what was staged was staged under the old rules
        if request.type == control.FULL:
            named = {(s.topic_name, row.partition_index) for s in request.topic_states for row in s.partition_states}
            broker.hosted.keep_only(named)
        return control.LeaderAndIsrResponse(error_code=Error.none, topics=tuple(_take_all(broker, request)))


def _take_all(broker: Broker, request: control.LeaderAndIsrRequest) -> Iterator[control.LeaderAndIsrTopicError]:
    """Lead or follow each; opening one takes a millisecond or two, and others want to be answered meanwhile."""
    began = time.monotonic()
    for state in request.topic_states:
        rows = []
        for row in state.partition_states:
            now = time.monotonic()
            if now - began > AT_A_TIME_S:
                gevent.sleep(BREATH_S)
                broker.turn.end()
                began = now = time.monotonic()
            told = Leadership(
                row.leader, row.leader_epoch, row.isr, row.replicas, row.partition_epoch, row.controller_epoch
            )
            try:
                code = broker.hosted.take(state.topic_name, state.topic_id or NO_ID, row.partition_index, told, now)
            except Exception:  # the others are not to suffer: the controller would repeat it all for ever
                log.exception("%s-%d cannot do what the controller says", state.topic_name, row.partition_index)
                code = Error.unknown_server_error
            rows.append(control.LeaderAndIsrPartitionError(partition_index=row.partition_index, error_code=code))
        yield control.LeaderAndIsrTopicError(topic_id=state.topic_id, partition_errors=tuple(rows))


def stop_replica(
    broker: Broker, connection: Connection, request: control.StopReplicaRequest
) -> control.StopReplicaResponse:
    with broker.mandates.hear(request) as refused:
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
    with broker.mandates.hear(request) as refused:
        if refused is not Error.none:
            return control.UpdateMetadataResponse(error_code=refused)
        topics = [_topic(state) for state in request.topic_states]
        broker.learn_settings({topic.name: topic.topic_id for topic in topics if topic.partitions})
        brokers = {row.id: _broker(row) for row in request.live_brokers}
        before = broker.view.topics
        broker.view.update(request.controller_id, brokers, topics, whole=broker.mandates.first_word())
        broker.coordination.forget_topics(
            [name for name, topic in before.items() if broker.view.id_of(name) != topic.topic_id]
        )
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
