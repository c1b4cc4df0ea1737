"""From what the user says (`earliest`, a time, JSON) to an offset of each partition: the questions to the brokers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafka_classic.audit.source.options import Options, Where
from kafka_classic.audit.source.plan import TopicPartition
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.errors import UnknownTopic
from kafka_classic.client.offsets import EARLIEST, LATEST, list_offsets
from kafka_classic.settings import SettingsError


def connect(options: Options) -> Cluster:
    """Return a client of the cluster that the options name; the caller closes it."""
    return Cluster(options.bootstrap, options.client_id, request_timeout=options.request_timeout_s)


def subscribed(cluster: Cluster, options: Options, *, gone_too: bool = False) -> list[TopicPartition]:
    """Return the partitions that are to be read as they are now.

    A topic that was named and is not there is an error, or with `gone_too` has no partitions.
    """
    cluster.forget()
    if options.assigned is not None:
        return sorted((topic, index) for topic, indices in options.assigned.items() for index in indices)
    if options.pattern is not None:
        wanted = re.compile(options.pattern)
        topics = [topic for topic in cluster.metadata().topics.values() if wanted.fullmatch(topic.name)]
        found = [topic for topic in topics if not topic.error and not topic.internal]
    else:
        found = []
        for name in options.topics or ():
            try:
                found.append(cluster.topic(name))
            except UnknownTopic:
                if not gone_too:
                    raise
    return sorted((topic.name, partition.index) for topic in found for partition in topic.partitions)


def resolve(
    cluster: Cluster, partitions: Iterable[TopicPartition], where: Where, option: str
) -> dict[TopicPartition, int]:
    """Return the offset in each partition that `where`, the value of `option`, stands for."""
    wanted = _of_each(list(partitions), where, option)
    if where.by_time:
        found = {at: one.offset for at, one in list_offsets(cluster, wanted).items()}
        late = {at: LATEST for at, offset in found.items() if offset < 0}
        if late and not where.latest_if_none:
            names = ", ".join(f"{topic}-{index}" for topic, index in sorted(late))
            raise SettingsError(
                f"{option}: no record is that late in {names}; "
                "with startingOffsetsByTimestampStrategy=latest such partitions are read from their end"
            )
        return found | latest(cluster, late)
    asked = {at: offset for at, offset in wanted.items() if offset < 0}
    return wanted | {at: one.offset for at, one in list_offsets(cluster, asked).items()}


def latest(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {at: one.offset for at, one in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).items()}


def earliest(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {at: one.offset for at, one in list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)).items()}


def _of_each(partitions: list[TopicPartition], where: Where, option: str) -> dict[TopicPartition, int]:
    if where.all is not None:
        return dict.fromkeys(partitions, where.all)
    each = dict(where.each or {})
    missing, strange = sorted(set(partitions) - each.keys()), sorted(each.keys() - set(partitions))
    if missing or strange:
        names = ", ".join(f"{topic}-{index}" for topic, index in missing or strange)
        raise SettingsError(
            f"{option} must name every partition that is read: {names} {'is missing' if missing else 'is not read'}"
        )
    return each
