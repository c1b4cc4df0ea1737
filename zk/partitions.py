"""The state of a partition: who leads it, since which epoch, and which replicas are in sync (P23 and after)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kazoo.exceptions import BadVersionError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.errors import UnknownTopic, VersionConflict
from kafka_classic.zk.session import Session
from kafka_classic.zk.znodes import Node, Znodes

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/T/partitions/P/state`; `zk_version` is that of the znode it was read from."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = 0

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
            }
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
        )


class PartitionStates:
    """Reads and writes the states; every write over an old state compares its version."""

    def __init__(self, session: Session) -> None:
        self._nodes = Znodes(session)

    def read(self, topic: str, partition: int) -> PartitionState | None:
        node = self._nodes.get(paths.partition_state(topic, partition))
        return None if node is None else PartitionState.from_node(node)

    def read_many(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionState]:
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

    def create_many(self, states: Mapping[tuple[str, int], PartitionState]) -> dict[tuple[str, int], PartitionState]:
        """First states for many partitions; returns those that were created or stood so already."""
        topics = sorted({topic for topic, _ in states})
        live = {
            topic for topic, node in zip(topics, self._nodes.get_many([*map(paths.topic, topics)]), strict=True) if node
        }
        wanted = {at: state for at, state in states.items() if at[0] in live}
        self._nodes.ensure(*(paths.partition(*at) for at in wanted))
        self._nodes.create_many({paths.partition_state(*at): state.to_json() for at, state in wanted.items()})
        there = self.read_many([*wanted])
        return {
            at: there[at] for at, state in wanted.items() if at in there and there[at] == replace(state, zk_version=0)
        }

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
