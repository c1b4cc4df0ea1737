"""The scout: a thread that asks where things are, because asking may wait and the sender must not.

It looks for the leaders of lanes, gets producer ids, and keeps what is known of topics fresh. Connecting to a broker is
left to a short-lived thread for each: one that is cut off or paused holds up nobody's way to another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import Closed, RequestTimedOut
from kafka_classic.client.metadata import Metadata, Topic
from kafka_classic.client.produce_packed import VERSION
from kafka_classic.client.producer_id import ProducerId, init_producer_id
from kafka_classic.producer.lane import Lane
from kafka_classic.producer.link import Link
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import Error, KafkaError, default_message

log = logging.getLogger(__name__)

# A broker may answer before it has heard of a change itself, and a partition may have no leader yet: ask again soon.
_ASK_AGAIN_S = 0.5
_PARTING_S = 1.0  # for the thread, which may be connecting to a broker that says nothing


class TopicView(NamedTuple):
    """What a partitioner needs to know of a topic."""

    partitions: int
    available: tuple[int, ...]  # those that have a leader; all of them where none has
    led: bool  # all have one

    @classmethod
    def of(cls, topic: Topic, metadata: Metadata) -> TopicView:
        led = tuple(one.index for one in topic.partitions if one.leader in metadata.brokers)
        count = len(topic.partitions)
        return cls(count, led or tuple(range(count)), len(led) == count)


class _Question:
    """What a topic is like: asked by one thread, waited for by any number."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.view: TopicView | None = None
        self.failure: KafkaError | None = None


class Finder(Protocol):
    """What the scout tells the sender."""

    lanes: dict[tuple[str, int], Lane]

    def link(self, node: int) -> Link | None: ...

    def add_link(self, link: Link) -> Link: ...

    def found(self, lane: Lane, link: Link, producer: ProducerId | None) -> None: ...

    def not_found(self, lane: Lane, error: KafkaError) -> None: ...

    def moved(self, lane: Lane, leader: int) -> None: ...


class Scout:
    """Finds for one sender; `topics` is replaced, never changed in place, so that it may be read without a lock."""

    def __init__(self, cluster: Cluster, *, max_age: float, client_id: str, producer: ProducerId | None = None) -> None:
        self._cluster = cluster
        self._max_age = max_age
        self._client_id = client_id
        self._producer = producer
        self._wanted: dict[Lane, None] = {}
        self._questions: dict[str, _Question] = {}
        self._connecting: dict[int, list[tuple[Lane, ProducerId | None]]] = {}
        self._refresh = False
        self._expected: Mapping[str, int] = {}
        self._stopped = False
        self._changed = threading.Condition()
        self.topics: dict[str, TopicView] = {}
        self._thread: threading.Thread | None = None

    def start(self, sender: Finder) -> None:
        self._thread = threading.Thread(target=self._run, args=(sender,), name="kafka-producer-scout", daemon=True)
        self._thread.start()

    def find(self, lane: Lane) -> None:
        """Look for a lane's leader; the sender is told."""
        with self._changed:
            self._wanted[lane] = None
            self._changed.notify()

    def refresh(self, partitions: Mapping[str, int] | None = None) -> None:
        """Ask anew about all topics in use: something has changed. `partitions`: how many each is known to have."""
        with self._changed:
            self._refresh = True
            if partitions is not None:
                self._expected = partitions
            self._changed.notify()

    def learn(self, topic: str, deadline: float) -> TopicView:
        """Ask about a topic, which is created if the brokers do that; waits for `deadline` seconds at most.

        A broker that is asked may be silent for longer than that. So another thread asks, one for each topic, and what
        it is told too late for this caller is there for the next.
        """
        end = time.monotonic() + deadline
        while True:
            with self._changed:
                question = self._questions.get(topic)
                own = question is None
                if question is None:
                    question = _Question()
                    name = f"kafka-producer-learn-{topic}"
                    threading.Thread(target=self._ask, args=(topic, question, deadline), name=name, daemon=True).start()
                    self._questions[topic] = question  # not before: one that nobody asks would never be answered
            if not question.answered.wait(end - time.monotonic()):
                raise RequestTimedOut(
                    Error.request_timed_out,
                    f"no broker told of topic {topic!r} within max.block.ms: are they overloaded, or paused?",
                )
            if question.view is not None:
                return question.view
            # One that another caller asked before may have been given up sooner than this one would.
            if question.failure is not None and (own or not question.failure.retriable):
                raise question.failure

    def _ask(self, topic: str, question: _Question, deadline: float) -> None:
        def attempt() -> TopicView:
            metadata = self._cluster.metadata([topic], auto_create=True)
            found = metadata.topics.get(topic)
            if found is None or found.error or not found.partitions:
                code = found.error if found is not None and found.error else Error.unknown_topic_or_partition
                raise KafkaError(code, f"topic {topic!r}: {default_message(code)}")
            return TopicView.of(found, metadata)

        try:
            view = self._cluster.retrying(attempt, deadline)
            with self._changed:
                self.topics = {**self.topics, topic: view}
            question.view = view
        except Exception as error:
            question.failure = (
                error
                if isinstance(error, KafkaError)
                else KafkaError(Error.unknown_server_error, f"topic {topic!r}: {error!r}")
            )
        finally:
            with self._changed:
                del self._questions[topic]
            question.answered.set()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._cluster.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PARTING_S)

    def _run(self, sender: Finder) -> None:
        refreshed = time.monotonic()
        while True:
            with self._changed:
                patience = self._max_age if self._complete() else _ASK_AGAIN_S
                left = max(0.0, patience - (time.monotonic() - refreshed))
                self._changed.wait_for(lambda: self._stopped or self._wanted or self._refresh, left)
                if self._stopped:
                    return
                wanted, self._wanted = list(self._wanted), {}
                refresh = self._refresh or time.monotonic() - refreshed >= patience
                self._refresh = False
            if refresh or any(lane.last_error for lane in wanted):
                self._cluster.forget()
                refreshed = time.monotonic()
                self._guarded(lambda: self._renew_topics(sender))
            for lane in wanted:
                try:
                    self._look_for(lane, sender)
                except Exception as error:
                    # Without this thread no lane would ever be found again.
                    log.exception("the producer's scout failed; it goes on")
                    sender.not_found(lane, KafkaError(Error.unknown_server_error, repr(error)))

    def _complete(self) -> bool:
        """Whether every partition that there is has a leader, as far as is known."""
        return all(view.led and view.partitions >= self._expected.get(topic, 0) for topic, view in self.topics.items())

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Closed:
            pass
        except KafkaError as error:
            log.info("the metadata could not be renewed: %s", error)
        except Exception:
            log.exception("the metadata could not be renewed")

    def _renew_topics(self, sender: Finder) -> None:
        names = list(self.topics)
        if not names:
            return
        metadata = self._cluster.metadata(names)
        renewed = {
            name: TopicView.of(topic, metadata)
            for name, topic in metadata.topics.items()
            if not topic.error and topic.partitions
        }
        with self._changed:
            self.topics = {**self.topics, **renewed}
        for (name, index), lane in list(sender.lanes.items()):
            topic = metadata.topics.get(name)
            partition = topic.partition(index) if topic else None
            if partition is not None and partition.leader >= 0:
                sender.moved(lane, partition.leader)

    def _look_for(self, lane: Lane, sender: Finder) -> None:
        try:
            leader = self._cluster.leader_now(*lane.at)
            producer = self._producer_for(lane)
        except KafkaError as error:
            sender.not_found(lane, error)
            return
        link = sender.link(leader)
        if link is not None:
            sender.found(lane, link, producer)
            return
        with self._changed:
            waiting = self._connecting.setdefault(leader, [])
            waiting.append((lane, producer))
            first = len(waiting) == 1
        if first:
            name = f"kafka-producer-connect-{leader}"
            try:
                threading.Thread(target=self._connect, args=(leader, sender), name=name, daemon=True).start()
            except RuntimeError:  # there are too many: the next to look tries again
                with self._changed:
                    del self._connecting[leader]
                raise

    def _producer_for(self, lane: Lane) -> ProducerId | None:
        """The first id serves all lanes; one that has used up its epochs gets another."""
        if not lane.idempotent or lane.producer is not None:
            return None
        if self._producer is not None and not lane.spent:
            return self._producer
        new = init_producer_id(self._cluster)
        self._producer = self._producer or new
        return new

    def _connect(self, node: int, sender: Finder) -> None:
        """Make the link to a broker and tell all lanes that wait for it."""
        link, failure = None, None
        try:
            connection = self._cluster.new_connection(node)
            try:
                connection.require(Api.PRODUCE, VERSION)
                link = Link(node, connection.address, connection.detach(), self._client_id)
            except BaseException:
                connection.close()
                raise
            link = sender.add_link(link)
        except KafkaError as error:
            failure = error
        finally:
            with self._changed:
                waiting = self._connecting.pop(node)
            for lane, producer in waiting:
                if link is not None:
                    sender.found(lane, link, producer)
                else:
                    sender.not_found(lane, failure or KafkaError(Error.network_exception))
