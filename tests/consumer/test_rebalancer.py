"""The rebalancer's manners: on a real ZooKeeper with its own threads, and in the small world of the simulation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest

from kafka_classic.consumer.rebalancer import Pace, Rebalancer, State
from kafka_classic.zk.consumers import GroupRegistry, TopicPartition
from kafka_classic.zk.errors import ZooKeeperUnreachable
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.server import EmbeddedZooKeeper
from kafka_classic.zk.session import Session
from kafka_classic.zk.subscriptions import Subscription
from tests.consumer.simulation import Member, World
from tests.zk.breaking import expire, until

QUICK = Pace(quiet_s=0.05, longest_quiet_s=0.2)


class Hands:
    """Holds a position for each partition, and commits it; may be told to fail."""

    def __init__(self, offsets: OffsetRegistry) -> None:
        self.offsets = offsets
        self.streams: dict[TopicPartition, int] = {}
        self.failures: list[Exception] = []

    def start(self, claims: Mapping[TopicPartition, int]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.streams |= claims

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        for at in partitions:
            self.streams.pop(at, None)
        if self.failures:
            raise self.failures.pop()
        self.offsets.commit("readers", dict.fromkeys(partitions, 7))

    def drop(self) -> None:
        self.streams.clear()


class Consumer:
    """What the connector wires: a session, the registries, hands and a rebalancer."""

    def __init__(self, hosts: str, name: str, topics: Mapping[str, range], streams: int = 1) -> None:
        self.session = Session(hosts, timeout_s=10.0).start(30.0)
        self.group = GroupRegistry(self.session, "readers")
        self.hands = Hands(OffsetRegistry(self.session, fence=lambda: self.rebalancer.registration))
        self.told: list[tuple[frozenset[TopicPartition], frozenset[TopicPartition]]] = []
        self.still_owned: list[bool] = []  # what was released, when that was told
        self.rebalancer = Rebalancer(
            self.group,
            self.hands,
            lambda: topics,
            name,
            Subscription({"words": streams}),
            pace=QUICK,
            listener=self._listen,
        )
        self.session.add_listener(self.rebalancer.on_session)

    def _listen(self, released: frozenset[TopicPartition], acquired: frozenset[TopicPartition]) -> None:
        self.told.append((released, acquired))
        owners = GroupRegistry(self.session, "readers").owners()  # counted by itself
        self.still_owned.append(released <= owners.keys())
        raise RuntimeError("a listener that fails, on purpose")

    def close(self) -> None:
        self.rebalancer.close(30.0)
        self.session.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def consumer(server: EmbeddedZooKeeper, request: pytest.FixtureRequest) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make(name: str, topics: Mapping[str, range], streams: int = 1) -> Consumer:
        made.append(Consumer(f"{server.hosts}/{abs(hash(request.node.name))}", name, topics, streams))
        made[-1].rebalancer.start()
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def share(consumers: list[Consumer], count: int) -> bool:
    """Whether these read all partitions, each one of them, and nobody waits for anything."""
    read = [at for consumer in consumers for at in consumer.hands.streams]
    return len(read) == len(set(read)) == count and all(consumer.rebalancer.steady.is_set() for consumer in consumers)


def test_p13_p14_consumers_come_and_go_and_share_the_partitions_without_a_master(
    consumer: Callable[..., Consumer],
) -> None:
    topics = {"words": range(10)}
    a = consumer("a", topics)
    until(a.session, lambda: share([a], 10))
    b = consumer("b", topics, 2)
    until(a.session, lambda: share([a, b], 10) and len(b.hands.streams) == 6)
    assert b.hands.streams == {("words", 4 + at): at // 3 for at in range(6)}
    assert a.group.owners() == {("words", at): "a-0" if at < 4 else f"b-{(at - 4) // 3}" for at in range(10)}
    offsets = a.hands.offsets.all("readers")
    assert offsets == {("words", at): 7 for at in range(4, 10)}  # committed before they were given up
    a.close()
    until(b.session, lambda: share([b], 10))
    assert a.rebalancer.state is State.CLOSED
    assert b.group.members() == {"b": Subscription({"words": 2})}
    # The last word of it was told, though the listener fails each time.
    assert a.told == [
        (frozenset(), frozenset(("words", at) for at in range(10))),
        (frozenset(("words", at) for at in range(4, 10)), frozenset()),
        (frozenset(("words", at) for at in range(4)), frozenset()),
    ]
    assert a.still_owned == [True, True, True]  # what the application does about it is done before another reads
    first, second = list(a.rebalancer.history.records)[:2]
    assert first.why == "it starts"
    assert second.why == "the members changed"
    assert (len(first.acquired), len(second.released)) == (10, 6)
    assert first.attempts == second.attempts == 1
    assert second.operations <= 4  # the members, the newcomer, a release, and nothing to claim


def test_a_topic_that_grows_is_shared_anew(consumer: Callable[..., Consumer]) -> None:
    topics = {"words": range(2)}
    consumers = [consumer(name, topics) for name in "abc"]
    until(consumers[0].session, lambda: share(consumers, 2))
    topics["words"] = range(12)
    for each in consumers:
        each.rebalancer.trigger("topics changed")
    until(consumers[0].session, lambda: share(consumers, 12))
    assert [len(each.hands.streams) for each in consumers] == [4, 4, 4]


def test_an_expired_session_drops_everything_and_claims_it_anew(consumer: Callable[..., Consumer]) -> None:
    topics = {"words": range(6)}
    a, b = consumer("a", topics), consumer("b", topics)
    until(a.session, lambda: share([a, b], 6))
    before = a.rebalancer.registration
    given_up = a.hands.offsets.all("readers").keys()  # by whoever was first, when the other came
    expire(a.session)
    until(a.session, lambda: a.rebalancer.history.expirations and share([a, b], 6) and len(a.hands.streams) == 3)
    after = a.rebalancer.registration
    assert before is not None
    assert after is not None
    assert after.session_id != before.session_id
    now = a.hands.offsets.all("readers").keys()
    assert now - given_up <= {("words", at) for at in range(3)}  # only b gave any up since


def test_hands_that_fail_are_asked_again(consumer: Callable[..., Consumer]) -> None:
    topics = {"words": range(4)}
    a = consumer("a", topics)
    until(a.session, lambda: share([a], 4))
    a.hands.failures = [ZooKeeperUnreachable("no commit, on purpose"), RuntimeError("on purpose")]
    b = consumer("b", topics)
    until(a.session, lambda: share([a, b], 4) and len(b.hands.streams) == 2)
    assert a.rebalancer.history.failures == 2


def test_without_zookeeper_it_stops_reading_and_closes(server: EmbeddedZooKeeper) -> None:
    a = Consumer(f"{server.hosts}/alone", "a", {"words": range(4)})
    a.rebalancer.start()
    until(a.session, lambda: share([a], 4))
    a.session.close()
    assert a.rebalancer.close(30.0)
    assert a.hands.streams == {}


def test_a_rebalancer_that_never_started_closes() -> None:
    member = World(0).members[0]
    assert member.rebalancer.close()
    assert member.rebalancer.state is State.CLOSED
    assert member.rebalancer.turn() is None


def test_sixteen_that_join_at_once_rebalance_once_or_twice_each(consumer: Callable[..., Consumer]) -> None:
    topics = {"words": range(46)}
    consumers = [consumer(f"c{number:02}", topics) for number in range(16)]
    until(consumers[0].session, lambda: share(consumers, 46))
    assert sorted(len(each.hands.streams) for each in consumers) == [2] * 2 + [3] * 14
    for each in consumers:
        # However slowly this machine brings them up, it is not one rebalance for each that joins.
        assert each.rebalancer.history.attempts < 16
        assert each.rebalancer.history.surrenders == 0


# --- in the small world, where time passes when it is told to


def blocked_world() -> tuple[World, Member, Member]:
    """Two members, of which the first stalls with everything in its hands, and the other waits for its half."""
    world = World(3)
    world.members.clear()
    world.join(0, 0)
    first = world.members[0]
    world._calm_down(10.0)
    first.freeze()
    world.join(0, 0)
    second = world.members[1]
    for _ in range(60):
        world.now += 0.1
        second.deliver(0)
        second.run()
    assert second.rebalancer.state is State.BLOCKED
    return world, first, second


def run(world: World, member: Member, seconds: float) -> None:
    for _ in range(int(seconds)):
        world.now += 1.0
        for _ in range(60):
            member.deliver(0)
            member.run()


def test_p18_after_enough_retries_everything_is_released_and_it_goes_on_trying(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, first, second = blocked_world()
    blocked = second.rebalancer.blocked
    assert blocked
    run(world, second, 60)
    assert second.rebalancer.history.conflicts >= 1
    assert second.rebalancer.history.surrenders == 0
    run(world, second, 200)
    assert second.rebalancer.history.surrenders == 1
    assert "cannot rebalance after 2 retries" in caplog.text
    run(world, second, 1000)
    assert 2 <= second.rebalancer.history.surrenders <= 4  # ever more rarely
    assert second.rebalancer.blocked == blocked
    assert second.rebalancer.history.under_way_for(world.now) > 1000
    first.thaw()
    world._calm_down(10.0)  # and is done at once when the other gives them up
    assert second.rebalancer.blocked == frozenset()


def test_a_znode_of_its_own_session_that_it_does_not_know_of_is_found() -> None:
    world, first, second = blocked_world()
    first.crash()
    first.expire()
    run(world, second, 2)
    assert world.settled() is None
    second.rebalancer._holdings.owned.clear()  # as if it had forgotten
    second.rebalancer.trigger("on purpose")
    run(world, second, 60)
    assert world.settled() is None


def test_a_close_waits_for_what_is_under_way(consumer: Callable[..., Consumer]) -> None:
    topics = {"words": range(4)}
    a = consumer("a", topics)
    until(a.session, lambda: share([a], 4))
    entered, leave = threading.Event(), threading.Event()
    stop = a.hands.stop

    def slow(partitions: Collection[TopicPartition]) -> None:
        entered.set()
        leave.wait(60.0)
        stop(partitions)

    a.hands.stop = slow  # type: ignore[method-assign]
    closing = threading.Thread(target=a.rebalancer.close)
    closing.start()
    assert entered.wait(60.0)
    assert not a.rebalancer.close(0.01)
    assert a.group.owners()  # nothing is released before it is stopped and committed
    leave.set()
    closing.join(60.0)
    assert a.group.owners() == {}
