"""A cluster as its clients see it: who leads what, a connection to each broker, and attempts until a deadline.

    with Cluster("127.0.0.1:9092,127.0.0.1:9093") as cluster:
        leader = cluster.leader("page-views", 0)
        cluster.connection(leader).request(...)

Thread-safe. Metadata is cached and asked for anew when a topic is not known, when an answer shows that what is cached
is out of date (`forget`), when a connection is lost, and after `metadata_max_age` seconds in any case.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from kafka_classic.client.addresses import parse_bootstrap
from kafka_classic.client.backoff import Backoff
from kafka_classic.client.connection import DEFAULT_CLIENT_ID, Connection
from kafka_classic.client.errors import Closed, UnknownTopic, Unreachable
from kafka_classic.client.metadata import NOTHING_KNOWN, Broker, Metadata, Topic, read_metadata, updated
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError, default_message

T = TypeVar("T")

_AUTO_CREATION_S = 10.0

# What an error says about the metadata it was found by.
OUT_OF_DATE = frozenset(
    {
        Error.not_leader_or_follower,
        Error.unknown_topic_or_partition,
        Error.leader_not_available,
        Error.fenced_leader_epoch,
        Error.unknown_topic_id,
        Error.inconsistent_topic_id,
        Error.not_controller,
        Error.replica_not_available,
        Error.kafka_storage_error,
        Error.network_exception,
        Error.request_timed_out,
    }
)


class Cluster:
    """The brokers behind a bootstrap list. Clock, sleep and rng are passed in where a test wants its own."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = DEFAULT_CLIENT_ID,
        *,
        request_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        deadline: float = 60.0,
        metadata_max_age: float = 300.0,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.request_timeout = request_timeout
        self.connect_timeout = connect_timeout
        self.deadline = deadline
        self.metadata_max_age = metadata_max_age
        self.backoff = backoff or Backoff()
        self._clock = clock
        self._closed = threading.Event()
        # Closing the cluster ends a wait for the next attempt as well.
        self._sleep = sleep or self._closed.wait
        self.rng = rng or random.Random()
        self._lock = threading.Lock()
        self._connecting: dict[tuple[str, int], threading.Lock] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._known = NOTHING_KNOWN
        self._known_at = -float("inf")
        self._met = False  # a broker has answered

    # --- what is where

    def metadata(self, topics: Iterable[str] | None = None, *, auto_create: bool = False) -> Metadata:
        """Ask any broker and return its answer: about all topics, or about those named. Topics carry their errors."""
        return self.retrying(lambda: self._ask(topics, auto_create))

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the broker that leads the partition; waits for one within the deadline."""
        return self.retrying(lambda: self.leader_now(topic, partition))

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """Return the topic, as cached if it is; raises UnknownTopic without further attempts when there is none."""
        return self.retrying(lambda: self._topic(name, auto_create), _AUTO_CREATION_S if auto_create else None)

    def brokers(self) -> dict[int, Broker]:
        """Return the live brokers, asked for anew."""
        return dict(self.metadata(()).brokers)

    def forget(self) -> None:
        """Take what is cached for out of date: the next question goes to a broker."""
        with self._lock:
            self._known_at = -float("inf")

    def found_at(self, bootstrap: str) -> None:
        """Take another list of addresses for the first question, as a watched registry tells it (P15)."""
        addresses = parse_bootstrap(bootstrap)
        with self._lock:
            self._bootstrap = addresses
            self._known_at = -float("inf")

    # --- connections

    def connection(self, node_id: int) -> Connection:
        """Return the shared connection to a broker, made if there is none."""
        broker = self._broker(node_id)
        return self._connect(broker.host, broker.port)

    def new_connection(self, node_id: int) -> Connection:
        """Return a connection of the caller's own, who closes it: long polls must not stand before others' requests."""
        broker = self._broker(node_id)
        return self._new(broker.host, broker.port)

    def any(self) -> Connection:
        """Return a connection to any broker that can be reached: one that stands, else the first that answers."""
        with self._lock:
            standing = [connection for connection in self._connections.values() if connection.usable]
            known = [(broker.host, broker.port) for broker in self._known.brokers.values()]
        if standing:
            return self.rng.choice(standing)
        self.rng.shuffle(known)
        failures: list[KafkaError] = []
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return self._connect(host, port)
            except Closed:
                raise
            except KafkaError as error:
                failures.append(error)
        raise failures[0]

    def controller(self) -> Connection:
        """Return the connection to the controller, whom changes to topics are sent to."""
        known = self._fresh()
        if known.controller not in known.brokers:
            known = self._ask((), False)
        # Without one now, any broker says NOT_CONTROLLER and the caller's next attempt asks again.
        return self.connection(known.controller) if known.controller in known.brokers else self.any()

    def close(self) -> None:
        """Close every connection; whoever waits wakes with an error."""
        self._closed.set()
        with self._lock:
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- attempts

    def retrying(self, attempt: Callable[[], T], deadline: float | None = None) -> T:
        """Call until it succeeds, fails for good, or `deadline` seconds are over; then the last failure is raised."""
        end = self._clock() + (self.deadline if deadline is None else deadline)
        tries = 0
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if isinstance(error, Closed) or not error.retriable or (self._never_met and not tries):
                    raise
                if error.code in OUT_OF_DATE:
                    self.forget()
                delay = self.backoff.delay(tries, self.rng)
                if self._clock() + delay >= end:
                    raise
            tries += 1
            self._sleep(delay)
            self._check_open()

    def call(self, node: Callable[[], Connection], api: Api, body: object, deadline: float | None = None) -> Any:
        """Send one request with attempts; `node` chooses the connection anew for each."""
        return self.retrying(lambda: node().request(api, body), deadline)

    # --- inside

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise _closed()

    @property
    def _never_met(self) -> bool:
        # An address that nobody ever answered on is more likely misspelt than recovering: say so at once.
        return not self._met

    def _fresh(self) -> Metadata:
        with self._lock:
            if self._clock() - self._known_at < self.metadata_max_age:
                return self._known
            known = [name for name, topic in self._known.topics.items() if not topic.error]
        return self._ask(known, False)

    def _ask(self, topics: Iterable[str] | None, auto_create: bool) -> Metadata:
        from kio.schema.metadata.v13 import MetadataRequest
        from kio.schema.metadata.v13.request import MetadataRequestTopic
        from kio.schema.types import TopicName

        names = None if topics is None else tuple(dict.fromkeys(topics))
        request = MetadataRequest(
            topics=None
            if names is None
            else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
            allow_auto_topic_creation=auto_create,
            include_topic_authorized_operations=False,
        )
        answer = read_metadata(self.any().request(Api.METADATA, request))
        with self._lock:
            self._known = answer if names is None else updated(self._known, answer)
            self._known_at = self._clock()
        return answer

    def _topic(self, name: str, auto_create: bool) -> Topic:
        topic = self._fresh().topics.get(name)
        if topic is None or topic.error:
            topic = self._ask([name], auto_create).topics.get(name)
        failure = _topic_error(name, topic, auto_create)
        if failure is not None:
            raise failure
        assert topic is not None
        return topic

    def leader_now(self, name: str, index: int) -> int:
        """Return the partition's leader, or raise: a single attempt, for those who make their own."""
        partition = self._topic(name, False).partition(index)
        if partition is None or partition.leader < 0:
            # What is cached may be old: ask once before saying no.
            topic = self._ask([name], False).topics.get(name)
            leader = _partition_leader(name, index, topic)
            if isinstance(leader, KafkaError):
                raise leader
            return leader
        return partition.leader

    def leaders_now(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | KafkaError]:
        """Return the leader of each partition, or why it has none: a single attempt, two requests at the most."""
        wanted = list(partitions)
        known = self._fresh().topics
        doubtful = {at[0] for at in wanted if isinstance(_leader(known, *at), KafkaError)}
        if doubtful:
            # What is cached may be old: ask once before saying no.
            known = {**known, **self._ask(sorted(doubtful), False).topics}
        return {at: _leader(known, *at) for at in wanted}

    def _broker(self, node_id: int) -> Broker:
        broker = self._fresh().brokers.get(node_id) or self._ask((), False).brokers.get(node_id)
        if broker is None:
            raise Unreachable(
                Error.network_exception, f"broker {node_id} is not in the cluster now: is it running, and registered?"
            )
        return broker

    def _new(self, host: str, port: int) -> Connection:
        made = Connection(host, port, self.client_id, self.request_timeout, connect_timeout=self.connect_timeout)
        self._met = True
        return made

    def _connect(self, host: str, port: int) -> Connection:
        key = host, port
        with self._lock:
            self._check_open()
            lock = self._connecting.setdefault(key, threading.Lock())
        # One attempt for one broker at a time: others that want it wait for its outcome, not the whole cluster.
        with lock:
            with self._lock:
                connection = self._connections.get(key)
                if connection is not None and not connection.usable:
                    del self._connections[key]
            if connection is not None:
                if connection.usable:
                    return connection
                connection.close()
            made = self._new(host, port)
            with self._lock:
                if not self._closed.is_set():
                    self._connections[key] = made
                    return made
            made.close()
            raise _closed()


def _topic_error(name: str, topic: Topic | None, auto_create: bool = False) -> KafkaError | None:
    if topic is None or (topic.error == Error.unknown_topic_or_partition and not auto_create):
        return UnknownTopic(
            Error.unknown_topic_or_partition,
            f"there is no topic {name!r}: create it with `kafka-classic topics create {name}`",
        )
    if topic.error:
        return KafkaError(topic.error, f"topic {name!r}: {default_message(topic.error)}")
    return None


def _leader(topics: Mapping[str, Topic], name: str, index: int) -> int | KafkaError:
    topic = topics.get(name)
    return _topic_error(name, topic) or _partition_leader(name, index, topic)


def _partition_leader(name: str, index: int, topic: Topic | None) -> int | KafkaError:
    partition = topic.partition(index) if topic else None
    if partition is None:
        count = len(topic.partitions) if topic else 0
        return UnknownTopic(
            Error.unknown_topic_or_partition,
            f"topic {name!r} has no partition {index}: it has {count}, numbered from 0",
        )
    if partition.leader < 0:
        return KafkaError(
            Error.leader_not_available,
            f"partition {index} of {name!r} has no leader now: are its brokers {list(partition.replicas)} running?",
        )
    return partition.leader


def _closed() -> Closed:
    return Closed(Error.network_exception, "the cluster's connections were closed")
