"""One broker: everything is wired together here, started in order and stopped in order."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import gevent
from gevent.event import Event

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.broker.configs import Configs
from kafka_classic.broker.fetch_sessions import FetchSessions
from kafka_classic.broker.flushing import Flusher
from kafka_classic.broker.hosted import HostedPartitions
from kafka_classic.broker.housekeeping import Housekeeping
from kafka_classic.broker.producer_ids import ProducerIds
from kafka_classic.broker.server import Server
from kafka_classic.broker.topics import Topics
from kafka_classic.broker.turn import Turn
from kafka_classic.log.directory import LogDir
from kafka_classic.settings import BrokerSettings, Endpoint
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.cluster import ClusterRegistry
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.errors import BrokerIdTaken, ZooKeeperUnreachable
from kafka_classic.zk.partitions import PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicInfo, TopicRegistry

log = logging.getLogger(__name__)

LEAVE_S = 5.0  # how long a stop waits for ZooKeeper; without it the registration ends with the session


class Broker:
    """A broker from its settings to its end.

    Order of start: ports are bound (so that a taken one is found before anything is changed), ZooKeeper is reached,
    the log directory is locked and recovered, the partitions are opened, connections are accepted, and only then the
    broker is registered: whoever finds it in the registry can use it (P15). The end goes the other way.
    """

    def __init__(self, settings: BrokerSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.clock = clock
        self.flusher = Flusher(clock)
        self.turn = Turn(self.flusher.committed)
        self.sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, time.monotonic)
        self.server = Server(self)
        self.topics = Topics(self)
        self.configs = Configs(self)
        self.endpoints: tuple[Endpoint, ...] = ()
        self._followed = Event()
        self._wanted: dict[str, TopicInfo] | None = None
        self._news = Event()
        self._ends = ExitStack()  # what undoes each step of the start, the last first, though one of them fails

    def start(self) -> None:
        settings = self.settings
        _raise_file_limit()
        self.endpoints = self.server.listen(settings.endpoints())
        self._ends.callback(self.server.close)
        self.session = Session(
            settings.zookeeper_connect, timeout_s=settings.zookeeper_session_timeout_ms / 1000, handler="gevent"
        )
        self._ends.callback(self.session.close)
        self.session.start(settings.zookeeper_connection_timeout_ms / 1000)
        cluster = ClusterRegistry(self.session)
        self.view = ClusterView(cluster.cluster_id())
        self.producer_ids = ProducerIds(lambda: cluster.claim_producer_ids(settings.broker_id))
        self.broker_registry = BrokerRegistry(self.session)
        self.topic_registry = TopicRegistry(self.session)
        self.config_registry = ConfigRegistry(self.session)
        info = self._info()
        self._check_id(info)
        self.directory = LogDir(Path(settings.log_dirs), settings.broker_id, self.view.cluster_id)
        self.hosted = HostedPartitions(settings, self.view, self.directory, PartitionStates(self.session))
        self._load()
        self._ends.callback(self.directory.close)
        self._ends.callback(self.flusher.stop)
        self.config_registry.watch(self._config_changed)
        self.topic_registry.watch(self._topics_changed)
        self.broker_registry.watch(self.view.set_brokers)
        self._ends.callback(gevent.spawn(self._follow).kill)
        self._followed.wait()
        self._ends.callback(Housekeeping(self).stop)
        self.view.serve_as(info)
        self.server.serve()
        self._ends.callback(self.server.close)  # before the logs
        self._ends.callback(self._leave)
        self.broker_registry.register(info, holds_address=True)

    def stop(self) -> None:
        """Leave the registry, answer what was taken, then close the logs cleanly; however far the start came."""
        self._ends.close()

    def _leave(self) -> None:
        with gevent.Timeout(LEAVE_S, False), suppress(ZooKeeperUnreachable):
            self.broker_registry.unregister()

    def in_a_thread(self, work: Callable[[], None]) -> None:
        """Do what may wait for the disk beside the event loop; only the calling greenlet waits."""
        gevent.get_hub().threadpool.apply(work)

    def _check_id(self, info: BrokerInfo) -> None:
        """Look before anything is changed: opening the partitions takes their leadership, in a new epoch."""
        there = self.broker_registry.live().get(info.id)
        if there is not None and (there.host, there.port) != (info.host, info.port):
            raise BrokerIdTaken(
                f"broker id {info.id} is taken by {there.host}:{there.port}; "
                "choose another broker.id or stop that broker"
            )

    def _load(self) -> None:
        began = time.monotonic()
        found = self.directory.load()
        if found:
            log.info("%d partitions on disk, %.1f s", found, time.monotonic() - began)

    def _info(self) -> BrokerInfo:
        bound = {e.name: e for e in self.endpoints}
        advertised = []
        for endpoint in self.settings.advertised():
            port = endpoint.port or bound[endpoint.name].port
            advertised.append(Endpoint(endpoint.name, endpoint.host or "127.0.0.1", port))
        return BrokerInfo(
            id=self.settings.broker_id,
            host=advertised[0].host,
            port=advertised[0].port,
            rack=self.settings.broker_rack or None,
            endpoints=tuple(map(str, advertised)),
        )

    def _config_changed(self, kind: str, name: str, values: dict[str, str]) -> None:
        if kind == "topics":
            self.hosted.configure(name, values)

    def _read_configs(self, topics: list[str]) -> None:
        """The settings of topics not seen before: all in one go at start, else one by one."""
        if len(topics) > 10:
            every = self.config_registry.all("topics")
            for name in topics:
                self.hosted.configure(name, every[name].values if name in every else {})
        else:
            for name in topics:
                self.hosted.configure(name, self.config_registry.get("topics", name).values)

    def _topics_changed(self, topics: dict[str, TopicInfo]) -> None:
        self._wanted = topics
        self._news.set()

    def _follow(self) -> None:
        """Hold the partitions that the registry gives this broker; the newest snapshot wins."""
        while True:
            self._news.wait()
            self._news.clear()
            topics, self._wanted = self._wanted, None
            if topics is None:
                continue
            try:
                # One of another id was deleted and created anew: its settings are others too.
                seen = {name: info.topic_id for name, info in self.view.topics.items()}
                self._read_configs([name for name, info in topics.items() if seen.get(name) != info.topic_id])
                self.hosted.follow(topics)
            except Exception:
                log.exception("could not follow the topic registry; trying again")
                gevent.sleep(1.0)
                if self._wanted is None:
                    self._wanted = topics
                self._news.set()
                continue
            held = self.view.topics
            self.view.set_topics(topics)
            self._followed.set()
            if any(self.view.id_of(name) != info.topic_id for name, info in held.items()):
                gevent.spawn(self._remove_deleted)

    def _remove_deleted(self) -> None:
        """Give the disk back at once, rather than at the next checkpoint."""
        try:
            self.in_a_thread(self.directory.checkpoint_job())
        except OSError as error:
            log.error("what was deleted is removed later: %s", error)


def _raise_file_limit() -> None:
    """Every connection and every segment is an open file: take as many as the system gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            log.warning("only %d open files are allowed", soft)
