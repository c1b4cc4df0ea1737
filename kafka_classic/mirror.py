"""The mirror (P24): a consumer of one cluster's topics whose messages a producer publishes to another cluster.

    with Mirror("live-zookeeper:2181", "warehouse-broker:9092", topics=["page-views"]) as mirror:
        mirror.run(ended)

Every message keeps its partition, key, headers and time. How far it has come is committed at the source only after the
target has acknowledged everything before that, so a mirror that dies loses nothing, and its successor may repeat what
was copied last. Several of one group share the partitions.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_classic.client.admin import NewTopic, create_partitions, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.describe import describe_cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.propagation import await_topics
from kafka_classic.consumer import ConsumerConnector, ConsumerTimeout, Message
from kafka_classic.producer import Producer
from kafka_classic.settings import SettingsError
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.cluster import ClusterRegistry
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicRegistry

if TYPE_CHECKING:
    from kafka_classic.producer import RecordFuture

log = logging.getLogger(__name__)

SETTLE_EVERY_S = 1.0
MOST_UNSETTLED = 20_000  # messages that may come twice after a crash, and futures that are held
CREATION_S = 30.0
WAIT_MS = 100  # for a message, before it is looked whether to end
NOT_OURS_TO_COPY = "(?!__)"  # __consumer_offsets and __audit tell of their own cluster
CONSUMER = {"auto.offset.reset": "smallest"}
ALWAYS = {"auto.commit.enable": False, "consumer.timeout.ms": WAIT_MS}
PRODUCER = {"linger.ms": 5, "batch.size": 1 << 18}
SURELY = {"acks": "all", "enable.idempotence": True}


class MirrorFailed(Exception):
    """The target does not take a message; which one, and why. It and what followed are not committed."""


class Progress(NamedTuple):
    """What was copied so far, and the time of the last of it, in milliseconds."""

    messages: int
    bytes: int
    timestamp: int


class Mirror:
    """One member of the mirroring group. `topics` are names, `matching` is a pattern; those to come are included."""

    def __init__(
        self,
        zookeeper: str,
        bootstrap: str,
        *,
        topics: Collection[str] = (),
        matching: str = "",
        group: str = "mirror",
        prefix: str = "",
        audit: bool = False,
        consumer: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> None:
        if bool(topics) == bool(matching):
            raise SettingsError("name either the topics to mirror, or a pattern that they match")
        pattern = f"{NOT_OURS_TO_COPY}(?:{matching or '|'.join(map(re.escape, topics))})"
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(f"{matching!r} is no pattern: {error}") from None
        self._prefix = prefix
        self._partitions: dict[str, int] = {}  # of the topics at the target
        self._unsettled: list[tuple[Message, RecordFuture]] = []
        self._progress = Progress(0, 0, -1)
        self._owed = False  # a commit
        self._undo: list[Callable[[], object]] = []
        try:
            self._session = Session(zookeeper).start()
            self._undo.append(self._session.close)
            self._target = Cluster(bootstrap, f"{group}-mirror")
            self._undo.append(self._target.close)
            self._refuse_itself(zookeeper, bootstrap)
            self._producer = Producer(bootstrap, {**PRODUCER, **(producer or {}), **SURELY}, audit=audit)
            self._undo.append(lambda: self._producer.close(0))  # what is not settled by then is copied again
            settings = {**CONSUMER, **(consumer or {}), **ALWAYS}
            self._connector = ConsumerConnector(zookeeper, group, settings, audit=audit)
            self._undo.append(self._connector.shutdown)
            (self._stream,) = self._connector.create_message_streams_by_filter(white_list=pattern)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        ended: threading.Event,
        *,
        idle_s: float | None = None,
        told: Callable[[Progress], object] = lambda progress: None,
    ) -> Progress:
        """Copy until `ended` is set, or nothing has come for `idle_s`; all that was copied is committed then.

        Raises MirrorFailed when the target does not take a message. Whatever is raised, the mirror is closed: what was
        handed out and not copied must not be committed by a later run.
        """
        try:
            return self._run(ended, idle_s, told)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the group; what was not committed is copied again by whoever comes next. May be repeated."""
        while self._undo:
            try:
                self._undo.pop()()
            except Exception:  # the others are to be closed all the same
                log.exception("the mirror could not close in order")

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside

    def _run(self, ended: threading.Event, idle_s: float | None, told: Callable[[Progress], object]) -> Progress:
        last = settled = time.monotonic()
        while not ended.is_set():
            try:
                message = next(self._stream)
            except ConsumerTimeout:
                message = None
            except StopIteration:
                break
            except KafkaError as error:  # a damaged batch: it is read again
                log.warning("the mirror goes on: %s", error.message)
                message = None
            now = time.monotonic()
            if message is not None:
                self._copy(message)
                last = now
            elif not self._connector.wait_until_steady(0):
                last = now  # whoever has not got its partitions yet is not idle
            elif idle_s is not None and now - last >= idle_s:
                break
            due = self._owed or bool(self._unsettled)
            if due and (now - settled >= SETTLE_EVERY_S or len(self._unsettled) >= MOST_UNSETTLED):
                self._settle()
                told(self._progress)
                settled = time.monotonic()
        self._settle()
        return self._progress

    def _refuse_itself(self, zookeeper: str, bootstrap: str) -> None:
        """A mirror of a cluster into itself would copy its own copies for ever."""
        id = describe_cluster(self._target).cluster_id
        if id == ClusterRegistry(self._session).cluster_id():
            raise SettingsError(f"{bootstrap} and the ZooKeeper {zookeeper} are the same cluster ({id})")

    def _copy(self, message: Message) -> None:
        topic, partition, _, key, value, headers, timestamp = message
        try:
            if partition >= self._partitions.get(topic, 0):
                self._make_room(topic, partition + 1)
            # Messages of classic topics have no time: the target's is when they were copied.
            when = timestamp if timestamp >= 0 else None
            future = self._producer.send(self._prefix + topic, value, key, headers, when, partition)
        except KafkaError as error:
            raise _failed(message, error) from error
        self._unsettled.append((message, future))

    def _settle(self) -> None:
        """See that the target has everything, then tell the source."""
        if not self._unsettled and not self._owed:
            return
        self._producer.flush()
        for message, future in self._unsettled:
            error = future.exception()
            if error is not None:
                raise _failed(message, error) from error
        messages, size, last = self._progress
        size += sum(len(message.value or b"") + len(message.key or b"") for message, _ in self._unsettled)
        last = self._unsettled[-1][0].timestamp if self._unsettled else last
        self._progress = Progress(messages + len(self._unsettled), size, last)
        self._unsettled.clear()
        self._owed = True
        try:
            self._connector.commit_offsets()
        except SessionReplaced:
            log.warning("the session with the source's ZooKeeper expired: what was copied last may be copied again")
        except (ZooKeeperUnreachable, KafkaError) as error:
            log.warning("what was copied is committed later: %s", error)
            return
        self._owed = False

    def _make_room(self, topic: str, needed: int) -> None:
        """See that the topic is at the target, with as many partitions; a new one gets the settings of the source's."""
        name = self._prefix + topic
        source = TopicRegistry(self._session).get(topic)
        wanted = max(needed, 0 if source is None else len(source.assignment))
        self._target.forget()
        try:
            there = len(self._target.topic(name).partitions)
        except UnknownTopic:
            configs = ConfigRegistry(self._session).get("topics", topic).values
            try:
                create_topics(self._target, [NewTopic(name, wanted, configs=configs)])
            except KafkaError as error:
                if error.code != Error.topic_already_exists:  # another of the group was faster
                    raise
                await_topics(self._target, {name: wanted}, CREATION_S)
            there = len(self._target.topic(name).partitions)
        if there < wanted:
            try:
                create_partitions(self._target, {name: wanted})
            except KafkaError:
                self._target.forget()
                if len(self._target.topic(name).partitions) < wanted:
                    raise
            there = wanted
        self._partitions[topic] = there


def _failed(message: Message, error: BaseException) -> MirrorFailed:
    topic, partition, offset, *_ = message
    why = error.message if isinstance(error, KafkaError) else str(error)
    return MirrorFailed(f"offset {offset} of partition {partition} of {topic!r} was not copied: {why}")
