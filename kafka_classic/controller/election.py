"""Who leads a partition: the decisions alone, as functions of values.

A leader comes from the in-sync replicas, in the order of the replica list: every one of them has all that was
acknowledged with acks=all. A replica out of sync leads only where losing records was chosen over waiting (unclean).
`live` are the brokers that can lead now: registered, and not about to shut down.
"""

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

NO_LEADER = -1


class Election(IntEnum):
    """The kinds of election a client can ask for, by their numbers in ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class Choice(NamedTuple):
    """A new leader and the in-sync replicas it starts with."""

    leader: int
    isr: tuple[int, ...]


def elect_first(replicas: Sequence[int], live: Collection[int]) -> Choice | None:
    """The first leader of a new partition: all replicas that live are in sync, as none has any records yet."""
    able = tuple(broker for broker in replicas if broker in live)
    return Choice(able[0], able) if able else None


def elect(replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool) -> Choice | None:
    """A leader for a partition that lost its own; None if nobody may lead it now."""
    left = tuple(broker for broker in isr if broker in live)
    for broker in replicas:
        if broker in left:
            return Choice(broker, left)
    if unclean:
        for broker in replicas:
            if broker in live:
                return Choice(broker, (broker,))
    return None


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Choice | None:
    """The first of the replica list, if it lives and is in sync."""
    preferred = replicas[0]
    return Choice(preferred, tuple(isr)) if preferred in live and preferred in isr else None


def elect_among(targets: Sequence[int], leader: int, isr: Sequence[int], live: Collection[int]) -> Choice | None:
    """A leader for a partition whose replicas become `targets`: the present one if it stays, else in their order."""
    left = tuple(broker for broker in isr if broker in targets)
    if leader in left and leader in live:
        return Choice(leader, left)
    for broker in targets:
        if broker in left and broker in live:
            return Choice(broker, left)
    return None


def elect_without_the_dead(
    replicas: Sequence[int],
    leader: int,
    isr: Sequence[int],
    registered: Collection[int],
    live: Collection[int],
    *,
    unclean: bool,
) -> Choice | None:
    """What becomes of a partition when only the brokers `registered` are left; None if nothing changes.

    The others leave the in-sync replicas, unless nobody would be left there: then all stay, as each has all that was
    acknowledged, and the first of them to come back may lead. A leader that has left them itself leads no more.
    """
    if leader in registered and leader in isr:
        left = tuple(broker for broker in isr if broker in registered)
        return None if left == tuple(isr) else Choice(leader, left)
    choice = elect(replicas, isr, live, unclean=unclean)
    if choice is not None:
        return choice
    return None if leader == NO_LEADER else Choice(NO_LEADER, tuple(isr))


def elect_for_shutdown(
    stopping: int, replicas: Sequence[int], leader: int, isr: Sequence[int], live: Collection[int]
) -> Choice | None:
    """What becomes of a partition before the broker `stopping` stops; None if nothing changes, or nothing can."""
    others = [broker for broker in live if broker != stopping]
    left = tuple(broker for broker in isr if broker != stopping)
    if leader == stopping:
        choice = elect(replicas, left, others, unclean=False)
        return None if choice is None else Choice(choice.leader, left)
    if stopping in isr and left:
        return Choice(leader, left)
    return None


def imbalance(preferred: int, leaders: Collection[int]) -> float:
    """Percentage of the partitions that prefer a broker that others lead, given who leads each of them."""
    return 100 * sum(leader != preferred for leader in leaders) / len(leaders) if leaders else 0.0
