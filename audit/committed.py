"""The tier of a consumer group that tells nothing itself: how far it has come, by the offsets it committed.

So a group of any client has a tier. But a committed offset proves only that the group went past everything below it:
that is *passed*, which is less than *complete*. Nobody counted what its members did with the messages, and that the
group began before them, in place of being set to a later offset, is taken for granted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka_classic.audit.findings import AtTier, Verdict
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.coordinator import Coordinator
from kafka_classic.client.group_offsets import fetch_offsets
from kafka_classic.client.spans import Run, Span, common, covered, size, without
from kafka_classic.client.tally import Tally
from kafka_classic.wire.errors import Error, KafkaError

At = tuple[str, int]  # a topic and a partition


class Passed(NamedTuple):
    """A group has passed all before `upto` in a partition; where that is not known, `why`."""

    upto: int
    why: str = ""


Committed = dict[str, dict[str, dict[int, Passed]]]  # by topic, tier and partition


def tier_of(group: str) -> str:
    """The name of a group's tier: it says where the knowledge comes from."""
    return f"group {group} (committed)"


def committed(
    cluster: Cluster, groups: Iterable[str], topics: Collection[str], told: Collection[tuple[str, str]]
) -> Committed:
    """What these groups have committed of the topics that they read, but for topics and groups that are told of.

    Raises KafkaError for a group that reads none of them.
    """
    found: Committed = {topic: {} for topic in topics}
    places = {topic: [one.index for one in cluster.topic(topic).partitions] for topic in topics}
    for group in groups:
        offsets: Mapping[At, int] = {}
        why = ""
        try:
            offsets = fetch_offsets(Coordinator(cluster, group))
        except KafkaError as error:
            why = f"what the group has committed cannot be read: {error}"
        read = [topic for topic in topics if why or any((topic, index) in offsets for index in places[topic])]
        if not read and not any((topic, group) in told for topic in topics):
            raise KafkaError(
                Error.group_id_not_found,
                f"group {group!r} has committed no offset of {', '.join(map(repr, topics)) or 'any topic'} to the "
                "brokers: `kafka-classic groups list` names those there are",
            )
        for topic in read:
            if (topic, group) not in told:
                found[topic][tier_of(group)] = {
                    index: _passed(offsets.get((topic, index)), why, index) for index in places[topic]
                }
    return found


def _passed(offset: int | None, why: str, partition: int) -> Passed:
    if offset is None:
        return Passed(-1, why or f"the group has committed nothing of partition {partition}")
    return Passed(offset)


def without_the_impossible(found: Committed, ends: Mapping[At, int]) -> Committed:
    """An offset beyond the log's end, which was asked for later, is of a log that is no more: it proves nothing."""

    def checked(topic: str, partition: int, passed: Passed) -> Passed:
        end = ends.get((topic, partition))
        if passed.why or end is None or passed.upto <= end:
            return passed
        why = f"the group has committed offset {passed.upto} of partition {partition}, whose log ends at {end}"
        return Passed(-1, why)

    return {
        topic: {
            tier: {partition: checked(topic, partition, passed) for partition, passed in places.items()}
            for tier, places in tiers.items()
        }
        for topic, tiers in found.items()
    }


def passed_by(
    group: Mapping[int, Passed],
    reference: Mapping[int, Tally],
    log: Mapping[int, Sequence[Run]],
    unread: Mapping[int, str],
) -> AtTier:
    """One window at the tier: what of `reference` the log has below the group's offsets. All by partition.

    `log` is all that the log has of the producer, and `unread` says of which partitions that is not known, and why.
    """
    found = AtTier(Verdict.PASSED, expected=sum(tally.count for tally in reference.values()))
    for partition, tally in sorted(reference.items()):
        expected = covered(tally.runs)
        if not expected:
            continue
        here = group.get(partition, Passed(-1, f"nothing of partition {partition} has come here"))
        why = here.why or unread.get(partition, "")
        if why:
            found.unknown(why)
            continue
        runs = log.get(partition, ())
        behind = common(expected, covered(_below(runs, here.upto)))
        found.count += size(behind)
        left, there = without(expected, behind), covered(runs)
        if common(left, there):
            found.unknown(f"not here yet: the group has committed offset {here.upto} of partition {partition}")
        if without(left, there):
            found.unknown(f"what the log of partition {partition} does not have the group may have passed or not")
    return found


def _below(runs: Iterable[Run], offset: int) -> Iterator[Span]:
    """What certainly lies below an offset: of a run that reaches over it and has gaps, the least there can be."""
    for run in runs:
        count = run.size - max(0, run.last_offset - offset + 1)
        if count > 0 and run.first_offset >= 0:
            yield Span(run.epoch, run.first, run.first + count)
