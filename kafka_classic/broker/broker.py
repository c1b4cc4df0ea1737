"""One broker: everything is wired together here, started in order and stopped in order."""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import gevent
from gevent.event import Event

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.broker.compactor import Compactor
from kafka_classic.broker.configs import Configs
from kafka_classic.broker.coordination import Coordination
from kafka_classic.broker.fence import Fence
from kafka_classic.broker.fetch_sessions import FetchSessions
from kafka_classic.broker.flushing import Flusher
from kafka_classic.broker.hosted import HostedPartitions
from kafka_classic.broker.housekeeping import Housekeeping
from kafka_classic.broker.producer_ids import ProducerIds
from kafka_classic.broker.replicas import Mandates
from kafka_classic.broker.server import Server
from kafka_classic.broker.topics import Topics
from kafka_classic.broker.turn import Turn
from kafka_classic.controller.controller import Controller
from kafka_classic.log.directory import LogDir
from kafka_classic.replication.fetcher import Fetchers
from kafka_classic.replication.in_sync import InSync
from kafka_classic.replication.peer import Peer
from kafka_classic.settings import BrokerSettings, Endpoint
from kafka_classic.wire import control
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.cluster import ClusterRegistry
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.errors import BrokerIdTaken, ZooKeeperUnreachable
from kafka_classic.zk.isr_changes import IsrChanges
from kafka_classic.zk.partitions import PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicRegistry

log = logging.getLogger(__name__)

HAND_OVER_S = 10.0  # for the controller to move leadership away
HAND_OVER_PAUSE_S = 0.2  # before it is asked again, growing up to controlled.shutdown.retry.backoff.ms
DESERTED_S = 2.0  # of a follower's silence, on top of what it takes to ask again
LEAVE_S = 5.0  # how long a stop waits for ZooKeeper; without it the registration ends with the session


class Broker:
    """A broker from its settings to its end.

    Order of start: ports are bound (so that a taken one is found before anything is changed), ZooKeeper is reached,
    the log directory is locked, connections are accepted, and only then the broker is registered: whoever finds it in
    the registry can use it (P15). The controller does: it tells which partitions to open, to lead and to follow, and
    with its first word the start is over. The end goes the other way, once others lead what was led here.
    """

    def __init__(self, settings: BrokerSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.clock = clock
        self.flusher = Flusher(clock)
        self.turn = Turn(self.flusher.committed, gevent.get_hub().loop)
        self.sessions = FetchSessions(settings.max_incremental_fetch_session_cache_slots, time.monotonic)
        self.server = Server(self)
        self.topics = Topics(self)
        self.configs = Configs(self)
        self.endpoints: tuple[Endpoint, ...] = ()
        self.mandates = Mandates()
        self.failed: Exception | None = None  # why it must end, if it must
        self.ended = Event()
        self._settled = Event()
        self.leaders: dict[int, tuple[str, int]] = {}  # where the controller says that they are
        self._seen: dict[str, UUID] = {}
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
        self.fetchers = Fetchers(settings, self._address, self.flusher.committed, self._save_cuts)
        self.hosted = HostedPartitions(settings, self.view, self.directory, self.fetchers)
        self._load()
        self._ends.callback(self._close_logs)
        self._ends.callback(self.flusher.stop)
        patience_s = 2 * settings.replica_fetch_wait_max_ms / 1000 + DESERTED_S
        self.fence = Fence(self.session, self._wake_all, patience_s)
        self.coordination = Coordination(self)
        self.hosted.on_leadership = self.coordination.on_leadership
        self._ends.callback(self.coordination.stop)
        self.in_sync = InSync(
            PartitionStates(self.session), IsrChanges(self.session).tell, settings.replica_lag_time_max_ms / 1000
        )
        self.hosted.on_unopened = self.in_sync.decline
        self._ends.callback(self.in_sync.stop)
        self._ends.callback(self.fetchers.stop)
        self.config_registry.watch(self._config_changed)
        self._ends.callback(Housekeeping(self).stop)
        self._ends.callback(Compactor(self).stop)
        self.view.serve_as(info)
        self.server.serve()
        self._ends.callback(self.server.close)  # before the logs
        self.controller = Controller(self.session, settings, partial(self.peer, "-controller"))
        self._ends.callback(self._leave)
        registered = self.broker_registry.register(
            info, holds_address=True, registered_again=self._registered_again, refused=self._refused
        )
        self._registered_again(registered)
        self.controller.start()
        self._settled.wait()

    def stop(self) -> None:
        """Give leadership away, leave the registry, answer what was taken, then close the logs; however far it came."""
        self._ends.close()

    # --- the way out

    def _leave(self) -> None:
        with suppress(ZooKeeperUnreachable):
            if self._settled.is_set() and self.settings.controlled_shutdown_enable:
                self._hand_over()
            with gevent.Timeout(LEAVE_S, False):
                self.controller.stop()
                self.broker_registry.unregister()

    def _hand_over(self) -> None:
        """Have the controller move what is led here to others, so that producers hardly notice the stop."""
        settings = self.settings
        began = time.monotonic()
        body = control.ControlledShutdownRequest(broker_id=settings.broker_id, broker_epoch=self.mandates.broker_epoch)
        for attempt in range(settings.controlled_shutdown_max_retries + 1):
            if attempt:
                gevent.sleep(min(settings.controlled_shutdown_retry_backoff_ms / 1000, attempt * HAND_OVER_PAUSE_S))
            if not self._leads_for_others():
                return
            controller = self.view.brokers.get(self.view.controller())
            if controller is None:
                continue
            try:
                peer = self.peer("", controller, timeout_s=HAND_OVER_S)
                try:
                    answer = peer.request(Api.CONTROLLED_SHUTDOWN, body, HAND_OVER_S)
                finally:
                    peer.close()
            except (OSError, KafkaError) as error:
                log.warning("the controller could not be asked to take over: %s", error)
                continue
            if answer.error_code is Error.none and not answer.remaining_partitions:
                self._wait_until_followed()
                log.info("others lead what was led here, after %.0f ms", (time.monotonic() - began) * 1000)
                return
        log.warning("stopping though this broker still leads partitions that others hold too")

    def _leads_for_others(self) -> bool:
        return any(p.leading and p.replicated and p.log.failed is None for p in self.hosted)

    def _wait_until_followed(self) -> None:
        """The controller has decided; its word to this broker comes a moment later."""
        with gevent.Timeout(HAND_OVER_S, False):
            while self._leads_for_others():
                gevent.sleep(0.01)

    def _close_logs(self) -> None:
        try:
            self.hosted.save_marks_job()()
        except OSError as error:
            log.error("the high watermarks could not be saved: %s", error)
        self.directory.close()

    # --- with other brokers

    def peer(self, role: str, other: BrokerInfo, timeout_s: float | None = None) -> Peer:
        host, port = self._endpoint(other)
        seconds = self.settings.controller_socket_timeout_ms / 1000 if timeout_s is None else timeout_s
        return Peer(host, port, f"broker-{self.settings.broker_id}{role}", seconds)

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        other = self.view.brokers.get(broker_id)
        return self.leaders.get(broker_id) if other is None else self._endpoint(other)

    def _endpoint(self, other: BrokerInfo) -> tuple[str, int]:
        """Where brokers reach that one."""
        wanted = self.settings.inter_broker_listener_name.upper()
        for endpoint in map(Endpoint.parse, other.endpoints):
            if endpoint.name == wanted:
                return endpoint.host, endpoint.port
        return other.host, other.port

    def _registered_again(self, info: BrokerInfo) -> None:
        self.mandates.registered(info.epoch)
        self.fence.registered(info.epoch)

    def _refused(self, error: BrokerIdTaken) -> None:
        """Another broker took this one's id while its session was gone: there cannot be two."""
        self.failed = error
        self.ended.set()

    def settle_in(self, broker_epoch: int) -> None:
        """The controller has told this broker what it leads and who else there is."""
        self.fence.recognised(broker_epoch)
        self._settled.set()

    def _wake_all(self) -> None:
        """Whoever waited for the fence to open may go on."""
        for partition in self.hosted:
            partition.wake()

    def _save_cuts(self) -> None:
        self.in_a_thread(self.directory.checkpoint_job())

    def in_a_thread(self, work: Callable[[], None]) -> None:
        """Do what may wait for the disk beside the event loop; only the calling greenlet waits."""
        gevent.get_hub().threadpool.apply(work)

    def _check_id(self, info: BrokerInfo) -> None:
        """Look before anything is changed."""
        there = self.broker_registry.live().get(info.id)
        if there is not None and (there.host, there.port) != (info.host, info.port):
            raise BrokerIdTaken(
                f"broker id {info.id} is taken by {there.host}:{there.port}; "
                "choose another broker.id or stop that broker"
            )

    def _load(self) -> None:
        began = time.monotonic()
        found = self.directory.load()
        self.hosted.load_marks()
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

    def learn_settings(self, topics: Mapping[str, UUID]) -> None:
        """Read the settings of topics not seen before: of many in one go, of few one by one."""
        fresh = [name for name, id in topics.items() if self._seen.get(name) != id]
        every = self.config_registry.all("topics") if len(fresh) > 10 else None
        for name in fresh:
            if every is None:
                values = self.config_registry.get("topics", name).values
            else:
                values = every[name].values if name in every else {}
            self.hosted.configure(name, values)
            # One of another id was deleted and created anew: its settings are others too.
            self._seen[name] = topics[name]

    def remove_deleted(self) -> None:
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
