"""Moving partitions to other brokers, with no loss and no stop.

    settled -- asked: the new replicas are added, the old ones stay (topic znode, raised epoch) --> moving
    moving -- every new replica is in sync: a leader among them, the old ones leave and are deleted --> settled
    moving -- cancelled: the added ones leave and are deleted --> settled

What is under way stands in the topic's znode (`adding_replicas`, `removing_replicas`), so that the next controller goes
on with it: it raises the leader epoch again, in case the leader never heard of the new replicas. A cancellation that
was half done is known by a state that still names what the topic does not (`Context.astray`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka_classic.controller.election import NO_LEADER, Choice, elect_among
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.errors import UnknownTopic, VersionConflict
from kafka_classic.zk.partitions import At, PartitionState

if TYPE_CHECKING:
    from kafka_classic.controller.reign import Reign

Replicas = tuple[int, ...]


class Reassignment(NamedTuple):
    """The replicas of a partition, with those that are to come and those that are to go."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def origin(self) -> Replicas:
        """What it had before, and has again if it is cancelled."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> Replicas:
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def under_way(self) -> bool:
        return bool(self.adding or self.removing)

    def towards(self, target: Replicas) -> "Reassignment":
        """The way to these replicas, from where it came from."""
        origin = self.origin
        return Reassignment(
            replicas=(*target, *(broker for broker in origin if broker not in target)),
            adding=tuple(broker for broker in target if broker not in origin),
            removing=tuple(broker for broker in origin if broker not in target),
        )


class Reassignments:
    """Starts, completes and cancels the reassignments of one reign."""

    def __init__(self, reign: "Reign") -> None:
        self._reign = reign

    def of(self, at: At) -> Reassignment:
        context = self._reign.context
        return Reassignment(context.replicas(at), context.adding(at), context.removing(at))

    def alter(self, targets: Mapping[At, Replicas | None]) -> dict[At, KafkaError | None]:
        """Starts or (None) cancels; returns why for each that was refused."""
        results: dict[At, KafkaError | None] = {}
        plans: dict[At, Reassignment] = {}
        for at, target in targets.items():
            try:
                plans[at] = self._plan(at, target)
                results[at] = None
            except KafkaError as error:
                results[at] = error
        before = {at: self.of(at) for at in plans}
        written = self._write(plans)
        for at in plans.keys() - written:
            results[at] = KafkaError(Error.unknown_topic_or_partition)
        self._start(written, {at: before[at].replicas for at in written})
        self.complete(written)
        return results

    def resume(self, partitions: Iterable[At]) -> None:
        """Goes on with what an earlier controller began."""
        partitions = [*partitions]
        self._start(partitions, {})
        self.complete(partitions)

    def complete(self, partitions: Iterable[At]) -> None:
        """Ends those of the reassignments whose new replicas are all in sync."""
        reign = self._reign
        before = {at: self.of(at) for at in partitions if reign.context.knows(at)}

        def decide(at: At, state: PartitionState) -> Choice | None:
            target = before[at].target
            if not set(target) <= set(state.isr):
                return None
            return elect_among(target, state.leader, state.isr, reign.context.able())

        moved = reign.move([at for at, way in before.items() if way.under_way], decide)
        settled = self._write({at: Reassignment(before[at].target) for at in moved})
        for at in settled:
            for broker in before[at].removing:
                reign.outbox.stop(broker, at, reign.context.states[at].leader_epoch, delete=True)

    def _plan(self, at: At, target: Replicas | None) -> Reassignment:
        context = self._reign.context
        if not context.knows(at):
            raise KafkaError(Error.unknown_topic_or_partition)
        now = self.of(at)
        if target is None:
            if not now.under_way:
                raise KafkaError(Error.no_reassignment_in_progress)
            plan = Reassignment(now.origin)
        else:
            if not target or len(set(target)) < len(target) or min(target) < 0:
                raise KafkaError(Error.invalid_replica_assignment, "a partition needs distinct replicas, at least one")
            plan = now.towards(target)
            dead = sorted(set(plan.adding) - context.brokers.keys())
            if dead:
                raise KafkaError(Error.invalid_replica_assignment, f"brokers {dead} are not alive")
        state = context.states.get(at)
        dropped = set(now.replicas) - set(plan.replicas)
        if state is not None and dropped and not (set(state.isr) - dropped) & context.brokers.keys():
            raise KafkaError(
                Error.invalid_replica_assignment, "of the replicas that would be left, none is alive and in sync"
            )
        return plan

    def _start(self, partitions: Collection[At], before: Mapping[At, Replicas]) -> None:
        """Raises the epoch, so that leader and followers hear of the new list; replicas not in it any more go."""
        reign = self._reign

        def decide(at: At, state: PartitionState) -> Choice:
            replicas = reign.context.replicas(at)
            choice = elect_among(replicas, state.leader, state.isr, reign.context.able())
            if choice is not None:
                return choice
            left = tuple(broker for broker in state.isr if broker in replicas)
            return Choice(state.leader if state.leader in left else NO_LEADER, left or state.isr)

        reign.move(partitions, decide)
        for at in partitions:
            state = reign.context.states.get(at)
            for broker in before.get(at, ()):
                if state is not None and broker not in reign.context.replicas(at):
                    reign.outbox.stop(broker, at, state.leader_epoch, delete=True)

    def _write(self, plans: Mapping[At, Reassignment]) -> set[At]:
        """Writes the topics' replicas; returns the partitions whose topic is still there."""
        written: set[At] = set()
        for name in sorted({topic for topic, _ in plans}):
            rows = {number: plan for (topic, number), plan in plans.items() if topic == name}
            if self._write_topic(name, rows):
                written |= {(name, number) for number in rows}
        return written

    def _write_topic(self, name: str, rows: Mapping[int, Reassignment]) -> bool:
        reign = self._reign
        while True:
            info = reign.context.topics[name]
            adding = {**(info.adding or {}), **{number: row.adding for number, row in rows.items()}}
            removing = {**(info.removing or {}), **{number: row.removing for number, row in rows.items()}}
            wanted = replace(
                info,
                assignment={**info.assignment, **{number: row.replicas for number, row in rows.items()}},
                adding={number: brokers for number, brokers in adding.items() if brokers} or None,
                removing={number: brokers for number, brokers in removing.items() if brokers} or None,
            )
            try:
                reign.context.topics[name] = reign.topics.set_assignment(wanted, reign.mandate)
                return True
            except VersionConflict:  # it was given more partitions
                now = reign.topics.get(name)
                if now is None or now.topic_id != info.topic_id:
                    return False
                reign.context.topics[name] = now
            except UnknownTopic:
                return False
