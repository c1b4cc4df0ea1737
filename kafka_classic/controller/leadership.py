"""Elections that somebody asks for: the preferred leaders, an unclean one, and a broker that is about to stop."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka_classic.controller.election import (
    Choice,
    Election,
    elect,
    elect_for_shutdown,
    elect_preferred,
    imbalance,
)
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.partitions import At, PartitionState

if TYPE_CHECKING:
    from kafka_classic.controller.reign import Reign

log = logging.getLogger(__name__)


def elect_leaders(reign: "Reign", kind: Election, partitions: Iterable[At] | None) -> dict[At, KafkaError | None]:
    """Elects, for these partitions or for all; returns why for each where it was not done."""
    context = reign.context
    results: dict[At, KafkaError | None] = {}
    todo: list[At] = []
    for at in [*context.partitions()] if partitions is None else partitions:
        why = _why_not(reign, kind, at)
        if why is None:
            todo.append(at)
        results[at] = None if why is None else KafkaError(why)

    def decide(at: At, state: PartitionState) -> Choice | None:
        if kind is Election.PREFERRED:
            return elect_preferred(context.replicas(at), state.isr, context.able())
        return elect(context.replicas(at), state.isr, context.able(), unclean=True)

    moved = reign.move(todo, decide)
    for at in todo:
        if at not in moved:
            results[at] = KafkaError(_nobody(kind))
    return results


def balance(reign: "Reign") -> None:
    """Gives leadership back to the brokers too many of whose partitions are led by others.

    Not to one that is alive to ZooKeeper but does not answer the controller: it would not hear that it leads, while the
    leader that did its work would be told to stop.
    """
    context, able = reign.context, reign.context.able()
    moving = set(context.reassigning())
    preferring: dict[int, list[At]] = {broker: [] for broker in able}
    for at in context.states:
        if context.knows(at) and context.replicas(at)[0] in able:
            preferring[context.replicas(at)[0]].append(at)
    limit = reign.settings.leader_imbalance_per_broker_percentage
    for broker, partitions in preferring.items():
        if imbalance(broker, [context.states[at].leader for at in partitions]) <= limit:
            continue
        if reign.is_silent(broker):
            log.info("broker %d does not answer: leadership is given back to it later", broker)
            continue
        reign.move(
            [at for at in partitions if context.states[at].leader != broker and at not in moving],
            lambda at, state: elect_preferred(context.replicas(at), state.isr, able),
        )


def shut_down(reign: "Reign", broker_id: int, broker_epoch: int) -> list[At]:
    """Moves leadership away from a broker that is about to stop; returns what it still leads though others hold it."""
    context = reign.context
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(Error.broker_not_available, f"broker {broker_id} is not registered")
    if broker_epoch not in (-1, broker.epoch):
        raise KafkaError(Error.stale_broker_epoch, f"broker {broker_id} is registered anew")
    context.stopping.add(broker_id)
    able = context.able()
    shared = [at for at in context.held_by((broker_id,)) if len(context.replicas(at)) > 1 and at in context.states]
    followed = [at for at in shared if context.states[at].leader != broker_id]
    reign.move(
        shared,
        lambda at, state: elect_for_shutdown(broker_id, context.replicas(at), state.leader, state.isr, able),
    )
    for at in followed:
        if at in context.states:
            reign.outbox.stop(broker_id, at, context.states[at].leader_epoch, delete=False)
    return [at for at in shared if at in context.states and context.states[at].leader == broker_id]


def _why_not(reign: "Reign", kind: Election, at: At) -> Error | None:
    context = reign.context
    if not context.knows(at):
        return Error.unknown_topic_or_partition
    state = context.states.get(at)
    if state is None:
        return _nobody(kind)
    if kind is Election.PREFERRED:
        if state.leader == context.replicas(at)[0]:
            return Error.election_not_needed
    elif state.leader in context.brokers:
        return Error.election_not_needed
    return None


def _nobody(kind: Election) -> Error:
    if kind is Election.PREFERRED:
        return Error.preferred_leader_not_available
    return Error.eligible_leaders_not_available
