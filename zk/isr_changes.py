"""Notices of leaders to the controller: the in-sync replicas of these partitions changed, read their states again."""

import json
from collections.abc import Callable, Iterable, Sequence

from kazoo.exceptions import NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Create, Znodes


class IsrChanges:
    """`/isr_change_notification`: leaders add notices, the controller reads and deletes them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = Znodes(session)

    def tell(self, partitions: Iterable[tuple[str, int]]) -> None:
        """A leader wrote these states; one notice for many of them."""
        value = {"version": 1, "partitions": [{"topic": topic, "partition": number} for topic, number in partitions]}
        notice = Create(f"{paths.ISR_CHANGES}/{paths.ISR_CHANGE_PREFIX}", json.dumps(value).encode(), sequence=True)
        while True:
            try:
                self._nodes.transact([notice])
                return
            except NoNodeError:
                self._nodes.ensure(paths.ISR_CHANGES)

    def read(self) -> dict[str, list[tuple[str, int]]]:
        """The partitions that each notice names."""
        names = sorted(self._nodes.children(paths.ISR_CHANGES) or ())
        nodes = self._nodes.get_many([f"{paths.ISR_CHANGES}/{name}" for name in names])
        return {
            name: [(row["topic"], row["partition"]) for row in json.loads(node.data or b"{}").get("partitions", ())]
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def delete(self, names: Sequence[str]) -> None:
        self._nodes.delete_many([f"{paths.ISR_CHANGES}/{name}" for name in names])

    def watch(self, tell: Callable[[], None], *, wait: bool = True) -> Watching:
        """`tell()` is called whenever there are notices: read them, act, delete them."""

        def read_and_tell(changed: Changed) -> None:
            names = self._nodes.children(paths.ISR_CHANGES, watching.fired)
            if names is None:
                self._nodes.ensure(paths.ISR_CHANGES)
                names = self._nodes.children(paths.ISR_CHANGES, watching.fired)
            if names:
                watching.tell(tell)

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)
