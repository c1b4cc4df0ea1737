"""Algorithm 1 of the paper (P17): which consumer thread of a group reads which partition. Pure, and the same for all.

Every consumer computes the whole plan from the registries alone, so consumers who see the same registries agree
without a word to each other. Threads are sorted by name, as Kafka 0.8 does: `c-10` comes before `c-2`.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kafka_classic.zk.consumers import TopicPartition
from kafka_classic.zk.subscriptions import Subscription

log = logging.getLogger(__name__)

# Never matched by a pattern, as Kafka's exclude.internal.topics has it; subscribing to one by name is possible.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


def consumer_id(group: str, host: str, milliseconds: int, unique: int) -> str:
    """A consumer's name as Kafka 0.8 makes it; `unique` is a random number of 32 bits or more."""
    return f"{group}_{host}-{milliseconds}-{unique & 0xFFFFFFFF:08x}"


def thread_id(consumer: str, number: int) -> str:
    return f"{consumer}-{number}"


def thread_of(thread: str) -> tuple[str, int]:
    """The consumer that a thread belongs to, and its number there."""
    consumer, _, number = thread.rpartition("-")
    return consumer, int(number)


def assign(partitions: Sequence[int], consumers: Sequence[str]) -> dict[str, list[int]]:
    """Consecutive ranges of the sorted partitions for the sorted consumers; the first get one more of what is left."""
    ordered = sorted(partitions)
    names = sorted(consumers)
    if not names:
        return {}
    size, extra = divmod(len(ordered), len(names))
    assigned = {}
    start = 0
    for position, name in enumerate(names):
        end = start + size + (position < extra)
        assigned[name] = ordered[start:end]
        start = end
    return assigned


def subscribed(subscription: Subscription, topics: Iterable[str]) -> dict[str, int]:
    """Which of these topics a consumer wants, and in how many streams each."""
    if subscription.pattern == "static":
        return {topic: count for topic, count in subscription.streams.items() if count > 0 and topic in topics}
    wanted: dict[str, int] = {}
    for expression, count in subscription.streams.items():
        pattern = _compiled(expression)
        if pattern is None or count <= 0:
            continue
        for topic in topics:
            matches = pattern.fullmatch(topic) is not None
            if matches is (subscription.pattern == "white_list") and topic not in INTERNAL_TOPICS:
                wanted[topic] = count
    return wanted


def plan(topics: Mapping[str, Sequence[int]], members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """The thread that reads each partition, of every topic that anybody wants."""
    threads: dict[str, list[str]] = {}
    for consumer, subscription in members.items():
        for topic, count in subscribed(subscription, topics).items():
            threads.setdefault(topic, []).extend(thread_id(consumer, number) for number in range(count))
    return {
        (topic, partition): thread
        for topic in sorted(threads)
        for thread, partitions in assign(topics[topic], threads[topic]).items()
        for partition in partitions
    }


@lru_cache(maxsize=256)
def _compiled(expression: str) -> re.Pattern[str] | None:
    try:
        # As Kafka reads it: a comma between alternatives is as good as a bar.
        return re.compile(expression.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error as error:
        log.warning("the pattern %r of a consumer is no regular expression and matches nothing: %s", expression, error)
        return None
