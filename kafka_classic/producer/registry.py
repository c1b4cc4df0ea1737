"""The brokers as ZooKeeper's registry names them (P15), watched: a new one is used without a restart."""

from __future__ import annotations

from collections.abc import Callable

from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry, bootstrap_of
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicRegistry


class WatchedRegistry:
    """A session with ZooKeeper that tells of every change to brokers and topics."""

    def __init__(self, zookeeper: str, session_timeout: float) -> None:
        self._zookeeper = zookeeper
        self._session = Session(zookeeper, timeout_s=session_timeout).start()
        self._registry = BrokerRegistry(self._session)

    def bootstrap(self) -> str:
        """Return the addresses of those that live now; raises if there is none."""
        live = bootstrap_of(self._registry.live())
        if not live:
            raise KafkaError(
                Error.broker_not_available,
                f"no broker is registered in ZooKeeper at {self._zookeeper}: start one, or check the chroot",
            )
        return live

    def watch(self, brokers_changed: Callable[[str], None], topics_changed: Callable[[dict[str, int]], None]) -> None:
        """Call `brokers_changed(bootstrap)` and `topics_changed(partitions)` from now on, on the session's thread."""

        def tell(live: dict[int, BrokerInfo]) -> None:
            # With none left the last known addresses are still the best guess of where one will be.
            if bootstrap_of(live):
                brokers_changed(bootstrap_of(live))

        self._registry.watch(tell)
        TopicRegistry(self._session).watch(
            lambda topics: topics_changed({name: len(one.assignment) for name, one in topics.items()})
        )

    def close(self) -> None:
        self._session.close()
