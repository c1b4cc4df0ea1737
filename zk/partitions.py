"""The state of a partition: who leads it, since which epoch, and which replicas are in sync (P23 and after)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.controller import Mandate, fenced
from kafka_classic.zk.errors import UnknownTopic, VersionConflict
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Create, Node, Operation, SetData, Znodes, failure

NO_LEADER = -1
# States in one transaction: a request is at most 1 MB (jute.maxbuffer), and a path may take 300 bytes.
AT_ONCE = 300

At = tuple[str, int]  # a topic and the number of one of its partitions


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/T/partitions/P/state`; `zk_version` is that of the znode it was read from.

    `written` is the transaction that wrote what was read. It compares with a broker's epoch: one that registered later
    is named in it for what it was in an earlier life.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = 0
    written: int = field(default=0, compare=False)

    def to_json(self) -> bytes:
        # As json.dumps would, at a tenth of the price: a failover writes thousands.
        return (
            f'{{"controller_epoch": {self.controller_epoch}, "leader": {self.leader}, "version": 1, '
            f'"leader_epoch": {self.leader_epoch}, "isr": {[*self.isr]}}}'
        ).encode()

    @classmethod
    def from_node(cls, node: Node) -> "PartitionState":
        value = json.loads(node.data)
        return cls(
            leader=value["leader"],
            leader_epoch=value["leader_epoch"],
            isr=tuple(value["isr"]),
            controller_epoch=value["controller_epoch"],
            zk_version=node.version,
            written=node.modified,
        )


class PartitionStates:
    """Reads and writes the states; every write over an old state compares its version."""

    def __init__(self, session: Session) -> None:
        self._nodes = Znodes(session)

    def read(self, topic: str, partition: int) -> PartitionState | None:
        node = self._nodes.get(paths.partition_state(topic, partition))
        return None if node is None else PartitionState.from_node(node)

    def read_many(self, partitions: Sequence[At]) -> dict[At, PartitionState]:
        """Those that have a state, many requests in flight."""
        nodes = self._nodes.get_many([paths.partition_state(topic, number) for topic, number in partitions])
        return {at: PartitionState.from_node(node) for at, node in zip(partitions, nodes, strict=True) if node}

    def create(self, topic: str, partition: int, state: PartitionState) -> PartitionState:
        """The first state of a partition; VersionConflict if it has one, UnknownTopic if the topic is gone."""
        # Checked first: making the parents must not bring a deleted topic's znode back.
        if not self._nodes.exists(paths.topic(topic)):
            raise UnknownTopic(f"there is no topic {topic!r}")
        path = paths.partition_state(topic, partition)
        if not self._nodes.create(path, state.to_json()):
            node = self._nodes.get(path)
            if node is None or node.data != state.to_json() or node.version != 0:
                raise VersionConflict(f"{topic}-{partition} has a state already: read it again")
        return replace(state, zk_version=0)

    def create_many(
        self, states: Mapping[At, PartitionState], mandate: Mandate | None = None
    ) -> dict[At, PartitionState]:
        """First states for many partitions; returns those that were created or stood so already.

        With a mandate it raises ControllerFenced if another controller was elected since. A deleted topic's znode
        never comes back: it must be there for a state to be made below it.
        """
        created: dict[At, PartitionState] = {}
        doubtful: dict[At, PartitionState] = {}
        pieces = [dict(piece) for piece in _pieces(states)]
        for piece, results in zip(pieces, self._create(pieces, mandate), strict=True):
            (doubtful if _failed(results, mandate) else created).update(piece)
        alone = [{at: state} for at, state in doubtful.items()]
        for at, results in zip(doubtful, self._create(alone, mandate), strict=True):
            if not _failed(results, mandate):
                created[at] = doubtful[at]
        there = self.read_many([at for at in doubtful if at not in created])
        created |= {at: state for at, state in there.items() if state == replace(doubtful[at], zk_version=0)}
        return {at: replace(created[at], zk_version=0) for at in states if at in created}

    def _create(self, pieces: Sequence[Mapping[At, PartitionState]], mandate: Mandate | None) -> list[list[Any]]:
        topics = sorted({topic for piece in pieces for topic, _ in piece})
        below = self._nodes.children_many([paths.partitions(topic) for topic in topics])
        there = {topic: None if names is None else {*names} for topic, names in zip(topics, below, strict=True)}
        transactions = []
        for piece in pieces:
            operations: list[Operation] = [mandate.check()] if mandate else []
            for (topic, number), state in piece.items():
                made = there[topic]
                if made is None:
                    operations.append(Create(paths.partitions(topic)))
                    made = there[topic] = set()
                if str(number) not in made:
                    operations.append(Create(paths.partition(topic, number)))
                operations.append(Create(paths.partition_state(topic, number), state.to_json()))
            transactions.append(operations)
        return self._nodes.transact_many(transactions)

    def write_many(self, states: Mapping[At, PartitionState], mandate: Mandate) -> "Written":
        """Writes over the states of their versions, as the controller of this mandate; raises ControllerFenced.

        Hundreds are one transaction. Where one of them was changed meanwhile, each of its transaction is tried alone.
        """
        written: dict[At, PartitionState] = {}
        doubtful: dict[At, PartitionState] = {}
        pieces = [dict(piece) for piece in _pieces(states)]
        for piece, results in zip(pieces, self._write(pieces, mandate), strict=True):
            (doubtful if _failed(results, mandate) else written).update(piece)
        alone = [{at: state} for at, state in doubtful.items()]
        for at, results in zip(doubtful, self._write(alone, mandate), strict=True):
            if not _failed(results, mandate):
                written[at] = doubtful[at]
        written = {at: replace(state, zk_version=state.zk_version + 1) for at, state in written.items()}
        # A first try may have been done and only its answer lost.
        there = self.read_many([at for at in doubtful if at not in written])
        for at, state in there.items():
            if state == replace(doubtful[at], zk_version=doubtful[at].zk_version + 1):
                written[at] = state
        return Written(written, {at: there.get(at) for at in doubtful if at not in written})

    def _write(self, pieces: Sequence[Mapping[At, PartitionState]], mandate: Mandate) -> list[list[Any]]:
        return self._nodes.transact_many(
            [
                [
                    mandate.check(),
                    *(SetData(paths.partition_state(*at), s.to_json(), s.zk_version) for at, s in piece.items()),
                ]
                for piece in pieces
            ]
        )

    def write(self, topic: str, partition: int, state: PartitionState) -> PartitionState:
        """Writes over the state of `state.zk_version`; returns it with its new version."""
        path, data = paths.partition_state(topic, partition), state.to_json()
        try:
            return replace(state, zk_version=self._nodes.set(path, data, state.zk_version).version)
        except NoNodeError:
            raise UnknownTopic(f"{topic}-{partition} has no state: is the topic deleted?") from None
        except BadVersionError:
            node = self._nodes.get(path)
            if node is not None and node.data == data and node.version == state.zk_version + 1:
                return replace(state, zk_version=node.version)  # the first try was done, its answer was lost
            raise VersionConflict(f"the state of {topic}-{partition} was changed meanwhile: read it again") from None


class Written(NamedTuple):
    """What came of writing many states: those written, with their new versions, and the others as they are now."""

    written: dict[At, PartitionState]
    conflicts: dict[At, PartitionState | None]  # None where the partition has no state any more


def _pieces(states: Mapping[At, PartitionState]) -> Iterator[list[tuple[At, PartitionState]]]:
    rows = [*states.items()]
    for start in range(0, len(rows), AT_ONCE):
        yield rows[start : start + AT_ONCE]


def _failed(results: list[Any], mandate: Mandate | None) -> bool:
    failed = failure(results)
    if failed is not None and failed[0] == 0 and mandate is not None:
        raise fenced(mandate)
    return failed is not None
