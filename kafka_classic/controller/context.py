"""What a controller knows of the cluster: the live brokers, the topics, and the state of every partition."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from kafka_classic.zk.brokers import BrokerInfo
from kafka_classic.zk.partitions import NO_LEADER, At, PartitionState
from kafka_classic.zk.topics import TopicInfo


@dataclass(slots=True)
class Context:
    """A copy of what ZooKeeper holds, kept by the one worker that changes it."""

    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    stopping: set[int] = field(default_factory=set)  # live, but about to shut down: they lead nothing more
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    states: dict[At, PartitionState] = field(default_factory=dict)

    def able(self) -> set[int]:
        """The brokers that can lead."""
        return self.brokers.keys() - self.stopping

    def partitions(self) -> Iterator[At]:
        for name, info in self.topics.items():
            for number in info.assignment:
                yield name, number

    def knows(self, at: At) -> bool:
        info = self.topics.get(at[0])
        return info is not None and at[1] in info.assignment

    def replicas(self, at: At) -> tuple[int, ...]:
        """The replicas of a partition, the preferred leader first; while it is reassigned, the old and the new."""
        return self.topics[at[0]].assignment[at[1]]

    def adding(self, at: At) -> tuple[int, ...]:
        return (self.topics[at[0]].adding or {}).get(at[1], ())

    def removing(self, at: At) -> tuple[int, ...]:
        return (self.topics[at[0]].removing or {}).get(at[1], ())

    def reassigning(self) -> list[At]:
        """The partitions that are on their way to other replicas."""
        return [
            (name, number)
            for name, info in self.topics.items()
            if info.adding or info.removing
            for number in sorted({*(info.adding or ()), *(info.removing or ())})
            if number in info.assignment
        ]

    def astray(self) -> list[At]:
        """The partitions led by, or in sync on, a broker that is none of their replicas: a cancelled move, half done.

        The broker has never been told to hold it or was told to drop it, and its leader would wait for it for ever.
        """
        return [
            at
            for at, state in self.states.items()
            if self.knows(at) and not {state.leader, *state.isr} - {NO_LEADER} <= {*self.replicas(at)}
        ]

    def held_by(self, brokers: Collection[int]) -> list[At]:
        """The partitions with a replica on one of these brokers."""
        wanted = set(brokers)
        return [
            (name, number)
            for name, info in self.topics.items()
            for number, replicas in info.assignment.items()
            if not wanted.isdisjoint(replicas)
        ]

    def without_state(self) -> list[At]:
        """The partitions that never had a leader."""
        return [at for at in self.partitions() if at not in self.states]

    def with_the_dead(self, among: Iterable[At] | None = None) -> list[At]:
        """The partitions led by nobody, or by a broker that is gone, or with such a one among the in-sync replicas.

        And those whose leader has left the in-sync replicas: its disk fails it, and another is to lead.
        """
        live = self.brokers.keys()
        return [
            at
            for at in (self.partitions() if among is None else among)
            if (state := self.states.get(at)) is not None
            and (state.leader not in live or state.leader not in state.isr or not live >= {*state.isr})
        ]

    def forget(self, topic: str) -> None:
        info = self.topics.pop(topic, None)
        for number in info.assignment if info else ():
            self.states.pop((topic, number), None)
