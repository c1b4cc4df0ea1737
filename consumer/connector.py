"""The consumer's face (P2): a member of a group, its message streams, and the offsets it commits.

    with ConsumerConnector("127.0.0.1:2181", "readers") as connector:
        [stream] = connector.create_message_streams({"page-views": 1})["page-views"]
        for message in stream:
            print(message.partition, message.offset, message.value)

Everything is found through ZooKeeper: brokers, topics, the other members of the group, how far the group has read. Each
stream is for one thread; the connector is for all. Settings have Kafka 0.8's names, in a dict or as keyword arguments.
"""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_classic.client.backoff import Backoff
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.consumer.assign import consumer_id
from kafka_classic.consumer.handing import Hands, Streams
from kafka_classic.consumer.history import RebalanceHistory, RebalanceRecord
from kafka_classic.consumer.offsets import DualOffsets, KafkaOffsets, OffsetStore, ZooKeeperOffsets
from kafka_classic.consumer.rebalancer import Listener, Pace, Rebalancer
from kafka_classic.consumer.settings import ConsumerSettings
from kafka_classic.consumer.streams import MessageStream
from kafka_classic.settings import SettingsError
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry, bootstrap_of
from kafka_classic.zk.consumers import GroupRegistry, Registration
from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.lease import Lease
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.paths import can_be_a_name
from kafka_classic.zk.session import Session
from kafka_classic.zk.subscriptions import Pattern, Subscription
from kafka_classic.zk.topics import TopicInfo, TopicRegistry

if TYPE_CHECKING:
    from kafka_classic.consumer.auditing import GroupAuditor

log = logging.getLogger(__name__)


class ConsumerConnector:
    """One member of a group. `on_rebalance(released, acquired)` is told of every change to what it reads.

    With `audit` it counts what was processed and committed, and tells it to the topic `__audit`.
    """

    def __init__(
        self,
        zookeeper: str,
        group: str,
        settings: Mapping[str, Any] | None = None,
        *,
        on_rebalance: Listener | None = None,
        audit: bool = False,
        **more_settings: Any,
    ) -> None:
        if not can_be_a_name(group):
            raise SettingsError(f"{group!r} cannot be a group's name: letters, digits, '.', '_' and '-' only")
        self.settings = ConsumerSettings.load({**(settings or {}), **more_settings})
        if self.settings.consumer_id and not can_be_a_name(self.settings.consumer_id):
            raise SettingsError(
                f"{self.settings.consumer_id!r} cannot be a consumer.id: letters, digits, '.', '_' and '-' only"
            )
        self.group = group
        self.consumer_id = self._own_id()
        self._on_rebalance = on_rebalance
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._hands: Hands | None = None
        self._rebalancer: Rebalancer | None = None
        self._committer: threading.Thread | None = None
        self._topics: dict[str, tuple[int, ...]] = {}
        self._session = Session(zookeeper, timeout_s=self.settings.zookeeper_session_timeout_ms / 1000).start(
            self.settings.zookeeper_connection_timeout_ms / 1000
        )
        try:
            self._lease = Lease(self._session).start()
            self._registry = GroupRegistry(self._session, group)
            self._offsets = OffsetRegistry(self._session, fence=self._registration)
            self._cluster = self._find_brokers(zookeeper)
            try:
                self._store = self._find_store()
                self._auditor = self._audited() if audit else None
            except BaseException:
                self._cluster.close()
                raise
        except BaseException:
            self._session.close()
            raise

    # --- streams

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group for these topics; returns for each as many streams as asked for (P2)."""
        for topic, count in topics.items():
            if count < 1:
                raise ValueError(f"topic {topic!r}: {count} streams were asked for; ask for 1 or more")
        if not topics:
            raise ValueError("no topic was named: name one, or use create_message_streams_by_filter")
        streams = {topic: [self._stream() for _ in range(count)] for topic, count in topics.items()}
        self._join(Subscription(dict(topics), "static", int(time.time() * 1000)), streams)
        return streams

    def create_message_streams_by_filter(
        self, *, white_list: str | None = None, black_list: str | None = None, streams: int = 1
    ) -> list[MessageStream]:
        """Join the group for all topics that match a pattern, or that do not: also those that come later.

        Each stream brings messages of all of them. Kafka's own topics (`__consumer_offsets`) are left out.
        """
        if (white_list is None) == (black_list is None):
            raise ValueError("name either the topics wanted (white_list) or those unwanted (black_list)")
        if streams < 1:
            raise ValueError(f"{streams} streams were asked for; ask for 1 or more")
        expression = white_list if white_list is not None else black_list or ""
        re.compile(expression)  # a pattern that is none is refused here, not ignored in the background
        made = [self._stream() for _ in range(streams)]
        kind: Pattern = "white_list" if white_list is not None else "black_list"
        self._join(Subscription({expression: streams}, kind, int(time.time() * 1000)), made)
        return made

    # --- offsets

    def commit_offsets(self) -> None:
        """Commit how far every stream has come: what the calling thread was handed counts as done, its last too.

        Of a stream that another thread reads, the message it was handed last counts only once it asks for the next.
        Raises SessionReplaced when the session with ZooKeeper has expired: what was read is another's to commit then.
        """
        hands = self._hands
        if hands is not None:
            hands.commit(held=True)

    def committed(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offsets that the group goes on from, of those of the partitions that have one."""
        return dict(self._store.fetch(partitions))

    # --- what can be asked

    @property
    def history(self) -> RebalanceHistory | None:
        """Counters of attempts, conflicts, failures and expirations, and the last rebalances; None before joining."""
        return self._rebalancer.history if self._rebalancer is not None else None

    @property
    def rebalances(self) -> list[RebalanceRecord]:
        """The last rebalances of this consumer: when, why, how long, how many attempts."""
        return list(self._rebalancer.history.records) if self._rebalancer is not None else []

    @property
    def zookeeper_operations(self) -> int:
        """Requests to ZooKeeper spent on the group's registries and offsets so far."""
        return self._registry.operations + self._offsets.operations

    def owned(self) -> frozenset[tuple[str, int]]:
        """The partitions that this consumer reads now."""
        return self._rebalancer.reading if self._rebalancer is not None else frozenset()

    def wait_until_steady(self, timeout: float | None = None) -> bool:
        """Wait until this consumer reads all that the group's plan gives it; False if that takes longer."""
        return self._rebalancer is not None and self._rebalancer.steady.wait(timeout)

    # --- the end

    def shutdown(self, timeout: float = 30.0) -> None:
        """Hand out no more, commit, give up all partitions and leave the group; every stream ends. May be repeated."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
        try:
            if self._committer is not None:
                self._committer.join(timeout)
            if self._rebalancer is not None and not self._rebalancer.close(timeout):
                log.warning("consumer %s did not leave its group in time; its session's end does it", self.consumer_id)
            if self._hands is not None:
                self._hands.close()
        finally:
            self._session.close()
            if self._auditor is not None:
                self._auditor.close()
            self._cluster.close()

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    # --- inside

    def _own_id(self) -> str:
        if self.settings.consumer_id:
            return f"{self.group}_{self.settings.consumer_id}"
        return consumer_id(self.group, socket.gethostname(), int(time.time() * 1000), random.getrandbits(32))

    def _audited(self) -> GroupAuditor:
        from kafka_classic.consumer.auditing import GroupAuditor

        return GroupAuditor(self._cluster, self.group, self.settings.client_id, self.settings.audit_window_ms)

    def _registration(self) -> Registration | None:
        return self._rebalancer.registration if self._rebalancer is not None else None

    def _stream(self) -> MessageStream:
        return MessageStream(self.settings.stream_timeout, self._lease)

    def _find_store(self) -> OffsetStore:
        in_zookeeper = ZooKeeperOffsets(self._offsets, self.group)
        if self.settings.offsets_storage == "zookeeper":
            return in_zookeeper
        patience = self.settings.offsets_channel_socket_timeout_ms / 1000
        in_brokers = KafkaOffsets(Coordinator(self._cluster, self.group), self._lease, patience)
        # ZooKeeper first: what it refuses, because this consumer's session has expired, the brokers are not sent.
        return DualOffsets(in_zookeeper, in_brokers) if self.settings.dual_commit_enabled else in_brokers

    def _find_brokers(self, zookeeper: str) -> Cluster:
        registry = BrokerRegistry(self._session)
        bootstrap = bootstrap_of(registry.live())
        if not bootstrap:
            raise KafkaError(
                Error.broker_not_available,
                f"no broker is registered in ZooKeeper at {zookeeper}: start one, or check the chroot",
            )
        cluster = Cluster(
            bootstrap,
            self.settings.client_id,
            request_timeout=self.settings.socket_timeout_ms / 1000,
            backoff=Backoff(self.settings.refresh_leader_backoff_ms / 1000),
        )

        def brokers_changed(live: Mapping[int, BrokerInfo]) -> None:
            # With none left the last known addresses are still the best guess of where one will be.
            if bootstrap_of(live):
                cluster.found_at(bootstrap_of(live))
            cluster.forget()
            self._look_again("the brokers changed")

        registry.watch(brokers_changed)
        return cluster

    def _join(self, subscription: Subscription, streams: Streams) -> None:
        with self._lock:
            if self._closing.is_set():
                raise KafkaError(Error.network_exception, "the connector was shut down: make another")
            if self._rebalancer is not None:
                raise RuntimeError("this connector has its streams already: make another connector for others")
            self._hands = Hands(self._cluster, streams, self._store, self.settings, self._auditor)
            self._rebalancer = Rebalancer(
                self._registry,
                self._hands,
                lambda: self._topics,
                self.consumer_id,
                subscription,
                pace=Pace(
                    self.settings.rebalance_max_retries,
                    self.settings.rebalance_backoff_ms / 1000,
                    self.settings.rebalance_quiet_ms / 1000,
                    self.settings.rebalance_quiet_max_ms / 1000,
                ),
                listener=self._on_rebalance,
                registered=lambda registration: self._lease.hold(registration.session_id),
                operations=lambda: self.zookeeper_operations,
            )
            TopicRegistry(self._session).watch(self._topics_changed)
            self._session.add_listener(self._rebalancer.on_session)
            self._rebalancer.start()
            if self.settings.auto_commit_enable:
                self._committer = threading.Thread(target=self._commit_on, name="auto-commit", daemon=True)
                self._committer.start()

    def _topics_changed(self, topics: Mapping[str, TopicInfo]) -> None:
        found = {name: tuple(topic.assignment) for name, topic in topics.items()}
        if found != self._topics:
            self._topics = found
            self._look_again("the topics changed")

    def _look_again(self, why: str) -> None:
        if self._rebalancer is not None:
            self._rebalancer.trigger(why)

    def _commit_on(self) -> None:
        assert self._hands is not None
        while not self._closing.wait(self.settings.auto_commit_interval_ms / 1000):
            try:
                self._hands.commit()
            except SessionReplaced:
                pass  # what was read in the old session is somebody else's to commit now
            except (ZooKeeperUnreachable, KafkaError) as error:
                log.warning("consumer %s: the offsets were not committed, and will be: %s", self.consumer_id, error)
            except Exception:
                log.exception("consumer %s: the offsets were not committed, and will be", self.consumer_id)
