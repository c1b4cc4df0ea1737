"""A ZooKeeper in memory under the real registries: every request and every answer can be late, lost, or too late.

A client's request is done, in one go, between two pauses: before the first it may find that the connection has gone, or
that it is the next session's (the worst that can happen to a thread that was not scheduled for a while); before the
second its answer may be lost. Watches fire once, are gone with the connection, and what they tell waits in a queue of
the client, to be delivered in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from kafka_classic.zk.errors import SessionReplaced, ZooKeeperUnreachable
from kafka_classic.zk.znodes import Check, Create, Delete, Node, Operation, SetData
from tests.replication.simulation import Violation


class Event(NamedTuple):
    path: str | None


@dataclass(eq=False)
class Watch:
    client: Client
    tell: Callable[[Any], None]
    heard: bool = False  # the answer that it came with has arrived: only then does the client know of it


class Server:
    """The znodes, the sessions and the watches."""

    def __init__(self, *, fences: bool = True) -> None:
        self.fences = fences  # whether checks in transactions count
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0, 0, 0, 0, 0)}
        self.children: dict[str, set[str]] = {"/": set()}
        self.sessions: set[int] = set()
        self.last_session = 0
        self.data_watches: dict[str, dict[tuple[int, Any], Watch]] = {}
        self.child_watches: dict[str, dict[tuple[int, Any], Watch]] = {}

    def open(self) -> int:
        self.last_session += 1
        self.sessions.add(self.last_session)
        return self.last_session

    def end(self, session: int) -> None:
        """The session is over: its ephemeral znodes go with it."""
        self.sessions.discard(session)
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self._delete(path)
            self._fire(path)

    def transact(self, operations: Sequence[Operation], session: int) -> list[Any]:
        saved = dict(self.nodes), {path: set(names) for path, names in self.children.items()}
        for at, operation in enumerate(operations):
            try:
                self._do(operation, session)
            except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError) as error:
                self.nodes, self.children = saved
                left = len(operations) - at - 1
                return [RolledBackError()] * at + [error] + [RuntimeInconsistency()] * left
        for operation in operations:
            if not isinstance(operation, Check):
                self._fire(operation.path)
        return [True] * len(operations)

    def _do(self, operation: Operation, session: int) -> None:
        path = operation.path
        node = self.nodes.get(path)
        if isinstance(operation, Create):
            if node is not None:
                raise NodeExistsError
            self._create(path, operation.data, session if operation.ephemeral else 0)
            return
        if isinstance(operation, Check) and not self.fences:
            return
        if node is None:
            raise NoNodeError
        if operation.version not in (-1, node.version):
            raise BadVersionError
        if isinstance(operation, Delete):
            if self.children[path]:
                raise NotEmptyError
            self._delete(path)
        elif isinstance(operation, SetData):
            if "/offsets/" in path and int(operation.data) < int(node.data):
                raise Violation(f"{path} goes back from {int(node.data)} to {int(operation.data)}")
            self.nodes[path] = node._replace(data=operation.data, version=node.version + 1)

    def _create(self, path: str, data: bytes, owner: int) -> None:
        parent, _, name = path.rpartition("/")
        if (parent or "/") not in self.nodes:
            raise NoNodeError
        self.children[parent or "/"].add(name)
        self.nodes[path] = Node(data, 0, 0, owner, 0, 0, 0, 0)
        self.children[path] = set()

    def _delete(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        del self.nodes[path], self.children[path]
        self.children[parent or "/"].discard(name)

    def ensure(self, paths: Iterable[str]) -> None:
        for path in paths:
            parts = path.split("/")
            for depth in range(2, len(parts) + 1):
                at = "/".join(parts[:depth])
                if at not in self.nodes:
                    self._create(at, b"", 0)
                    self._fire(at)

    def _fire(self, path: str) -> None:
        for watches, at in ((self.data_watches, path), (self.child_watches, path.rpartition("/")[0])):
            for watch in watches.pop(at, {}).values():
                watch.client.queue.append((watch, Event(at)))

    def forget(self, client: Client) -> list[Watch]:
        """The connection is gone, and with it all watches of it."""
        gone = []
        for watches in (self.data_watches, self.child_watches):
            for there in watches.values():
                keys = [key for key, watch in there.items() if watch.client is client]
                gone += [there.pop(key) for key in keys]
        return gone


class Client:
    """A session as its client knows it. Stands for the Session and, by `nodes`, for the Znodes of the product."""

    hosts = "memory"

    def __init__(self, server: Server, pause: Callable[[], None]) -> None:
        self.server = server
        self.pause = pause
        self.session = server.open()
        self.connection: int | None = 1
        self.connections = 1
        self.stumbles = False
        self.queue: list[tuple[Watch, Event]] = []
        self.nodes = FakeZnodes(self)

    @property
    def session_id(self) -> int | None:
        return None if self.connection is None else self.session

    def disconnect(self) -> None:
        self.connection = None
        self.queue.clear()
        self.queue += [(watch, Event(None)) for watch in self.server.forget(self) if watch.heard]

    def reconnect(self) -> bool:
        """True in the same session, False in a new one."""
        same = self.session in self.server.sessions
        if not same:
            self.session = self.server.open()
        self.connections += 1
        self.connection = self.connections
        return same

    def stumble(self) -> None:
        if self.stumbles:
            self.stumbles = False
            raise ZooKeeperUnreachable("the answer is too late")

    def deliver(self, number: int) -> None:
        ready = [at for at, (watch, _) in enumerate(self.queue) if watch.heard]
        if ready:
            watch, event = self.queue.pop(ready[number % len(ready)])
            watch.tell(event)


class FakeZnodes:
    """What GroupRegistry and OffsetRegistry use of Znodes."""

    def __init__(self, client: Client) -> None:
        self.operations = 0
        self._client = client

    def get(self, path: str, watch: Any = None) -> Node | None:
        return self.get_many([path], watch)[0]

    def get_many(self, paths: Sequence[str], watch: Any = None) -> list[Node | None]:
        if not paths:
            return []
        return self._read(len(paths), lambda: [self._server.nodes.get(path) for path in paths], paths, watch)

    def children(self, path: str, watch: Any = None) -> list[str] | None:
        def look() -> list[list[str] | None]:
            names = self._server.children.get(path)
            return [None if names is None else sorted(names)]

        found: list[str] | None = self._read(1, look, [path], watch, children=True)[0]
        return found

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return [self.children(path) for path in paths]

    def ensure(self, *paths: str) -> None:
        def create() -> list[None]:
            self._server.ensure(paths)
            return []

        self._read(len(paths), create, [], None)

    def transact_once(self, transactions: Iterable[Iterable[Operation]], session_id: int) -> list[list[Any] | None]:
        client = self._client
        todo = [list(operations) for operations in transactions]
        if client.session_id is None:
            raise ZooKeeperUnreachable("away")
        if client.session_id != session_id:
            raise SessionReplaced("replaced")
        self.operations += len(todo)
        client.pause()
        connection = client.connection
        if connection is None:
            return [None] * len(todo)
        results = [self._server.transact(operations, client.session) for operations in todo]
        client.pause()
        client.stumble()
        return [*results] if client.connection == connection else [None] * len(todo)

    @property
    def _server(self) -> Server:
        return self._client.server

    def _read(
        self, cost: int, look: Callable[[], list[Any]], paths: Sequence[str], tell: Any, *, children: bool = False
    ) -> list[Any]:
        """A call that is tried again through short losses of the connection, in a new session too."""
        client = self._client
        self.operations += cost
        while True:
            client.pause()
            connection = client.connection
            if connection is None:
                raise ZooKeeperUnreachable("no answer")
            found = look()
            watches = []
            if tell is not None:
                kept = self._server.child_watches if children else self._server.data_watches
                for path, there in zip(paths, found, strict=True):
                    if there is not None:
                        watch = kept.setdefault(path, {}).setdefault((id(client), tell), Watch(client, tell))
                        watches.append(watch)
            client.pause()
            client.stumble()
            if client.connection == connection:
                for watch in watches:
                    watch.heard = True
                return found
