"""Where the replicas of new partitions go: Kafka's own placement, as a function of values.

The leaders (first replicas) go round robin over the brokers from the `start`-th on. The followers of a partition stand
`shift` and more brokers after its leader, and the shift grows by one each time round, so that two brokers do not share
all of their partitions. Five brokers, three replicas, start 0, shift 0:

    partition    0       1       2       3       4       5       6
    replicas     0 1 2   1 2 3   2 3 4   3 4 0   4 0 1   0 2 3   1 3 4

When every broker names a rack, the brokers are first ordered so that neighbours stand in different racks, and a replica
skips a broker whose rack has one already while another rack has none.
"""

import logging
from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

Replicas = tuple[int, ...]


def place(
    partitions: int,
    factor: int,
    brokers: Mapping[int, str | None],
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> dict[int, Replicas]:
    """The replicas of `partitions` partitions numbered from `first` on; `brokers` are ids with their racks or None.

    `start` and `shift` are to be random below the number of brokers, so that small topics do not all begin at one.
    """
    if not 1 <= factor <= len(brokers):
        raise ValueError(f"{factor} replicas need as many brokers: there are {len(brokers)}")
    racks = racks_of(brokers)
    order = sorted(brokers) if racks is None else alternate_racks(racks)
    placed = {}
    for index in range(first, first + partitions):
        if index > 0 and index % len(order) == 0:
            shift += 1
        at = (index + start) % len(order)
        placed[index] = (
            _plain(order, at, shift, factor) if racks is None else _in_racks(order, racks, at, shift, factor)
        )
    return placed


def racks_of(brokers: Mapping[int, str | None]) -> dict[int, str] | None:
    """The rack of each broker if all name one; a cluster where only some do is placed as if none did."""
    racks = {broker: rack for broker, rack in brokers.items() if rack}
    if not racks:
        return None
    if len(racks) < len(brokers):
        lacking = sorted(brokers.keys() - racks.keys())
        log.warning("brokers %s name no rack: replicas are placed without regard to racks", lacking)
        return None
    return racks


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers, one of each rack in turn: {0: a, 1: a, 2: b, 3: c} gives 0 2 3 1."""
    left: dict[str, list[int]] = {rack: [] for rack in sorted(set(racks.values()))}
    for broker in sorted(racks):
        left[racks[broker]].append(broker)
    order = []
    while any(left.values()):
        order += [brokers.pop(0) for brokers in left.values() if brokers]
    return order


def _plain(order: Sequence[int], at: int, shift: int, factor: int) -> Replicas:
    return (order[at], *(order[_follower(at, shift, n, len(order))] for n in range(factor - 1)))


def _in_racks(order: Sequence[int], racks: Mapping[int, str], at: int, shift: int, factor: int) -> Replicas:
    all_racks = len(set(racks.values()))
    replicas = [order[at]]
    used = {racks[order[at]]}
    n = 0
    while len(replicas) < factor:
        broker = order[_follower(at, shift * all_racks, n, len(order))]
        n += 1
        if broker not in replicas and (racks[broker] not in used or len(used) == all_racks):
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


def _follower(leader: int, shift: int, n: int, count: int) -> int:
    """The place of the n-th follower: 1 to count - 1 places after the leader."""
    return (leader + 1 + (shift + n) % (count - 1)) % count
