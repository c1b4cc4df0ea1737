"""Where the offsets of a group are kept (P15): one small interface, and the stores behind it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from time import monotonic
from typing import Protocol

from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.group_offsets import commit_offsets, fetch_offsets
from kafka_classic.client.leaders import TopicPartition
from kafka_classic.consumer.streams import Lease
from kafka_classic.zk.errors import ZooKeeperUnreachable

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Keeps for each partition the offset from which the group goes on."""

    def fetch(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return what is committed; partitions without an offset are left out."""

    def resume(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """As fetch, for the one who owns the partitions now and is about to read on."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep these; returns when they are safe, raises when that is not known."""


class OffsetsOfGroups(Protocol):
    """The offset registry of ZooKeeper, for any group."""

    def fetch(self, group: str, partitions: Collection[TopicPartition], /) -> Mapping[TopicPartition, int]: ...

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], /) -> None: ...


class ZooKeeperOffsets:
    """A group's offsets in ZooKeeper's offset registry, as in the paper."""

    def __init__(self, registry: OffsetsOfGroups, group: str) -> None:
        self._registry = registry
        self._group = group

    def fetch(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._registry.fetch(self._group, partitions)

    resume = fetch

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._registry.commit(self._group, offsets)


class KafkaOffsets:
    """A group's offsets in `__consumer_offsets`, through the group's coordinator (`offsets.storage=kafka`).

    A coordinator cannot tell one member of a ZooKeeper-balanced group from another, so it cannot refuse a commit of one
    whose partitions are others' by now. The lease can: nothing is sent once it is over, no attempt is waited for
    longer, and it is over before anybody else can own what was read. What remains is a commit that was sent in time and
    that the network holds back until a successor has committed: then messages may come again, and none is missed.
    """

    def __init__(self, coordinator: Coordinator, lease: Lease, patience: float) -> None:
        self._coordinator = coordinator
        self._lease = lease
        self._patience = patience

    def fetch(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return fetch_offsets(self._coordinator, partitions, deadline=self._patience)

    resume = fetch

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        left = self._lease.until - monotonic()
        if left <= 0:
            raise ZooKeeperUnreachable(
                "ZooKeeper has not answered for so long that others may own what was read, so it is not committed"
            )
        try:
            commit_offsets(self._coordinator, offsets, deadline=min(left, self._patience))
        except UnknownTopic as error:
            log.info("an offset is not kept any more: %s", error.message)


class DualOffsets:
    """Two stores while a group moves from one to the other (`dual.commit.enabled`).

    Commits go to both, and the larger offset counts: a consumer that still knows only one of them may have gone on.
    What the first one refuses is not committed to the second. A partition that is quiet is committed to neither, so
    whoever reads on makes both equal first: once every partition has had a reader, either store may be left.
    """

    def __init__(self, first: OffsetStore, second: OffsetStore) -> None:
        self._stores = (first, second)

    def fetch(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return _largest([store.fetch(partitions) for store in self._stores])

    def resume(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        each = [store.resume(partitions) for store in self._stores]
        found = _largest(each)
        for store, known in zip(self._stores, each, strict=True):
            behind = {at: offset for at, offset in found.items() if known.get(at) != offset}
            if behind:
                store.commit(behind)
        return found

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        for store in self._stores:
            store.commit(offsets)


def _largest(each: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for known in each:
        for at, offset in known.items():
            found[at] = max(offset, found.get(at, offset))
    return found
