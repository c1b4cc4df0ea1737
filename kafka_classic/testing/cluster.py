"""A Kafka cluster of real processes on this machine: ZooKeeper and brokers, started and stopped in order.

    with LocalCluster(Path("data"), brokers=3) as cluster:
        print(cluster.bootstrap)      # 127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094
        cluster.brokers[1].kill()     # and start(), stop(), pause(), resume(), restart()

The directory keeps everything: each broker's data and log, ZooKeeper's, and cluster.json, by which a later process
finds a detached cluster again (`LocalCluster.find`). A cluster that is started again in the same directory keeps its
ports and its data. Servers end with the process that started them, however that ends, unless the cluster is detached.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_classic.testing.broker import BrokerDied, BrokerProcess
from kafka_classic.testing.keeper import Keeper
from kafka_classic.testing.ports import PortLeases, is_free
from kafka_classic.testing.process import Process
from kafka_classic.testing.state import ClusterState, ServerState, boot_id, read_state, write_state
from kafka_classic.testing.zookeeper import ZooKeeperProcess

_PORT_ATTEMPTS = 5


class AlreadyRunning(RuntimeError):
    """A cluster runs in this directory already."""


class PortTaken(RuntimeError):
    """A port that was asked for by number is in use by another program."""


class LocalCluster:
    """ZooKeeper and brokers of one directory. Broker N listens on `base_port` + N, or on a free port of its own."""

    def __init__(
        self,
        dir: Path,
        brokers: int = 1,
        zookeeper: str | None = None,
        settings: Mapping[str, str] | None = None,
        base_port: int = 0,
        *,
        zookeeper_port: int = 0,
        host: str = "127.0.0.1",
        detach: bool = False,
    ) -> None:
        self.dir = dir.absolute()
        self.host = host
        self.detach = detach
        self.settings = dict(settings or {})
        self._suited = _suited_to(brokers)
        self.zookeeper_server: ZooKeeperProcess | None = None
        self._base_port = base_port
        self._ports = PortLeases(host)
        self._keeper = None if detach else Keeper()
        self._lock = threading.Lock()
        self._zookeeper = zookeeper or ""
        if zookeeper is None:
            self.zookeeper_server = ZooKeeperProcess(
                self.dir / "zookeeper", port=zookeeper_port, host=host, detach=detach, on_change=self._changed
            )
        self.brokers = [self._broker(id, base_port + id if base_port else 0) for id in range(brokers)]

    @classmethod
    def find(cls, dir: Path) -> LocalCluster | None:
        """Return the cluster that was last started in this directory, as it is now; None when there never was one.

        Its brokers and its ZooKeeper may be alive or not: ask each. stop() ends those that are.
        """
        state = read_state(dir)
        if state is None:
            return None
        named = None if state.embedded else state.zookeeper
        cluster = cls(dir, len(state.brokers), named, state.settings, detach=True)
        same_boot = state.boot == boot_id()
        for broker, was in zip(cluster.brokers, state.brokers, strict=True):
            broker.id, broker.host, broker.port, broker.zookeeper = was.id, was.host, was.port, state.zookeeper
            broker.adopt(Process.find(was.pid, was.started) if same_boot else None)
        if state.embedded and cluster.zookeeper_server:
            cluster.zookeeper_server.port = state.embedded.port
            if same_boot:
                cluster.zookeeper_server.process = Process.find(state.embedded.pid, state.embedded.started)
        cluster._zookeeper = state.zookeeper
        return cluster

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, for `bootstrap.servers` of any Kafka client."""
        return ",".join(broker.advertised for broker in self.brokers)

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connect string."""
        return self.zookeeper_server.address if self.zookeeper_server is not None else self._zookeeper

    def alive(self) -> bool:
        """Tell whether any server of the cluster runs."""
        own = self.zookeeper_server
        return (own is not None and own.alive()) or any(broker.alive() for broker in self.brokers)

    def start(self, timeout: float = 60.0) -> Self:
        """Start ZooKeeper, then all brokers side by side, and wait until each serves and knows all the others."""
        self._check_not_running()
        self.dir.mkdir(parents=True, exist_ok=True)
        try:
            self._choose_ports()
            self._start_zookeeper()
            for broker in self.brokers:
                self._place(broker)
                broker.start()
            self.wait_ready(timeout)
        except BaseException:
            self.stop(timeout=5.0)
            raise
        return self

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until every running broker serves and knows all the other running ones."""
        deadline = time.monotonic() + timeout
        running = [broker for broker in self.brokers if broker.process is not None]
        for broker in running:
            for attempt in range(_PORT_ATTEMPTS):
                try:
                    broker.wait_ready(max(0.0, deadline - time.monotonic()), {other.id for other in running})
                    break
                except BrokerDied:
                    # Between our choice of the port and the broker's bind another program may have taken it.
                    if is_free(broker.port, self.host) or attempt == _PORT_ATTEMPTS - 1:
                        raise
                    if self._base_port:
                        raise self._port_taken(broker.port, f"broker {broker.id}") from None
                    broker.port = self._ports.draw()
                    broker.start()

    def add_broker(self, settings: Mapping[str, str] | None = None, timeout: float = 30.0) -> BrokerProcess:
        """Start one more broker and wait until it serves."""
        id = max((broker.id for broker in self.brokers), default=-1) + 1
        broker = self._broker(id, self._base_port + id if self._base_port else self._ports.draw())
        broker.settings.update(settings or {})
        self._place(broker)
        self.brokers.append(broker)
        broker.start()
        broker.wait_ready(timeout)
        return broker

    def stop(self, timeout: float = 30.0) -> None:
        """End all brokers side by side by SIGTERM, then ZooKeeper; what has not ended in time by SIGKILL."""
        running = [broker for broker in self.brokers if broker.process is not None]
        for broker in running:
            assert broker.process is not None
            broker.process.signal(signal.SIGTERM)
            broker.process.signal(signal.SIGCONT)
        deadline = time.monotonic() + timeout
        for broker in running:
            broker.stop(max(0.0, deadline - time.monotonic()))
        if self.zookeeper_server is not None:
            self.zookeeper_server.stop()
        if self._keeper is not None:
            self._keeper.close()
        self._ports.release_all()

    def __enter__(self) -> Self:
        return self.start() if not self.alive() else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.detach:
            self.stop()

    def state(self) -> ClusterState:
        """Return the addresses and processes of the cluster, as they are now."""
        own = self.zookeeper_server
        return ClusterState(
            zookeeper=self.zookeeper,
            embedded=None if own is None else _state(-1, own.host, own.port, own.process),
            brokers=tuple(_state(broker.id, broker.host, broker.port, broker.process) for broker in self.brokers),
            settings=self.settings,
            detached=self.detach,
            boot=boot_id(),
        )

    def _place(self, broker: BrokerProcess) -> None:
        """Tell a broker that is about to start how it reaches ZooKeeper, and how it is reached."""
        broker.zookeeper = self.zookeeper

    def _broker(self, id: int, port: int) -> BrokerProcess:
        return BrokerProcess(
            id,
            self.dir,
            port=port,
            zookeeper=self.zookeeper,
            settings={**self._suited, **self.settings},
            host=self.host,
            on_change=self._changed,
        )

    def _check_not_running(self) -> None:
        found = LocalCluster.find(self.dir)
        if found is not None and found.alive():
            raise AlreadyRunning(
                f"a cluster already runs in {self.dir} ({found.bootstrap}): "
                f"stop it with `kafka-classic down --dir {self.dir}` or choose another directory"
            )

    def _choose_ports(self) -> None:
        """Give every server without a port its former one if that is still free, else a free one."""
        before = read_state(self.dir)
        former = {broker.id: broker.port for broker in before.brokers} if before else {}
        for broker in self.brokers:
            if self._base_port:
                if not is_free(broker.port, self.host):
                    raise self._port_taken(broker.port, f"broker {broker.id}")
            else:
                broker.port = self._former_or_free(broker.port or former.get(broker.id, 0))
        own = self.zookeeper_server
        if own is not None:
            own.port = self._former_or_free(own.port or (before.embedded.port if before and before.embedded else 0))

    def _start_zookeeper(self) -> None:
        own = self.zookeeper_server
        if own is None:
            return
        from kafka_classic.zk.server import PortTaken as ZooKeeperPortTaken

        for attempt in range(_PORT_ATTEMPTS):
            try:
                own.start()
                break
            except ZooKeeperPortTaken:
                if attempt == _PORT_ATTEMPTS - 1:
                    raise
                own.port = self._ports.draw()

    def _former_or_free(self, former: int) -> int:
        return former if former and self._ports.lease(former) else self._ports.draw()

    def _port_taken(self, port: int, server: str) -> PortTaken:
        return PortTaken(f"port {port} for {server} is used by another program: choose another with --port, or end it")

    def _changed(self, before: Process | None, after: Process | None) -> None:
        """Note a server's new process for the keeper and for whoever reads cluster.json."""
        if self._keeper is not None:
            if before is not None:
                self._keeper.forget(before.pid)
            if after is not None:
                self._keeper.keep(after.pid, after.started)
        with self._lock:
            write_state(self.dir, self.state())


def _suited_to(brokers: int) -> dict[str, str]:
    """How groups are kept in a small cluster of one machine: by as many brokers as there are, and without Kafka's wait
    of three seconds for more members, which spares large groups a few rebalances and costs small ones their patience.
    """
    return {"offsets.topic.replication.factor": str(max(1, min(3, brokers))), "group.initial.rebalance.delay.ms": "0"}


def _state(id: int, host: str, port: int, process: Process | None) -> ServerState:
    return ServerState(id, host, port, process.pid if process else 0, process.started if process else 0)
