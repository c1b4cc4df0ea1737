"""What this broker knows of the whole cluster: the live brokers and the topics, as ZooKeeper last told."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from gevent.event import Event

from kafka_classic.settings import Endpoint
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo
from kafka_classic.zk.topics import TopicInfo


class ClusterView:
    """Snapshots of the broker and topic registries, replaced whole when they change."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[int, BrokerInfo] = {}
        self._addresses: dict[int, dict[str, Endpoint]] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.names: dict[UUID, str] = {}
        self._changed = Event()
        self._me: BrokerInfo | None = None

    def serve_as(self, me: BrokerInfo) -> None:
        """This broker begins to answer clients."""
        self._me = me
        self.set_brokers(self.brokers)

    def set_brokers(self, brokers: dict[int, BrokerInfo]) -> None:
        """Take a new snapshot; this broker is in it whatever the registry says, as whoever is answered sees it live.

        Between its first answer and its registration, and while an expired session is replaced, the registry lacks it;
        a client told that there are no brokers at all may forget the ones it knew (librdkafka does).
        """
        if self._me is not None:
            brokers = {self._me.id: self._me, **brokers}
        self.brokers = brokers
        self._addresses = {id: {e.name: e for e in map(Endpoint.parse, info.endpoints)} for id, info in brokers.items()}
        self._tell()

    def set_topics(self, topics: dict[str, TopicInfo]) -> None:
        self.topics = topics
        self.names = {info.topic_id: name for name, info in topics.items()}
        self._tell()

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
        return 0 if info is None else len(info.assignment)

    def controller(self) -> int:
        """Any broker does what a controller would while there is one replica a partition; clients want one name."""
        return min(self.brokers, default=-1)

    def why_not_here(self, topic: str | UUID, index: int) -> Error:
        """The error for a partition that this broker does not hold."""
        if isinstance(topic, UUID):
            name = self.names.get(topic)
            if name is None:
                return Error.unknown_topic_id
        else:
            name = topic
        info = self.topics.get(name)
        if info is None or index not in info.assignment:
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
