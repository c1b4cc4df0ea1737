"""What this broker knows of the whole cluster: the live brokers, the topics and who leads them, as the controller told.

A controller's first word names everything and replaces what was known; each later one only what changed. Another
broker's word counts where it knows a later leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from gevent.event import Event

from kafka_classic.settings import Endpoint
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo

NO_ID = UUID(int=0)  # of a topic that another's tool wrote; kio reads it as None


class PartitionView(NamedTuple):
    """Who leads a partition and who follows; a leader of -1 is none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...]


class TopicView(NamedTuple):
    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionView]

    @property
    def assignment(self) -> dict[int, tuple[int, ...]]:
        return {index: partition.replicas for index, partition in self.partitions.items()}


class ClusterView:
    """Replaced piece by piece: whoever holds a TopicView holds one moment of it."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[int, BrokerInfo] = {}
        self._addresses: dict[int, dict[str, Endpoint]] = {}
        self.topics: dict[str, TopicView] = {}
        self.names: dict[UUID, str] = {}
        self.told = False  # whether a controller has said anything yet
        self._controller = -1
        self._changed = Event()
        self._me: BrokerInfo | None = None

    def serve_as(self, me: BrokerInfo) -> None:
        """This broker begins to answer clients."""
        self._me = me
        self._set_brokers({})

    def update(
        self, controller: int, brokers: Mapping[int, BrokerInfo], topics: Iterable[TopicView], *, whole: bool
    ) -> None:
        """Take what the controller says: all there is, or what changed. A topic without partitions is gone."""
        self._controller = controller
        self._set_brokers(brokers)
        fresh = {} if whole else dict(self.topics)
        for topic in topics:
            there = fresh.get(topic.name)
            if not topic.partitions:
                if there is not None and there.topic_id == topic.topic_id:
                    del fresh[topic.name]
            elif there is not None and there.topic_id == topic.topic_id:
                fresh[topic.name] = topic._replace(partitions={**there.partitions, **topic.partitions})
            else:
                fresh[topic.name] = topic
        self.topics = fresh
        self.names = {topic.topic_id: name for name, topic in fresh.items()}
        self.told = True
        self._tell()

    def overhear(self, controller: int, topics: Iterable[TopicView]) -> int:
        """Take what another broker knows of later leaders of topics that are known here; gives of how many.

        Its controller is as good a guess as ours: whoever is asked and is none says so.
        """
        if controller >= 0:
            self._controller = controller
        learned = 0
        for topic in topics:
            there = self.topics.get(topic.name)
            if there is None or there.topic_id != topic.topic_id:
                continue
            later = {
                index: heard
                for index, heard in topic.partitions.items()
                if index in there.partitions
                and heard.leader >= 0  # else it is one that does not know either
                and heard.leader_epoch > there.partitions[index].leader_epoch
            }
            if later:
                self.topics[topic.name] = there._replace(partitions={**there.partitions, **later})
                learned += len(later)
        if learned:
            self._tell()
        return learned

    def _set_brokers(self, brokers: Mapping[int, BrokerInfo]) -> None:
        """Take who lives; this broker is among them whatever is said, as whoever is answered sees it live.

        Between its first answer and its registration, and while an expired session is replaced, the registry lacks it;
        a client told that there are no brokers at all may forget the ones it knew (librdkafka does).
        """
        if self._me is not None:
            brokers = {self._me.id: self._me, **brokers}
        self.brokers = dict(brokers)
        self._addresses = {id: {e.name: e for e in map(Endpoint.parse, info.endpoints)} for id, info in brokers.items()}

    def addresses(self, listener: str) -> list[tuple[BrokerInfo, str, int]]:
        """Each live broker with its address under the listener that a client came by."""
        rows = []
        for id, info in sorted(self.brokers.items()):
            endpoint = self._addresses[id].get(listener)
            if endpoint is not None:
                rows.append((info, endpoint.host, endpoint.port))
        return rows

    def id_of(self, topic: str) -> UUID | None:
        info = self.topics.get(topic)
        return None if info is None else info.topic_id

    def size_of(self, topic: str) -> int:
        """How many partitions it has; 0 of one that is not known."""
        info = self.topics.get(topic)
        return 0 if info is None else len(info.partitions)

    def controller(self) -> int:
        """The broker that is the controller, if it lives."""
        return self._controller if self._controller in self.brokers else -1

    def why_not_here(self, topic: str | UUID, index: int) -> Error:
        """The error for a partition that this broker does not hold."""
        if isinstance(topic, UUID):
            name = self.names.get(topic)
            if name is None:
                return Error.unknown_topic_id
        else:
            name = topic
        info = self.topics.get(name)
        if info is None or index not in info.partitions:
            return Error.unknown_topic_or_partition
        return Error.not_leader_or_follower

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait in a greenlet until the view satisfies `condition`."""
        until = time.monotonic() + timeout_s
        while not condition():
            left = until - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                return condition()
        return True

    def _tell(self) -> None:
        """Wake whoever waits; they look again and wait for the next change."""
        self._changed.set()
        self._changed = Event()
