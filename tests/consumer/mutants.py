"""Rebalancers and registries with one rule broken: what the simulation must notice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from kafka_classic.consumer.holdings import Holdings
from kafka_classic.consumer.rebalancer import Rebalancer, State
from kafka_classic.zk.consumers import GroupRegistry, Registration, TopicPartition
from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.subscriptions import Subscription
from kafka_classic.zk.znodes import Delete, Operation
from tests.consumer.simulation import World


class _WithHoldings(Rebalancer):
    holdings: type[Holdings] = Holdings

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._holdings = self.holdings(args[0], args[1])


class ReleasesBeforeItStops(Rebalancer):
    """The owner znode goes while messages are still handed out."""

    def _give_up(self, registration: Registration, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._holdings.release(registration, partitions)
            self._holdings.stop(partitions)


class StartsBeforeItOwns(_WithHoldings):
    """What the plan says is read, whether it was won or not."""

    class holdings(Holdings):  # noqa: N801
        def claim(self, registration: Registration, threads: Mapping[TopicPartition, str]) -> None:
            super().claim(registration, threads)
            self.owned |= threads


class ForgetsWhatIsInDoubt(_WithHoldings):
    """A claim whose answer was lost is nobody's business: the half-won claim that is never released."""

    class holdings(Holdings):  # noqa: N801
        def look_up(self, registration: Registration) -> None:
            self.doubtful.clear()


class BelievesWhatIsInDoubt(_WithHoldings):
    """A claim whose answer was lost counts as won."""

    class holdings(Holdings):  # noqa: N801
        def claim(self, registration: Registration, threads: Mapping[TopicPartition, str]) -> None:
            try:
                super().claim(registration, threads)
            except ZooKeeperUnreachable:
                self.owned |= threads


class ReadsOnAfterExpiry(_WithHoldings):
    """What the expired session owned is kept, and read as soon as ZooKeeper is back."""

    class holdings(Holdings):  # noqa: N801
        def forget(self) -> None:
            self._hands.paused = False  # type: ignore[attr-defined]


class NeverHearsOfReleases(Rebalancer):
    """On a conflict it only waits, as the original did."""

    def _await_release(self) -> None:
        self._backing_off = True
        self._due = self._clock() + self._jitter(self._pace.backoff_s)


class GivesUpSilently(NeverHearsOfReleases):
    """As the original: after so many retries it stays registered, and starves its partitions."""

    def _surrender(self, registration: Registration) -> None:
        self._due = inf


class ForgetsToRetry(Rebalancer):
    """What ZooKeeper did not let through is not tried again until something else changes."""

    def _failed(self, error: Exception, wait: float | None = None) -> None:
        super()._failed(error, wait)
        self._due = inf


class TrustsOldMembers(Rebalancer):
    """After a reconnection the members of before are believed, though the watch went with the connection."""

    def session_renewed(self) -> None:
        self.trigger("ZooKeeper is connected again")


class MissesChangesMeanwhile(Rebalancer):
    """A change that comes during an attempt is taken for the one that the attempt was made for."""

    def _attempt(self, registration: Registration, members: Mapping[str, Subscription]) -> None:
        super()._attempt(registration, members)
        news = self.inbox.take()
        if news.lost:
            self.inbox.lost()
        if self._state is not State.STEADY and news.stale:
            self.inbox.look_again("", stale=True)


class WatchesNobody(GroupRegistry):
    def members(self, changed: Callable[[], None] | None = None) -> dict[str, Subscription]:
        return super().members(lambda: None)


class RepeatsWrites(GroupRegistry):
    """A write whose answer was lost is done again, as a read may be: a release then hits whoever came next."""

    def _transact(self, transactions: Sequence[Sequence[Operation]], session_id: int) -> list[list[Any]]:
        while True:
            try:
                return super()._transact(transactions, session_id)
            except ZooKeeperUnreachable:
                if self._session.session_id != session_id or not isinstance(transactions[0][-1], Delete):
                    raise


MUTANTS: dict[str, Callable[[int], World]] = {
    **{
        rules.__name__: partial(World, rules=rules)
        for rules in (
            *(ReleasesBeforeItStops, StartsBeforeItOwns, ForgetsWhatIsInDoubt, BelievesWhatIsInDoubt),
            *(ReadsOnAfterExpiry, NeverHearsOfReleases, GivesUpSilently, ForgetsToRetry, TrustsOldMembers),
            *(MissesChangesMeanwhile,),
        )
    },
    **{registry.__name__: partial(World, registry=registry) for registry in (WatchesNobody, RepeatsWrites)},
    "WritesOfOldSessionsCount": partial(World, fences=False),
}
