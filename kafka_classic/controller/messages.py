"""What the controller tells the brokers, made from what it knows: one request of a kind to a broker for each event."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from uuid import UUID

from kafka_classic.controller.context import Context
from kafka_classic.settings import Endpoint
from kafka_classic.wire.control import (
    EPOCH_DURING_DELETION,
    FULL,
    INCREMENTAL,
    LEADER_DURING_DELETION,
    NO_LEADER,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafka_classic.zk.brokers import BrokerInfo
from kafka_classic.zk.partitions import At, PartitionState
from kafka_classic.zk.topics import TopicInfo

PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
# Of a partition whose replicas have all been away since it was made: it has no znode yet.
NEVER_LED = PartitionState(leader=NO_LEADER, leader_epoch=-1, isr=(), controller_epoch=-1, zk_version=-1)


def address(info: BrokerInfo, listener: str) -> tuple[str, int]:
    """Where other brokers reach a broker: at the listener of that name, else at its first."""
    endpoints = [Endpoint.parse(text) for text in info.endpoints]
    for endpoint in endpoints:
        if endpoint.name == listener.upper():
            return endpoint.host, endpoint.port
    return (endpoints[0].host, endpoints[0].port) if endpoints else (info.host, info.port)


class Outbox:
    """What one event has to tell; rows are made once, however many brokers they go to."""

    def __init__(self, context: Context, controller_id: int, controller_epoch: int, listener: str) -> None:
        self._context = context
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._listener = listener
        self.clear()

    def clear(self) -> None:
        self.led: set[At] = set()  # for the brokers that hold them
        self.seen: set[At] = set()  # for every broker
        self.new: set[At] = set()
        self.deleted: dict[str, TopicInfo] = {}
        self.to_stop: dict[int, dict[At, tuple[int, bool]]] = {}
        self.brokers_changed = False
        self._led_rows: dict[At, LeaderAndIsrPartitionState] = {}
        self._seen_topics: tuple[UpdateMetadataTopicState, ...] | None = None

    def changed(self, partitions: Iterable[At]) -> None:
        """Leader or in-sync replicas were changed by the controller: its replicas act on it, clients see it."""
        partitions = [*partitions]
        self.led.update(partitions)
        self.seen.update(partitions)

    def stop(self, broker: int, at: At, leader_epoch: int, *, delete: bool) -> None:
        self.to_stop.setdefault(broker, {})[at] = (leader_epoch, delete)

    def delete(self, info: TopicInfo) -> None:
        """The topic is no more: every broker forgets it, those that hold some of it delete that."""
        self.deleted[info.name] = info
        for number, replicas in info.assignment.items():
            for broker in replicas:
                self.stop(broker, (info.name, number), EPOCH_DURING_DELETION, delete=True)

    @property
    def concerns_all(self) -> bool:
        return bool(self.seen or self.deleted or self.brokers_changed)

    # --- requests

    def leader_and_isr(self, broker: BrokerInfo, *, full: bool) -> LeaderAndIsrRequest | None:
        """The partitions that the broker holds: all of them, or those that changed; None if none did."""
        context = self._context
        if full:
            held = [at for at in context.held_by((broker.id,)) if at in context.states]
        else:
            held = [at for at in self.led if at in context.states and broker.id in context.replicas(at)]
        if not held and not full:
            return None
        leaders = sorted({context.states[at].leader for at in held} & context.brokers.keys())
        addresses = [(leader, *address(context.brokers[leader], self._listener)) for leader in leaders]
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker.epoch,
            type=FULL if full else INCREMENTAL,
            topic_states=tuple(
                LeaderAndIsrTopicState(
                    topic_name=name, topic_id=self._id(name), partition_states=tuple(self._led_row(at) for at in rows)
                )
                for name, rows in _by_topic(held)
            ),
            live_leaders=tuple(
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=host, port=port) for leader, host, port in addresses
            ),
        )

    def update_metadata(self, broker: BrokerInfo, *, full: bool) -> UpdateMetadataRequest:
        if full:
            topics = self._metadata(self._context.partitions())
        else:
            if self._seen_topics is None:
                self._seen_topics = (*self._deleted_topics(), *self._metadata(self.seen))
            topics = self._seen_topics
        return UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=topics,
            live_brokers=tuple(_live_broker(info) for _, info in sorted(self._context.brokers.items())),
        )

    def stop_replica(self, broker: BrokerInfo) -> StopReplicaRequest | None:
        rows = self.to_stop.get(broker.id)
        if not rows:
            return None
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=tuple(
                StopReplicaTopicState(
                    topic_name=name,
                    partition_states=tuple(
                        StopReplicaPartitionState(
                            partition_index=at[1], leader_epoch=rows[at][0], delete_partition=rows[at][1]
                        )
                        for at in partitions
                    ),
                )
                for name, partitions in _by_topic(rows)
            ),
        )

    # --- rows

    def _id(self, topic: str) -> UUID | None:
        return _or_none(self._context.topics[topic].topic_id)

    def _led_row(self, at: At) -> LeaderAndIsrPartitionState:
        row = self._led_rows.get(at)
        if row is None:
            context, state = self._context, self._context.states[at]
            row = self._led_rows[at] = LeaderAndIsrPartitionState(
                partition_index=at[1],
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                partition_epoch=state.zk_version,
                replicas=context.replicas(at),
                adding_replicas=context.adding(at),
                removing_replicas=context.removing(at),
                is_new=at in self.new,
            )
        return row

    def _metadata(self, partitions: Iterable[At]) -> tuple[UpdateMetadataTopicState, ...]:
        return tuple(
            UpdateMetadataTopicState(
                topic_name=name, topic_id=self._id(name), partition_states=tuple(self._seen_row(at) for at in rows)
            )
            for name, rows in _by_topic(at for at in partitions if self._context.knows(at))
        )

    def _seen_row(self, at: At) -> UpdateMetadataPartitionState:
        state = self._context.states.get(at, NEVER_LED)
        replicas, live = self._context.replicas(at), self._context.brokers
        return UpdateMetadataPartitionState(
            partition_index=at[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.zk_version,
            replicas=replicas,
            offline_replicas=tuple(broker for broker in replicas if broker not in live),
        )

    def _deleted_topics(self) -> Iterator[UpdateMetadataTopicState]:
        for name, info in sorted(self.deleted.items()):
            yield UpdateMetadataTopicState(
                topic_name=name,
                topic_id=_or_none(info.topic_id),
                partition_states=tuple(
                    UpdateMetadataPartitionState(
                        partition_index=number,
                        controller_epoch=self._controller_epoch,
                        leader=LEADER_DURING_DELETION,
                        leader_epoch=0,
                        isr=(),
                        zk_version=0,
                        replicas=replicas,
                        offline_replicas=(),
                    )
                    for number, replicas in info.assignment.items()
                ),
            )


def _live_broker(info: BrokerInfo) -> UpdateMetadataBroker:
    endpoints = [Endpoint.parse(text) for text in info.endpoints]
    return UpdateMetadataBroker(
        id=info.id,
        endpoints=tuple(
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.name,
                security_protocol=PROTOCOLS.get(endpoint.name, 0),
            )
            for endpoint in endpoints
        ),
        rack=info.rack,
    )


def _by_topic(partitions: Iterable[At]) -> Iterator[tuple[str, Collection[At]]]:
    for name, rows in groupby(sorted(partitions), key=lambda at: at[0]):
        yield name, [*rows]


def _or_none(topic_id: UUID) -> UUID | None:
    return topic_id if topic_id.int else None
