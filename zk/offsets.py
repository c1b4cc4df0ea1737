"""The offset registry of a group (P15): how far it has read each partition; it outlives every consumer.

    /consumers/G/offsets/T/P    the offset to go on from, in plain decimal text

Offsets of many partitions are committed in one transaction. With a fence, each commit carries a check of the committing
member's registration: one whose session has expired cannot put back what its successor has committed since.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kazoo.exceptions import NodeExistsError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.consumers import Registration, TopicPartition
from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Create, Node, Operation, SetData, Znodes, failure

log = logging.getLogger(__name__)

COMMITS_IN_A_TRANSACTION = 250


class OffsetRegistry:
    """`/consumers/G/offsets` of every group; `operations` counts the requests spent on them.

    `fence()`, if given, returns the registration under which this consumer commits. It is asked when
    `commit` is called: positions are to be taken and committed under one lock, which forgetting them after an expiry
    takes too.
    """

    def __init__(
        self,
        session: Session,
        *,
        fence: Callable[[], Registration | None] | None = None,
        nodes: Znodes | None = None,
    ) -> None:
        self._nodes = nodes or Znodes(session)
        self._fence = fence
        self._there: set[str] = set()  # znodes that were there when last seen, so that a commit need not look

    @property
    def operations(self) -> int:
        return self._nodes.operations

    def fetch(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets, of those partitions that have one."""
        asked = sorted(partitions)
        nodes = self._look([paths.offset(group, *at) for at in asked])
        found = {}
        for at, node in zip(asked, nodes, strict=True):
            offset = None if node is None else _offset(node)
            if offset is not None:
                found[at] = offset
            elif node is not None:
                log.error("group %s: the offset of %s is not a number: %r", group, at, node.data)
        return found

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes these offsets, all of a chunk of 250 or none. Repeating it is harmless.

        Raises SessionReplaced if the fence's registration is gone: nothing is written then, and nothing may be.
        """
        if not paths.can_be_a_name(group):
            raise ValueError(f"{group!r} cannot be a group's name")
        registration = None
        if self._fence is not None:
            registration = self._fence()
            if registration is None:
                raise SessionReplaced(f"group {group}: not registered, so no offset is committed")
        written = {paths.offset(group, *at): str(offsets[at]).encode() for at in sorted(offsets)}
        todo = [*_chunks([*written])]
        while todo:
            unseen = [path for some in todo for path in some if path not in self._there]
            self._look(unseen)
            transactions = [[self._write(path, written[path]) for path in some] for some in todo]
            failures = self._transact(transactions, registration)
            again = [some for some, failed in zip(todo, failures, strict=True) if failed is not None]
            for some, failed in zip(todo, failures, strict=True):
                if failed is None:
                    self._there.update(some)
                elif isinstance(failed, NoNodeError):
                    self._nodes.ensure(*{path.rpartition("/")[0] for path in some})
                elif not isinstance(failed, NodeExistsError):
                    raise failed
                if failed is not None:
                    self._there.difference_update(some)  # look again: somebody created or deleted one of them
            todo = again

    def all(self, group: str) -> dict[TopicPartition, int]:
        """All committed offsets of the group."""
        topics = sorted(self._nodes.children(paths.group_offsets(group)) or ())
        listed = self._nodes.children_many([paths.offsets(group, topic) for topic in topics])
        return self.fetch(
            group,
            [
                (topic, int(name))
                for topic, names in zip(topics, listed, strict=True)
                for name in names or ()
                if name.isdigit()
            ],
        )

    def delete(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Forgets the offsets of these partitions: the group begins there as a new one does (P19)."""
        doomed = [paths.offset(group, *at) for at in sorted(partitions)]
        self._there.difference_update(doomed)
        self._nodes.delete_many(doomed)

    def groups(self) -> list[str]:
        """The names of all groups that ever registered or committed here."""
        return sorted(self._nodes.children(paths.CONSUMERS) or ())

    def _look(self, wanted: Sequence[str]) -> Sequence[Node | None]:
        nodes = self._nodes.get_many(wanted)
        for path, node in zip(wanted, nodes, strict=True):
            if node is None:
                self._there.discard(path)
            else:
                self._there.add(path)
        return nodes

    def _write(self, path: str, data: bytes) -> Operation:
        return SetData(path, data) if path in self._there else Create(path, data)

    def _transact(
        self, transactions: Sequence[Sequence[Operation]], registration: Registration | None
    ) -> Sequence[Exception | None]:
        if registration is None:
            failures = [failure(results) for results in self._nodes.transact_many(transactions)]
            return [None if failed is None else failed[1] for failed in failures]
        guarded = [[registration.check(), *operations] for operations in transactions]
        answers = self._nodes.transact_once(guarded, registration.session_id)
        if None in answers:
            raise ZooKeeperUnreachable("ZooKeeper's answer to a commit was lost")
        failures = [failure(results or ()) for results in answers]
        if any(failed is not None and failed[0] == 0 for failed in failures):
            raise registration.replaced()
        return [None if failed is None else failed[1] for failed in failures]


def _offset(node: Node) -> int | None:
    try:
        return int(node.data)
    except ValueError:
        return None


def _chunks(written: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(written), COMMITS_IN_A_TRANSACTION):
        yield written[start : start + COMMITS_IN_A_TRANSACTION]
