"""Brokers that register, may be controllers, and note every request of the controller; no sockets."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from kafka_classic.controller.controller import Controller
from kafka_classic.settings import BrokerSettings
from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.bodies import read_request, read_request_header, write_request
from kafka_classic.wire.control import (
    FULL,
    LEADER_DURING_DELETION,
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataResponse,
)
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.controller import ControllerElection
from kafka_classic.zk.isr_changes import IsrChanges
from kafka_classic.zk.partitions import At, PartitionState, PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicInfo, TopicRegistry
from tests.zk.breaking import until

ANSWERS: dict[Api, Callable[[Error], Any]] = {
    Api.LEADER_AND_ISR: lambda code: LeaderAndIsrResponse(error_code=code, topics=()),
    Api.UPDATE_METADATA: lambda code: UpdateMetadataResponse(error_code=code),
    Api.STOP_REPLICA: lambda code: StopReplicaResponse(error_code=code, partition_errors=()),
}


class Broker:
    """One broker as the controller sees it: it understands all it is told, and keeps it."""

    def __init__(self, cluster: "Cluster", id: int, rack: str | None) -> None:
        self.id, self.rack = id, rack
        self.cluster = cluster
        self.session: Session | None = None
        self.heard: list[tuple[Api, Any]] = []
        self.seen: dict[At, UpdateMetadataPartitionState] = {}
        self.live: set[int] = set()
        self.epoch = -1
        self.newest_controller = 0
        self.greeted = False  # the next UpdateMetadata names everything
        self.deaf = False
        self.missed = 0  # what it was told while it was deaf

    def start(self) -> None:
        self.session = self.cluster.connect()
        self.heard.clear()
        self.seen.clear()
        self.epoch = (
            BrokerRegistry(self.session)
            .register(
                BrokerInfo(self.id, "h", 9000 + self.id, self.rack, endpoints=(f"PLAINTEXT://h:{9000 + self.id}",))
            )
            .epoch
        )

    def stop(self) -> None:
        assert self.session is not None
        self.session.close()

    def hear(self, api: Api, body: Any) -> Any:
        if self.deaf:
            self.missed += 1
            raise OSError("no answer")
        if body.broker_epoch != self.epoch:
            return ANSWERS[api](Error.stale_broker_epoch)
        if body.controller_epoch < self.newest_controller:
            return ANSWERS[api](Error.stale_controller_epoch)
        self.newest_controller = body.controller_epoch
        # Over the wire and back, as in life.
        frame = write_request(api, SERVED[api][1], 1, "c", body)[4:]
        body = read_request(read_request_header(frame), frame)
        if api is Api.UPDATE_METADATA:
            if self.greeted:
                self.seen.clear()
            self.greeted = False
            for topic in body.topic_states:
                for row in topic.partition_states:
                    if row.leader == LEADER_DURING_DELETION:
                        self.seen.pop((topic.topic_name, row.partition_index), None)
                    else:
                        self.seen[topic.topic_name, row.partition_index] = row
            self.live = {broker.id for broker in body.live_brokers}
        if api is Api.LEADER_AND_ISR and body.type == FULL:
            self.greeted = True
        self.heard.append((api, body))
        return ANSWERS[api](Error.none)

    def told(self, api: Api) -> list[Any]:
        return [body for heard, body in self.heard if heard is api]

    def led_rows(self, at: At) -> list[Any]:
        """Every LeaderAndIsr of a partition, in order."""
        return [
            row
            for body in self.told(Api.LEADER_AND_ISR)
            for topic in body.topic_states
            if topic.topic_name == at[0]
            for row in topic.partition_states
            if row.partition_index == at[1]
        ]

    def stops(self) -> list[tuple[At, int, bool]]:
        return [
            ((topic.topic_name, row.partition_index), row.leader_epoch, row.delete_partition)
            for body in self.told(Api.STOP_REPLICA)
            for topic in body.topic_states
            for row in topic.partition_states
        ]


class Peer:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def request(self, api: Api, body: Any, timeout_s: float) -> Any:
        return self._broker.hear(api, body)

    def close(self) -> None:
        pass


class Cluster:
    """ZooKeeper, brokers, and any number of controllers."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._sessions: list[Session] = []
        self._controllers: list[Controller] = []
        self.brokers: dict[int, Broker] = {}
        self.session = self.connect()
        self.topics = TopicRegistry(self.session)
        self.states = PartitionStates(self.session)
        self.isr_changes = IsrChanges(self.session)
        self.election = ControllerElection(self.session)

    def connect(self) -> Session:
        session = Session(self._hosts, handler="gevent", timeout_s=10.0)
        self._sessions.append(session)
        return session.start(30.0)

    def close(self) -> None:
        for controller in self._controllers:
            controller.stop()
        for session in self._sessions:
            session.close()

    def start(self, *ids: int, racks: dict[int, str] | None = None) -> None:
        for id in ids:
            self.brokers[id] = Broker(self, id, (racks or {}).get(id))
            self.brokers[id].start()

    def controller(self, id: int, session: Session | None = None, **given: str) -> Controller:
        settings = BrokerSettings.load({"broker.id": str(id), **{k.replace("_", "."): v for k, v in given.items()}})
        controller = Controller(session or self.connect(), settings, lambda info: Peer(self.brokers[info.id]))
        self._controllers.append(controller)
        controller.start()
        return controller

    def active(self, id: int = 1, **given: str) -> Controller:
        """A controller that reigns, and has greeted all brokers."""
        controller = self.controller(id, None, **given)
        self.until(lambda: controller.active, "elected")
        self.until(lambda: all(b.told(Api.UPDATE_METADATA) for b in self.brokers.values()), "all are greeted")
        return controller

    def create(self, name: str, *assignment: tuple[int, ...], **configs: str) -> TopicInfo:
        values = {k.replace("_", "."): v for k, v in configs.items()}
        return self.topics.create(name, dict(enumerate(assignment)), values, uuid4())

    def until(self, condition: Callable[[], Any], what: str = "") -> None:
        until(self.session, condition, what)

    def until_state(self, at: At, leader: int, isr: tuple[int, ...], *, except_for: tuple[int, ...] = ()) -> None:
        """Until ZooKeeper says so, and every live broker was told."""

        def all_say_so() -> bool:
            state = self.states.read(*at)
            if state is None or (state.leader, state.isr) != (leader, isr):
                return False
            rows = [b.seen.get(at) for b in self.brokers.values() if b.id not in except_for]
            return all(
                row and (row.leader, row.leader_epoch, row.isr) == (leader, state.leader_epoch, isr) for row in rows
            )

        self.until(all_say_so, f"{at} is led by {leader} with {isr}: {self.states.read(*at)}")

    def kill(self, id: int) -> None:
        self.brokers.pop(id).stop()

    def shrink(self, at: At, isr: tuple[int, ...]) -> PartitionState:
        """What a leader does: writes other in-sync replicas, and gives notice."""
        state = self.states.read(*at)
        assert state is not None
        written = self.states.write(
            *at, PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch, state.zk_version)
        )
        self.isr_changes.tell([at])
        return written
