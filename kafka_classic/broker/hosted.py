"""The partitions that this broker holds: found by name or id, kept in step with the topic registry."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import UUID

import gevent.pool

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.log.directory import LogDir
from kafka_classic.log.errors import StorageError
from kafka_classic.replication.partition import Partition, log_config
from kafka_classic.settings import BrokerSettings, SettingsError, TopicSettings
from kafka_classic.wire.errors import Error
from kafka_classic.zk.errors import UnknownTopic, VersionConflict
from kafka_classic.zk.partitions import PartitionState, PartitionStates
from kafka_classic.zk.topics import TopicInfo

log = logging.getLogger(__name__)


class HostedPartitions:
    """Opens, configures and drops partitions as topics come, change and go."""

    def __init__(self, settings: BrokerSettings, view: ClusterView, directory: LogDir, states: PartitionStates) -> None:
        self._settings = settings
        self._view = view
        self._directory = directory
        self._states = states
        self._named: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._configs: dict[str, dict[str, str]] = {}

    def find(self, topic: str | UUID, index: int) -> tuple[Partition | None, Error]:
        """The partition, or why it is not here."""
        table: Mapping[tuple[object, int], Partition] = self._named if type(topic) is str else self._by_id  # type: ignore[assignment]
        partition = table.get((topic, index))
        return (partition, Error.none) if partition is not None else (None, self._view.why_not_here(topic, index))

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._named.values()))

    def topic_settings(self, topic: str) -> TopicSettings:
        return TopicSettings.load(self._settings, self._configs.get(topic, {}))

    def overrides(self, topic: str) -> dict[str, str]:
        return dict(self._configs.get(topic, {}))

    def configure(self, topic: str, given: dict[str, str]) -> None:
        """A topic's settings changed; what this release cannot read of them is logged and left out."""
        self._configs[topic] = self._readable(topic, given)
        fresh = self.topic_settings(topic)
        for (name, _), partition in self._named.items():
            if name == topic:
                partition.configure(fresh)
                partition.tell_time(int(time.time() * 1000))

    def _readable(self, topic: str, given: dict[str, str]) -> dict[str, str]:
        found = {}
        for name, text in given.items():
            try:
                TopicSettings.load(self._settings, {name: text})
                found[name] = text
            except SettingsError as error:
                log.warning("topic %s: %s; its default is used", topic, error)
        return found

    def follow(self, topics: dict[str, TopicInfo]) -> None:
        """Hold what the registry assigns to this broker, no more and no less; runs in a greenlet, one at a time."""
        me = self._settings.broker_id
        wanted = {
            (name, index): info.topic_id
            for name, info in topics.items()
            for index, replicas in info.assignment.items()
            if me in replicas
        }
        for key, partition in list(self._named.items()):
            if wanted.get(key) != partition.topic_id:
                self._drop(key, partition)
        for name in [n for n in self._configs if n not in topics]:
            del self._configs[name]
        fresh = [key for key in wanted if key not in self._named]
        pool = gevent.pool.Pool(32)
        opening = [pool.spawn(self._open, name, index, wanted[name, index]) for name, index in fresh]
        pool.join()
        for greenlet in opening:
            greenlet.get()  # raises what went wrong, and all that are not here yet are tried again
        # With the cluster's id checked, a folder that no topic claims belongs to one deleted while we were away.
        for key in list(self._directory.found):
            if key not in wanted:
                self._directory.set_aside(*key)

    def _open(self, topic: str, index: int, topic_id: UUID) -> None:
        epoch = self._lead(topic, index)
        # From here on nothing waits, so that settings which change now are not missed.
        settings = self.topic_settings(topic)
        try:
            opened = self._directory.open(topic, index, topic_id, log_config(settings, self._settings))
        except (OSError, ValueError) as error:
            log.error("%s-%d cannot be opened and stays offline: %s", topic, index, error)
            return
        partition = Partition(topic, index, topic_id, opened, epoch, settings, self._settings)
        partition.tell_time(int(time.time() * 1000))
        self._named[topic, index] = partition
        self._by_id[topic_id, index] = partition

    def _lead(self, topic: str, index: int) -> int:
        """Write this broker down as the leader, in a new epoch; returns the epoch."""
        me = self._settings.broker_id
        while True:
            try:
                state = self._states.read(topic, index)
                if state is None:
                    return self._states.create(topic, index, PartitionState(me, 0, (me,), 0)).leader_epoch
                epoch = state.leader_epoch + 1
                return self._states.write(
                    topic, index, replace(state, leader=me, leader_epoch=epoch, isr=(me,))
                ).leader_epoch
            except VersionConflict:
                continue
            except UnknownTopic:
                return 0  # deleted meanwhile: the next snapshot says so

    def _drop(self, key: tuple[str, int], partition: Partition) -> None:
        del self._named[key]
        self._by_id.pop((partition.topic_id, partition.index), None)
        partition.gone = True
        partition.refresh()
        partition.wake()
        try:
            self._directory.drop(*key)
        except (OSError, StorageError) as error:
            log.error("%s-%d could not be deleted: %s", *key, error)
        else:
            log.info("%s-%d deleted", *key)
