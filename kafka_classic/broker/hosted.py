"""The partitions that this broker holds: found by name or id, opened and given up as the controller says."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from uuid import UUID

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.log.checkpoint import CorruptCheckpoint, read_checkpoint, write_checkpoint
from kafka_classic.log.directory import LogDir
from kafka_classic.log.errors import StorageError
from kafka_classic.replication.fetcher import Fetchers
from kafka_classic.replication.partition import Partition, log_config
from kafka_classic.replication.replica import Leadership, Taken
from kafka_classic.settings import BrokerSettings, SettingsError, TopicSettings
from kafka_classic.wire.errors import Error

log = logging.getLogger(__name__)

HIGH_WATERMARKS = "replication-offset-checkpoint"


class HostedPartitions:
    """Opens, configures and drops replicas as topics come, change and go."""

    def __init__(self, settings: BrokerSettings, view: ClusterView, directory: LogDir, fetchers: Fetchers) -> None:
        self._settings = settings
        self._view = view
        self._directory = directory
        self._fetchers = fetchers
        self._marks: dict[tuple[str, int], int] = {}  # high watermarks of partitions that are not open yet
        self._saved: dict[tuple[str, int], int] = {}
        self._saving = threading.Lock()
        self._named: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self.on_leadership: Callable[[Partition], None] = lambda _: None  # told of what is led, followed or gone now
        self.on_unopened: Callable[[str, int, Leadership], None] = lambda *_: None  # … and of what cannot be led

    def find(self, topic: str | UUID, index: int) -> tuple[Partition | None, Error]:
        """The partition, or why it is not here."""
        table: Mapping[tuple[object, int], Partition] = self._named if type(topic) is str else self._by_id  # type: ignore[assignment]
        partition = table.get((topic, index))
        return (partition, Error.none) if partition is not None else (None, self._view.why_not_here(topic, index))

    def lead(self, topic: str | UUID, index: int) -> tuple[Partition | None, Error]:
        """The partition if it is led here, else why not."""
        partition, error = self.find(topic, index)
        if partition is not None and not partition.leading:
            return None, Error.not_leader_or_follower
        return partition, error

    def load_marks(self) -> None:
        """Read the high watermarks of before; call it once the directory is loaded."""
        found = self._directory.found
        self._marks = {key: mark for key, mark in self._read_marks().items() if key in found}

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
        found: dict[str, str] = {}
        for name, text in sorted(given.items()):  # classic first: other settings must go with it, not it with them
            try:
                TopicSettings.load(self._settings, {**found, name: text})
                found[name] = text
            except SettingsError as error:
                log.warning("topic %s: %s; its default is used", topic, error)
        return found

    def forget_settings(self, topics: Collection[str]) -> None:
        """Keep the settings of these topics only."""
        for name in [name for name in self._configs if name not in topics]:
            del self._configs[name]

    # --- what the controller says

    def take(self, topic: str, topic_id: UUID, index: int, told: Leadership, now: float) -> Error:
        """Lead or follow one partition; it is opened, or made, when it is told for the first time."""
        key = (topic, index)
        partition = self._named.get(key)
        if partition is not None and partition.topic_id != topic_id:
            self._drop(key, partition)  # deleted and created anew
            partition = None
        if partition is None:
            partition = self._open(topic, index, topic_id)
            if partition is None:
                if told.leader == self._settings.broker_id:
                    self.on_unopened(topic, index, told)
                return Error.kafka_storage_error
        # One whose disk fails is told too: where it is to lead, it must know, to have another of those in sync lead.
        match partition.take(told, now):
            case Taken.STALE:
                return Error.stale_controller_epoch
            case Taken.LEADS:
                self._fetchers.forget(partition)
                self.on_leadership(partition)
            case Taken.FOLLOWS:
                self._fetchers.follow(partition)
                self.on_leadership(partition)
            case Taken.SAME:
                pass
        return Error.none if partition.log.failed is None else Error.kafka_storage_error

    def keep_only(self, named: Collection[tuple[str, int]]) -> None:
        """Set aside what the controller does not give to this broker, on disk or open: nothing is deleted by guess."""
        for key, partition in list(self._named.items()):
            if key not in named:
                self._let_go(key, partition)
                self._set_aside(key)
        for key in [key for key in self._directory.found if key not in named]:
            self._set_aside(key)

    def stop(self, topic: str, index: int, epoch: int, *, delete: bool) -> Error:
        """Follow no more; with `delete`, for good."""
        key = (topic, index)
        partition = self._named.get(key)
        if partition is None:
            if delete and key in self._directory.found:
                self._set_aside(key)
            return Error.none
        if 0 <= epoch < partition.leader_epoch:
            return Error.fenced_leader_epoch
        if delete:
            self._drop(key, partition)
        else:
            self._fetchers.forget(partition)
        return Error.none

    def _open(self, topic: str, index: int, topic_id: UUID) -> Partition | None:
        settings = self.topic_settings(topic)
        try:
            opened = self._directory.open(topic, index, topic_id, log_config(settings, self._settings))
        except (OSError, ValueError) as error:
            log.error("%s-%d cannot be opened and stays offline: %s", topic, index, error)
            return None
        mark = self._marks.pop((topic, index), 0)
        partition = Partition(topic, index, topic_id, opened, settings, self._settings, mark)
        partition.tell_time(int(time.time() * 1000))
        self._named[topic, index] = partition
        self._by_id[topic_id, index] = partition
        return partition

    def _let_go(self, key: tuple[str, int], partition: Partition) -> None:
        self._fetchers.forget(partition)
        del self._named[key]
        self._by_id.pop((partition.topic_id, partition.index), None)
        partition.gone = True
        partition.refresh()
        partition.wake()
        self.on_leadership(partition)

    def _drop(self, key: tuple[str, int], partition: Partition) -> None:
        self._let_go(key, partition)
        try:
            self._directory.drop(*key)
        except (OSError, StorageError) as error:
            log.error("%s-%d could not be deleted: %s", *key, error)
        else:
            log.info("%s-%d deleted", *key)

    def _set_aside(self, key: tuple[str, int]) -> None:
        try:
            self._directory.set_aside(*key)
        except (OSError, StorageError) as error:
            log.error("%s-%d could not be set aside: %s", *key, error)

    # --- high watermarks

    def save_marks_job(self) -> Callable[[], None]:
        """What writes the high watermarks down as they are now, on any thread."""
        marks = {key: partition.high_watermark for key, partition in self._named.items()}
        marks.update(self._marks)
        path = self._directory.path / HIGH_WATERMARKS

        def save() -> None:
            with self._saving:
                if marks != self._saved:
                    write_checkpoint(path, marks)
                    self._saved = marks

        return save

    def _read_marks(self) -> dict[tuple[str, int], int]:
        try:
            return read_checkpoint(self._directory.path / HIGH_WATERMARKS)
        except (CorruptCheckpoint, ValueError) as reason:
            log.warning("%s; going on without it: leaders tell the marks anew", reason)
            return {}
