"""What a consumer holds: partitions whose owner znode is its own (the claim), and of these what its hands read.

The order is strict. A znode is created before reading starts, and deleted only after reading has stopped and the offset
is committed: so the znode is a mutex, and no two consumers of a group read one partition (P13).

    free -- claim --> owned -- start --> read -- stop, commit --> owned -- release --> free
                claim or release whose answer was lost: doubtful -- look_up --> owned, or free

Every step may fail at any point. What was begun is noted before, so that it is looked up, or stopped, first of all.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafka_classic.consumer.assign import thread_of
from kafka_classic.zk.consumers import Registration, TopicPartition
from kafka_classic.zk.subscriptions import Subscription


class Group(Protocol):
    """The registries of the group: kafka_classic.zk.consumers.GroupRegistry."""

    @property
    def operations(self) -> int: ...
    def register(self, consumer: str, subscription: Subscription) -> Registration: ...
    def unregister(self, registration: Registration) -> None: ...
    def members(self, changed: Callable[[], None]) -> dict[str, Subscription]: ...
    def held(self, registration: Registration, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]: ...
    def claim(self, registration: Registration, threads: Mapping[TopicPartition, str]) -> set[TopicPartition]: ...
    def release(self, registration: Registration, partitions: Collection[TopicPartition]) -> None: ...
    def await_release(
        self, partitions: Collection[TopicPartition], freed: Callable[[TopicPartition], None]
    ) -> set[TopicPartition]: ...


class Hands(Protocol):
    """What reads the partitions and hands their messages out. Called by the rebalancer's worker alone."""

    def start(self, claims: Mapping[TopicPartition, int]) -> None:
        """Read these, each for the stream of that number, from its committed offset on.

        If it raises, it is called again, or `stop` is: some may have been started.
        """

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more of these from now on, then commit their offsets. What is not being read is none of them.

        If it raises, it is called again, or `start` is, should the plan have given them back meanwhile.
        """

    def drop(self) -> None:
        """The session expired: forget all partitions at once, commit nothing."""


class Holdings:
    """The partitions of one consumer; its worker alone changes them."""

    def __init__(self, group: Group, hands: Hands) -> None:
        self._group = group
        self._hands = hands
        self.owned: dict[TopicPartition, str] = {}  # by which thread: the znode stands, and is this session's
        self.doubtful: set[TopicPartition] = set()  # it may be
        self.reading: frozenset[TopicPartition] = frozenset()  # the hands were told, and said yes
        self._touched: set[TopicPartition] = set()  # the hands were told: never released without stopping
        self._announced: set[TopicPartition] = set()  # the application was told, or is about to be
        self.released: set[TopicPartition] = set()  # no longer read, and read since: until somebody takes note
        self.acquired: set[TopicPartition] = set()

    def look_up(self, registration: Registration) -> None:
        """Find out what became of the writes whose answers were lost."""
        if self.doubtful:
            self.owned |= self._group.held(registration, self.doubtful)
            self.doubtful.clear()

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading, and commit."""
        touched = self._touched.intersection(partitions)
        if touched:
            self._withdraw(touched)
            self.reading -= touched
            self._hands.stop(touched)
            self._touched -= touched

    def release(self, registration: Registration, partitions: Collection[TopicPartition]) -> None:
        self.doubtful.update(partitions)
        for at in partitions:
            del self.owned[at]
        self._group.release(registration, partitions)
        self.doubtful.difference_update(partitions)

    def claim(self, registration: Registration, threads: Mapping[TopicPartition, str]) -> None:
        """Claim those of these that are free."""
        if threads:
            self.doubtful.update(threads)
            won = self._group.claim(registration, threads)
            self.owned |= {at: threads[at] for at in won}
            self.doubtful.difference_update(threads)

    def announce(self) -> None:
        """Take note of what `start` is about to begin: whoever is told hears of it before the first message."""
        self.acquired |= self.owned.keys() - self._announced
        self._announced |= self.owned.keys()

    def start(self) -> None:
        """Read all that is owned."""
        starting = {at: thread_of(thread)[1] for at, thread in self.owned.items() if at not in self.reading}
        if starting:
            self._touched |= starting.keys()
            self._hands.start(starting)
            self.reading |= starting.keys()

    def forget(self) -> None:
        """The session expired: nothing is owned any more, and nothing may be committed."""
        self._hands.drop()
        self._withdraw(self._announced)
        self.reading = frozenset()
        self._touched.clear()
        # Should the expiry be noticed twice, some of this is owned again, in the session after it.
        self.doubtful |= self.owned.keys()
        self.owned.clear()

    def _withdraw(self, partitions: Collection[TopicPartition]) -> None:
        """Once for each time that it was announced, however often a stop must be tried again."""
        self.released |= self._announced.intersection(partitions)
        self._announced.difference_update([*partitions])

    def moved(self) -> tuple[frozenset[TopicPartition], frozenset[TopicPartition]]:
        """What was released and acquired since this was last asked."""
        released, self.released = frozenset(self.released), set()
        acquired, self.acquired = frozenset(self.acquired), set()
        return released, acquired
