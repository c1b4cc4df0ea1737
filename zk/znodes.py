"""Reads and writes znodes through a session, typed, many at a time where that is quicker."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.session import TRANSIENT, Session

# kazoo wakes its loop through a socket pair that holds a few hundred bytes: more requests in flight than that and
# asking itself blocks.
IN_FLIGHT = 128

Watcher = Callable[[Any], None]


class Node(NamedTuple):
    data: bytes
    version: int
    epoch: int  # czxid: the transaction that created it, larger for every later creation
    owner: int  # the session of an ephemeral znode, 0 of a persistent one
    created_ms: int
    modified_ms: int
    modified: int  # mzxid: the transaction that wrote it last
    children_created: int  # how many children were ever created under it: the next sequential one's number


class Create(NamedTuple):
    path: str
    data: bytes = b""
    sequence: bool = False
    ephemeral: bool = False


class Delete(NamedTuple):
    path: str
    version: int = -1


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int = -1


class Check(NamedTuple):
    """The znode is there in this version: what stands beside it in a transaction is done only then."""

    path: str
    version: int


Operation = Create | Delete | SetData | Check


class Znodes:
    """The znode operations of a session; each bears short losses of the connection (see Session.call)."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.operations = 0  # requests asked for so far; a transaction is one
        self._client = session.client

    def get(self, path: str, watch: Watcher | None = None) -> Node | None:
        """The znode, None if there is none; then no watch is left either."""
        try:
            return _node(*self._call(self._client.get_async, path, watch))
        except NoNodeError:
            return None

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[Node | None]:
        """The znodes in the order asked for, None for each that is not there, with many requests in flight."""
        return [None if found is None else _node(*found) for found in self._many(self._client.get_async, paths, watch)]

    def exists(self, path: str, watch: Watcher | None = None) -> bool:
        return self._call(self._client.exists_async, path, watch) is not None

    def children(self, path: str, watch: Watcher | None = None) -> list[str] | None:
        """The names of the children, None if the znode itself is not there."""
        found = self.children_and_node(path, watch)
        return None if found is None else found[0]

    def children_and_node(self, path: str, watch: Watcher | None = None) -> tuple[list[str], Node] | None:
        """The children with the state of their parent at that very moment (its data is not read)."""
        try:
            names, stat = self._call(self._client.get_children_async, path, watch, include_data=True)
        except NoNodeError:
            return None
        return names, _node(b"", stat)

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return list(self._many(self._client.get_children_async, paths, None))

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Creates the znode and its parents; False if it was there (or a lost answer's first try created it)."""
        while True:
            try:
                self._call(self._client.create_async, path, data, ephemeral=ephemeral)
                return True
            except NodeExistsError:
                return False
            except NoNodeError:
                self.ensure(path.rpartition("/")[0])

    def ensure(self, *paths: str) -> None:
        """Creates the persistent znodes that are not there, parents first."""
        levels = {path[: end if end > 0 else None] for path in paths for end in _ends(path)}
        for depth in sorted({path.count("/") for path in levels}):
            wanted = sorted(path for path in levels if path.count("/") == depth)
            self._many(self._client.create_async, wanted, b"")

    def create_many(self, nodes: Mapping[str, bytes]) -> None:
        """Creates those that are not there; their parents must be. Many requests in flight."""
        self._many(lambda path: self._client.create_async(path, nodes[path]), [*nodes])

    def set(self, path: str, data: bytes, version: int = -1) -> Node:
        """Writes and returns the new state; raises kazoo's BadVersionError and NoNodeError."""
        return _node(data, self._call(self._client.set_async, path, data, version))

    def delete(self, path: str, version: int = -1) -> bool:
        """False if there was none."""
        try:
            self._call(self._client.delete_async, path, version)
        except NoNodeError:
            return False
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        """Deletes those that are there, many requests in flight."""
        self._many(self._client.delete_async, paths)

    def subtree(self, path: str) -> list[str]:
        """The znode and all below it, children before their parents; empty if it is not there."""
        found: list[str] = []
        level = [path]
        while level:
            listed = list(zip(level, self.children_many(level), strict=True))
            found += [at for at, children in listed if children is not None]
            level = [f"{at}/{name}" for at, children in listed for name in children or ()]
        return found[::-1]

    def transact(self, operations: Iterable[Operation]) -> list[Any]:
        """All of the operations or none; raises what stood in the way of the first that could not be done."""

        results = self.transact_many([operations])[0]
        failed = failure(results)
        if failed is not None:
            raise failed[1]
        return results

    def transact_many(self, transactions: Iterable[Iterable[Operation]]) -> list[list[Any]]:
        """The results of each transaction, in order, many in flight; `failure` finds what stood in the way of one."""
        todo = [list(operations) for operations in transactions]
        return self._many(lambda number: self._begin(todo[number]), range(len(todo)))

    def transact_once(self, transactions: Iterable[Iterable[Operation]], session_id: int) -> list[list[Any] | None]:
        """As transact_many, in this session or not at all, and never tried again: None is a lost answer, done or not.

        What deletes somebody's znode when it is done a second time must go this way.
        """
        todo = [list(operations) for operations in transactions]
        done: list[list[Any] | None] = []
        for start in range(0, len(todo), IN_FLIGHT):
            now = self.session.session_id
            if now is None:
                raise ZooKeeperUnreachable(f"the connection to ZooKeeper at {self.session.hosts} is away")
            if now != session_id:
                raise SessionReplaced(f"session {session_id:#x} with ZooKeeper at {self.session.hosts} has expired")
            some = todo[start : start + IN_FLIGHT]
            self.operations += len(some)
            deadline = time.monotonic() + self.session.timeout_s
            asked = [self._begin(operations) for operations in some]
            self.session.await_results(asked, deadline)
            for result in asked:
                try:
                    done.append(result.get_nowait())
                except TRANSIENT:
                    done.append(None)
        return done

    def _begin(self, operations: Sequence[Operation]) -> Any:
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, sequence, ephemeral):
                    transaction.create(path, data, ephemeral=ephemeral, sequence=sequence)
                case Delete(path, version):
                    transaction.delete(path, version)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    def _call(self, begin: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.operations += 1
        return self.session.call(begin, *args, **named)

    def _many(self, begin: Callable[..., Any], paths: Sequence[Any], *args: Any) -> list[Any]:
        """One result a path; None where the znode is not there, or (of a create) was there already."""
        done: list[Any] = []
        for start in range(0, len(paths), IN_FLIGHT):
            some = paths[start : start + IN_FLIGHT]
            self.operations += len(some)
            deadline = time.monotonic() + self.session.timeout_s
            asked = [begin(path, *args) for path in some]
            self.session.await_results(asked, deadline)
            for path, result in zip(some, asked, strict=True):
                try:
                    done.append(result.get_nowait())
                except (NoNodeError, NodeExistsError):
                    done.append(None)
                except TRANSIENT:
                    try:
                        done.append(self.session.call(begin, path, *args))
                    except (NoNodeError, NodeExistsError):
                        done.append(None)
        return done


def failure(results: Sequence[Any]) -> tuple[int, Exception] | None:
    """Which operation of a transaction could not be done, and why; None if all were."""
    for at, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return at, result
    return None


def _ends(path: str) -> list[int]:
    return [at for at in range(1, len(path) + 1) if at == len(path) or path[at] == "/"]


def _node(data: bytes, stat: Any) -> Node:
    return Node(
        data=data,
        version=stat.version,
        epoch=stat.czxid,
        owner=stat.ephemeralOwner,
        created_ms=stat.ctime,
        modified_ms=stat.mtime,
        modified=stat.mzxid,
        # ZooKeeper shows cversion as creations plus deletions, which is twice the creations less those that are left.
        children_created=(stat.cversion + stat.numChildren) // 2,
    )
