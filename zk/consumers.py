"""The consumer and ownership registries of a group (P15): who is in it, and which consumer reads which partition.

    /consumers/G/ids/C         ephemeral  a member and its subscription
    /consumers/G/owners/T/P    ephemeral  the thread of a member that reads the partition: the znode is the mutex (P13)

Everything that a member writes carries, in the same transaction, a check of its own registration: that znode in the
version that this registration gave it. A session that has expired took the registration along, and the next one gives
it another version, so no late write of an earlier session is ever carried out in a later one.

Claims and releases are never repeated blindly: a deletion that was done, whose answer was lost, and that is done again
would delete the claim of whoever came next. They raise ZooKeeperUnreachable instead, and `held` tells what came of it.
"""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from kafka_classic.zk import paths
from kafka_classic.zk.errors import ConsumerIdTaken, GroupNotEmpty, SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.session import Session
from kafka_classic.zk.subscriptions import Subscription
from kafka_classic.zk.znodes import Check, Create, Delete, Operation, SetData, Znodes, failure

log = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

# One request of ZooKeeper is at most 1 MB; these are some 50 KB, and two names of 249 letters still fit.
CLAIMS_IN_A_TRANSACTION = 250
# A request of an earlier session can be late by one session, not by so many.
INCARNATIONS = 8
# An owner gives up all that it has to in one transaction, so to hear of a few of many is enough.
WATCHED_OWNERS = 16


class Registration(NamedTuple):
    """A member in one session; `version` tells it from the same member in the sessions before."""

    consumer: str
    path: str
    session_id: int
    version: int

    def check(self) -> Check:
        """The operation that makes a transaction fail when this registration is no longer there."""
        return Check(self.path, self.version)

    def replaced(self) -> SessionReplaced:
        return SessionReplaced(f"consumer {self.consumer} is no longer registered in session {self.session_id:#x}")


class GroupRegistry:
    """`/consumers/G/ids` and `/consumers/G/owners`; `operations` counts the requests spent on them."""

    def __init__(self, session: Session, group: str, *, nodes: Znodes | None = None) -> None:
        if not paths.can_be_a_name(group):
            raise ValueError(f"{group!r} cannot be a group's name")
        self.group = group
        self._session = session
        self._nodes = nodes or Znodes(session)
        self._known: dict[str, Subscription] = {}
        self._outdated: deque[str | None] = deque()  # what to read anew of the known: None is all of it
        self._changed: Callable[[], None] | None = None
        self._freed: Callable[[TopicPartition], None] | None = None
        self._incarnation = itertools.count()

    @property
    def operations(self) -> int:
        return self._nodes.operations

    # --- the consumer registry

    def register(self, consumer: str, subscription: Subscription) -> Registration:
        """Makes the consumer a member for as long as this session lives; may be repeated, for another subscription too.

        Raises ConsumerIdTaken while the znode of another session stands (of an earlier life of this consumer, perhaps:
        it is gone at the latest when that session expires).
        """
        path, data = paths.consumer_id(self.group, consumer), subscription.to_json()
        session_id = self._session_id()
        rise = [SetData(path, data)] * (next(self._incarnation) % INCARNATIONS)
        while True:
            results = self._transact([[Create(path, data, ephemeral=True), *rise]], session_id)[0]
            failed = failure(results)
            if failed is None:
                return Registration(consumer, path, session_id, len(rise))
            if isinstance(failed[1], NoNodeError):
                self._nodes.ensure(paths.consumer_ids(self.group))
                continue
            if not isinstance(failed[1], NodeExistsError):
                raise failed[1]
            node = self._nodes.get(path)
            if node is None:
                continue
            if node.owner != session_id:
                raise ConsumerIdTaken(
                    f"consumer id {consumer!r} of group {self.group!r} is taken by another session; choose another "
                    "consumer.id, or wait until that consumer's session has expired"
                )
            if node.data == data:
                return Registration(consumer, path, session_id, node.version)
            results = self._transact([[SetData(path, data, node.version)]], session_id)[0]
            if failure(results) is None:
                return Registration(consumer, path, session_id, node.version + 1)

    def unregister(self, registration: Registration) -> None:
        """Leaves the group. What is still owned stays so until the session ends: release it before."""
        self._transact([[Delete(registration.path, registration.version)]], registration.session_id)

    def members(self, changed: Callable[[], None] | None = None) -> dict[str, Subscription]:
        """Everybody who is registered; `changed()` is called once, on ZooKeeper's thread, when that is no longer so.

        While it is watched, what known members subscribe to is not read again: a death costs one read. It is also
        called when the connection goes, which takes all watches along.
        """
        if changed is None:
            return self._subscriptions(sorted(self._nodes.children(paths.consumer_ids(self.group)) or ()), None)
        self._changed = changed
        while self._outdated:
            name = self._outdated.popleft()
            if name is None:
                self._known.clear()
            else:
                self._known.pop(name, None)
        names = self._nodes.children(paths.consumer_ids(self.group), self._on_member)
        if names is None:
            self._nodes.ensure(paths.consumer_ids(self.group))
            names = self._nodes.children(paths.consumer_ids(self.group), self._on_member) or []
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        # The data is watched too: one that leaves and comes back between two looks is the same child.
        self._known |= self._subscriptions(sorted(set(names) - self._known.keys()), self._on_member)
        return dict(self._known)

    def delete(self) -> None:
        """Forgets the group and its offsets; raises GroupNotEmpty if it has members."""
        root, ids = paths.group(self.group), paths.consumer_ids(self.group)
        try:
            # First the one that cannot go while somebody is registered below it.
            self._nodes.delete(ids)
        except NotEmptyError:
            raise GroupNotEmpty(f"group {self.group!r} has members: stop them first") from None
        self._nodes.delete_many([path for path in self._nodes.subtree(root) if path != ids])

    def _subscriptions(self, names: Sequence[str], watch: Callable[[Any], None] | None) -> dict[str, Subscription]:
        nodes = self._nodes.get_many([paths.consumer_id(self.group, name) for name in names], watch)
        return {
            name: Subscription.from_node(name, node)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def _on_member(self, event: Any) -> None:
        # Only noted here: the reader's thread alone touches what is known.
        self._outdated.append(None if event.path is None else event.path.rpartition("/")[2])
        if self._changed is not None:
            self._changed()

    # --- the ownership registry

    def owners(self, topics: Iterable[str] | None = None) -> dict[TopicPartition, str]:
        """Which consumer thread owns each partition, of these topics or of all."""
        if topics is None:
            topics = self._nodes.children(paths.group_owners(self.group)) or ()
        names = sorted(topics)
        listed = self._nodes.children_many([paths.owners(self.group, topic) for topic in names])
        found = [
            (topic, partition)
            for topic, children in zip(names, listed, strict=True)
            for partition in sorted(int(child) for child in children or () if child.isdigit())
        ]
        nodes = self._nodes.get_many([self._owner(at) for at in found])
        return {at: node.data.decode() for at, node in zip(found, nodes, strict=True) if node is not None}

    def owned(self, topics: Iterable[str]) -> int:
        """How many partitions of these topics have an owner: one read a topic."""
        listed = self._nodes.children_many([paths.owners(self.group, topic) for topic in topics])
        return sum(len(names or ()) for names in listed)

    def held(self, registration: Registration, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Which of these are owned by this registration's session, and by which thread: what a lost answer said."""
        asked = sorted(partitions)
        nodes = self._nodes.get_many([self._owner(at) for at in asked])
        return {
            at: node.data.decode()
            for at, node in zip(asked, nodes, strict=True)
            if node is not None and node.owner == registration.session_id
        }

    def claim(self, registration: Registration, threads: Mapping[TopicPartition, str]) -> set[TopicPartition]:
        """Makes these threads of the member owners of those of the partitions that are free; returns which were.

        Raises SessionReplaced if the registration is gone (then nothing is owned), and ZooKeeperUnreachable if any of
        it may be done or not: ask `held`.
        """
        topics = sorted({topic for topic, _ in threads})
        at_topics = [paths.owners(self.group, topic) for topic in topics]
        listed = self._nodes.children_many(at_topics)
        if None in listed:
            self._nodes.ensure(*(path for path, names in zip(at_topics, listed, strict=True) if names is None))
        taken = {
            (topic, int(name))
            for topic, names in zip(topics, listed, strict=True)
            for name in names or ()
            if name.isdigit()
        }
        todo = [*_chunks(sorted(threads.keys() - taken))]
        won: set[TopicPartition] = set()
        while todo:
            creates = [[Create(self._owner(at), threads[at].encode(), ephemeral=True) for at in some] for some in todo]
            again = []
            for some, failed in zip(todo, self._guarded(registration, creates), strict=True):
                if failed is None:
                    won |= set(some)
                elif isinstance(failed[1], NodeExistsError):
                    # Somebody was quicker with this one; what comes before it in the chunk was free a moment ago.
                    again += [some[: failed[0]] + some[failed[0] + 1 :]]
                elif isinstance(failed[1], NoNodeError):
                    self._nodes.ensure(paths.owners(self.group, some[failed[0]][0]))
                    again += [some]
                else:
                    raise failed[1]
            todo = [some for some in again if some]
        return won

    def release(self, registration: Registration, partitions: Collection[TopicPartition]) -> None:
        """Gives up what this registration owns: only what is surely its own may be named here.

        Raises as `claim` does.
        """
        todo = [*_chunks(sorted(partitions))]
        while todo:
            deletes = [[Delete(self._owner(at)) for at in some] for some in todo]
            again = []
            for some, failed in zip(todo, self._guarded(registration, deletes), strict=True):
                if failed is not None and isinstance(failed[1], NoNodeError):
                    log.warning("group %s: the owner znode of %s was deleted by somebody else", self.group, some)
                    again += [some[: failed[0]] + some[failed[0] + 1 :]]
                elif failed is not None:
                    raise failed[1]
            todo = [some for some in again if some]

    def await_release(
        self, partitions: Collection[TopicPartition], freed: Callable[[TopicPartition], None]
    ) -> set[TopicPartition]:
        """`freed(partition)` is called once, on ZooKeeper's thread, when the owner of one of these has given it up.

        Of many only some are watched (an owner gives up what it has to in one transaction). Returns those of the
        watched that are free already: they are called for no more.
        """
        self._freed = freed
        some = _spread(sorted(partitions), WATCHED_OWNERS)
        nodes = self._nodes.get_many([self._owner(at) for at in some], self._on_owner)
        return {at for at, node in zip(some, nodes, strict=True) if node is None}

    def _on_owner(self, event: Any) -> None:
        if event.path is not None and self._freed is not None:
            _, topic, partition = event.path.rsplit("/", 2)
            self._freed((topic, int(partition)))

    def _owner(self, at: TopicPartition) -> str:
        return paths.owner(self.group, *at)

    # --- writing

    def _guarded(
        self, registration: Registration, transactions: Sequence[Sequence[Operation]]
    ) -> list[tuple[int, Exception] | None]:
        """What stood in the way of each transaction; raises SessionReplaced if it was the registration's end."""
        fence = registration.check()
        results = self._transact([[fence, *operations] for operations in transactions], registration.session_id)
        failures = [failure(result) for result in results]
        if any(failed is not None and failed[0] == 0 for failed in failures):
            raise registration.replaced()
        return [None if failed is None else (failed[0] - 1, failed[1]) for failed in failures]

    def _transact(self, transactions: Sequence[Sequence[Operation]], session_id: int) -> list[list[Any]]:
        results = self._nodes.transact_once(transactions, session_id)
        answered = [result for result in results if result is not None]
        if len(answered) < len(results):
            raise ZooKeeperUnreachable(f"group {self.group}: ZooKeeper's answer to a write was lost")
        return answered

    def _session_id(self) -> int:
        session_id = self._session.session_id
        if session_id is None:
            raise ZooKeeperUnreachable(f"the connection to ZooKeeper at {self._session.hosts} is away")
        return session_id


def _chunks(partitions: Sequence[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(partitions), CLAIMS_IN_A_TRANSACTION):
        yield list(partitions[start : start + CLAIMS_IN_A_TRANSACTION])


def _spread(partitions: Sequence[TopicPartition], count: int) -> list[TopicPartition]:
    """At most so many of them, evenly from the first to the last."""
    if len(partitions) <= count:
        return list(partitions)
    return [partitions[at * (len(partitions) - 1) // (count - 1)] for at in range(count)]
