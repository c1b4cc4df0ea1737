"""A cluster to break: every broker behind a proxy, so that any two of {broker, ZooKeeper, client} can be cut apart.

    with FaultyCluster(Path("data"), brokers=3) as cluster:
        leader = cluster.leader("orders", 0)
        cluster.cut(leader, ZOOKEEPER)                 # silence between them; all else goes on
        cluster.until(lambda: cluster.leader("orders", 0) != leader)
        cluster.heal()

What the cluster is asked here (who leads, who is in sync) is read from ZooKeeper itself, past all proxies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_classic.testing.broker import BrokerProcess
from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.proxy import CLIENT, ZOOKEEPER, Name, Network
from kafka_classic.testing.sight import belief, sight
from kafka_classic.testing.waiting import NeverCame, until

if TYPE_CHECKING:
    from kafka_classic.zk.partitions import PartitionState
    from kafka_classic.zk.session import Session

__all__ = ["CLIENT", "ZOOKEEPER", "FaultyCluster", "NeverCame"]


class FaultyCluster(LocalCluster):
    """Three brokers that can be killed, paused, wiped, and cut off from each other, from ZooKeeper and from clients."""

    def __init__(self, dir: Path, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(dir, brokers, settings=settings)
        self.network = Network()
        self._session: Session | None = None

    def _place(self, broker: BrokerProcess) -> None:
        if not broker.proxy:
            to_zookeeper = self.network.proxy(ZOOKEEPER, self._where_zookeeper_is, caller=broker.id)
            broker.zookeeper = to_zookeeper.address
            broker.proxy = self.network.proxy(broker.id, lambda: (broker.host, broker.port)).address

    def _where_zookeeper_is(self) -> tuple[str, int]:
        assert self.zookeeper_server is not None
        return self.zookeeper_server.host, self.zookeeper_server.port

    def stop(self, timeout: float = 30.0) -> None:
        self.network.heal()
        if self._session is not None:
            self._session.close()
            self._session = None
        super().stop(timeout)
        self.network.close()

    # --- faults

    def kill(self, *brokers: int) -> None:
        """SIGKILL to each, all at once."""
        for id in brokers:
            self.brokers[id].kill()

    def pause(self, broker: int) -> None:
        self.brokers[broker].pause()

    def resume(self, broker: int) -> None:
        self.brokers[broker].resume()

    def restart(self, broker: int, timeout: float = 60.0) -> None:
        """End it by SIGTERM if it runs, start it, and wait until it serves."""
        self.brokers[broker].restart(timeout)

    def wipe(self, broker: int) -> None:
        """Take away the disk of a broker that does not run."""
        if self.brokers[broker].alive():
            raise RuntimeError(f"broker {broker} runs: kill() it first")
        shutil.rmtree(self.brokers[broker].data_dir)

    def cut(self, a: Name, b: Name) -> None:
        """A partition between two of {broker id, ZOOKEEPER, CLIENT}: nothing passes and nothing is closed."""
        self.network.cut(a, b)

    def slow(self, a: Name, b: Name, bytes_per_second: float | None = None, delay: float = 0.0) -> None:
        self.network.slow(a, b, bytes_per_second, delay)

    def heal(self) -> None:
        """Make the network whole; what was held flows on."""
        self.network.heal()

    def restart_zookeeper(self) -> None:
        """Kill ZooKeeper and start it again on its data."""
        assert self.zookeeper_server is not None
        self.zookeeper_server.kill()
        self.zookeeper_server.start()

    def mend(self, timeout: float = 60.0) -> None:
        """Undo whatever was done: the network whole, ZooKeeper and all brokers running."""
        self.network.heal()
        assert self.zookeeper_server is not None
        if not self.zookeeper_server.alive():
            self.zookeeper_server.start()
        for broker in self.brokers:
            if broker.alive():
                broker.resume()
            else:
                broker.kill()
                broker.start()
        self.wait_ready(timeout)

    # --- what ZooKeeper knows

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads it, -1 if there is none."""
        state = self.state_of(topic, partition)
        return -1 if state is None else state.leader

    def in_sync(self, topic: str, partition: int) -> tuple[int, ...]:
        state = self.state_of(topic, partition)
        return () if state is None else state.isr

    def controller(self) -> int | None:
        from kafka_classic.zk.controller import ControllerElection

        return ControllerElection(self.zookeeper_session()).current()

    def state_of(self, topic: str, partition: int) -> PartitionState | None:
        from kafka_classic.zk.partitions import PartitionStates

        return PartitionStates(self.zookeeper_session()).read(topic, partition)

    def untold(self, topic: str, partition: int) -> bool:
        """Whether a cut lies between the controller and the leader it chose, and that one does not know that it leads.

        Nobody leads then until it is healed: brokers hear of leadership from the controller alone, as in Kafka.
        """
        from kafka_classic.wire.errors import KafkaError

        state, controller = self.state_of(topic, partition), self.controller()
        if state is None or state.leader < 0 or controller is None or not self.network.is_cut(controller, state.leader):
            return False
        try:
            known = belief(self.brokers[state.leader]).get((topic, partition))
        except KafkaError:
            return False  # it does not run, or hangs
        return known is None or known.leader_epoch < state.leader_epoch

    def zookeeper_session(self) -> Session:
        """A session of the test's own, past all proxies."""
        from kafka_classic.zk.session import Session

        if self._session is None:
            self._session = Session(self.zookeeper, timeout_s=30.0).start()
        return self._session

    # --- waiting

    def until(self, condition: Callable[[], bool], what: str = "the condition", timeout: float = 90.0) -> None:
        """Wait until it holds; raises NeverCame, with all that can be seen of the cluster, when it does not in time."""
        until(condition, what, timeout, sight=lambda: sight(self))

    def until_whole(self, topics: Iterable[str], partitions: int, timeout: float = 90.0) -> None:
        """Wait until all partitions have a leader and all brokers in sync."""
        for topic in topics:
            for index in range(partitions):
                self.until(
                    lambda topic=topic, index=index: (  # type: ignore[misc]
                        self.leader(topic, index) >= 0 and len(self.in_sync(topic, index)) == len(self.brokers)
                    ),
                    f"{topic}-{index} whole",
                    timeout,
                )
