"""A group in memory around the real rebalancer and registries: members that join, leave, stall, crash and expire.

A schedule is a list of steps `(action, a, b)`. The two numbers choose among what is there (a member, an event), modulo
how much there is, and an action that does not apply does nothing: so any part of a schedule is a schedule too.

Each member's worker is a greenlet that stops before and after every request to ZooKeeper, so that anything can happen
there. What is checked after every step:
- No two members that have not stopped reading read the same partition.
- What a member reads its application was told of, and nothing was told twice.
- No committed offset goes back (fake_zookeeper.py).
And at the end, when all is mended: every partition has the one owner that the plan names, and is read by it; then one
more member joins and one dies, and that takes few attempts, few requests and no backoff.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, ClassVar, cast

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from kafka_classic.consumer.assign import plan
from kafka_classic.consumer.rebalancer import Pace, Rebalancer, State
from kafka_classic.zk import paths
from kafka_classic.zk.consumers import GroupRegistry, TopicPartition
from kafka_classic.zk.offsets import OffsetRegistry
from kafka_classic.zk.session import SessionState
from kafka_classic.zk.subscriptions import Subscription
from tests.consumer.fake_zookeeper import Client, Server
from tests.replication.simulation import Violation

GROUP = "g"
PACE = Pace(max_retries=2, backoff_s=50.0, quiet_s=0.2, longest_quiet_s=1.0)
MOST = 6  # members


class FakeHands:
    """Reads, as far as the rebalancer can see: a position for each partition, which grows."""

    def __init__(self, offsets: OffsetRegistry) -> None:
        self.offsets = offsets
        self.positions: dict[TopicPartition, int] = {}
        self.stopped: dict[TopicPartition, int] = {}
        self.paused = False

    def start(self, claims: Mapping[TopicPartition, int]) -> None:
        committed = self.offsets.fetch(GROUP, claims)
        for at in claims:
            self.stopped.pop(at, None)
            self.positions[at] = committed.get(at, 0)

    def stop(self, partitions: Collection[TopicPartition]) -> None:
        for at in partitions:
            if at in self.positions:
                self.stopped[at] = self.positions.pop(at)
        self.offsets.commit(GROUP, {at: self.stopped[at] for at in partitions if at in self.stopped})
        for at in partitions:
            self.stopped.pop(at, None)

    def drop(self) -> None:
        self.positions.clear()
        self.stopped.clear()
        self.paused = False


class Member:
    """A consumer process: its worker, its session, and what the connector does between the two."""

    def __init__(self, world: World, name: str, subscription: Subscription) -> None:
        self.world = world
        self.name = name
        self.client = Client(world.server, self._pause)
        session, nodes = cast(Any, self.client), cast(Any, self.client.nodes)
        self.group = world.registry(session, GROUP, nodes=nodes)
        self.hands = FakeHands(OffsetRegistry(session, fence=lambda: self.rebalancer.registration, nodes=nodes))
        self.topics = dict(world.topics)
        self.rebalancer = world.rules(
            self.group,
            self.hands,
            lambda: {topic: range(count) for topic, count in self.topics.items()},
            name,
            subscription,
            pace=PACE,
            clock=lambda: world.now,
            wall_clock=lambda: world.now,
            listener=self._listen,
            rng=world.rng.random,
        )
        self.told: frozenset[TopicPartition] = frozenset()  # what its application believes that it reads
        self.alive = True
        self.frozen = False
        self.news: list[dict[str, int]] = []  # how the topics are now: on its way
        self.idle = False
        self.due = 0.0
        self.worker = greenlet(self._live)
        world.workers.append(self.worker)

    @property
    def reads(self) -> Collection[TopicPartition]:
        return () if self.hands.paused or self.frozen or not self.alive else self.hands.positions.keys()

    def _listen(self, released: frozenset[TopicPartition], acquired: frozenset[TopicPartition]) -> None:
        wrong = (released - self.told) | (acquired & (self.told - released))
        if wrong:
            self.world.lies.append(f"{self.name} is told twice of {sorted(wrong)}")
        self.told = (self.told - released) | acquired

    def _live(self) -> None:
        while True:
            wait = self.rebalancer.turn()
            if self.rebalancer.state is State.CLOSED:
                self.alive = False
                self.world.server.end(self.client.session)
                self.client.disconnect()
                return
            self.idle, self.due = True, inf if wait is None else self.world.now + wait
            self._pause()

    def _pause(self) -> None:
        here = getcurrent()
        assert here.parent is not None
        here.parent.switch()

    def runnable(self) -> bool:
        if not self.alive or self.frozen:
            return False
        return not self.idle or self.rebalancer.inbox.woken.is_set() or self.world.now >= self.due

    def run(self) -> None:
        """The worker goes on to its next request, or the answer of it."""
        if self.runnable():
            self.idle = False
            self.worker.switch()

    def deliver(self, number: int) -> None:
        """Something that was on its way to this member arrives."""
        if not self.alive or self.frozen:
            return
        waiting = len(self.client.queue) + len(self.news)
        if waiting and number % waiting < len(self.news):
            self.topics = self.news[-1]  # a watch always tells the newest
            self.news.clear()
            self.rebalancer.trigger("topics changed")
        else:
            self.client.deliver(number)

    def disconnect(self) -> None:
        if self.alive and not self.frozen and self.client.connection is not None:
            self.client.disconnect()
            self.hands.paused = True
            self.rebalancer.on_session(SessionState.SUSPENDED)

    def reconnect(self) -> None:
        if self.alive and not self.frozen and self.client.connection is None:
            same = self.client.reconnect()
            if not same:
                self.rebalancer.on_session(SessionState.LOST)
            elif self.resumable():
                self.hands.paused = False
            self.rebalancer.on_session(SessionState.CONNECTED)

    def resumable(self) -> bool:
        registration = self.rebalancer.registration
        return registration is None or registration.session_id == self.client.session

    def freeze(self) -> None:
        self.frozen = self.alive

    def thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            if self.client.session not in self.world.server.sessions:
                self.disconnect()

    def expire(self) -> None:
        """ZooKeeper has not heard of it for too long."""
        if self.client.connection is None or self.frozen or not self.alive:
            self.world.server.end(self.client.session)

    def crash(self) -> None:
        self.alive = False


class World:
    """One group; the types take the real rules, or ones with a rule broken, to see that the checks notice."""

    def __init__(
        self,
        seed: int,
        rules: type[Rebalancer] = Rebalancer,
        *,
        registry: type[GroupRegistry] = GroupRegistry,
        fences: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.rules = rules
        self.registry = registry
        self.server = Server(fences=fences)
        self.now = 100.0
        self.topics = {"t": 1 + seed % 5}
        self.born = 0
        self.members: list[Member] = []
        self.workers: list[greenlet] = []
        self.lies: list[str] = []
        self.join(0, 0)
        self.join(1, 1)

    def step(self, action: str, a: int, b: int) -> None:
        """Do one step of a schedule and check everything."""
        self.ACTIONS[action](self, a, b)
        self.check()

    def end(self) -> None:
        """Nothing more happens. A worker that stands still holds the whole world, and no collector sees through it."""
        for worker in self.workers:
            while not worker.dead:  # on its way out it may stop before a request once more
                worker.throw()

    def _member(self, a: int) -> Member:
        return self.members[a % len(self.members)]

    # --- what can happen

    def join(self, a: int, b: int) -> None:
        self.members = [m for m in self.members if m.alive or m.client.session in self.server.sessions]
        if len(self.members) >= MOST:
            return
        self.born += 1
        subscriptions = (
            Subscription({"t": 1}),
            Subscription({"t": 2, "u": 1}),
            Subscription({".*": 1}, "white_list"),
            Subscription({"t": 1, "u": 1}),
        )
        # Its place among the others by name is a matter of chance.
        name = f"{self.rng.randrange(10)}{self.born:02}"
        self.members.append(Member(self, name, subscriptions[b % len(subscriptions)]))

    def run(self, a: int, b: int) -> None:
        for _ in range(1 + b % 3):
            self._member(a).run()

    def run_on(self, a: int, b: int) -> None:
        """A member goes on for long."""
        for _ in range(5 + b):
            self._member(a).run()
            self.check()

    def run_all(self, a: int, b: int) -> None:
        for _ in range(1 + b % 10):
            for member in [*self.members]:
                member.run()
                self.check()

    def all_but_one_run(self, a: int, b: int) -> None:
        """One stays where it is, and the others have all the time they need."""
        left_out = self._member(a)
        for _ in range(5 + b // 2):
            self.now += 0.05
            for member in [*self.members]:
                if member is not left_out:
                    member.deliver(b)
                    member.run()
                    self.check()

    def crawl(self, a: int, b: int) -> None:
        """One goes on by one step, and the others by many."""
        self._member(a).run()
        self.all_but_one_run(a, 40)

    def stumble(self, a: int, b: int) -> None:
        """ZooKeeper's next answer to a member comes too late to be waited for, though the connection holds."""
        self._member(a).client.stumbles = True

    def deliver(self, a: int, b: int) -> None:
        self._member(a).deliver(b)

    def deliver_all(self, a: int, b: int) -> None:
        for member in self.members:
            for _ in range(1 + b % 8):
                member.deliver(b)

    def time_passes(self, a: int, b: int) -> None:
        self.now += (0.05, 0.3, 0.3, 1.0, 3.0, 60.0)[b % 6]

    def consume(self, a: int, b: int) -> None:
        """Messages are handed out."""
        for member in self.members:
            for at in member.reads:
                member.hands.positions[at] += 1

    def disconnect(self, a: int, b: int) -> None:
        self._member(a).disconnect()

    def reconnect(self, a: int, b: int) -> None:
        self._member(a).reconnect()

    def blink(self, a: int, b: int) -> None:
        """The connection is lost and found: whatever was under way is lost."""
        self._member(a).disconnect()
        self._member(a).reconnect()

    def freeze(self, a: int, b: int) -> None:
        self._member(a).freeze()

    def thaw(self, a: int, b: int) -> None:
        self._member(a).thaw()

    def expire(self, a: int, b: int) -> None:
        self._member(a).expire()

    def replace(self, a: int, b: int) -> None:
        """The session is replaced by another, in the middle of whatever the worker is doing."""
        member = self._member(a)
        member.disconnect()
        member.expire()
        if b % 2:
            member.reconnect()

    def leave(self, a: int, b: int) -> None:
        self._member(a).rebalancer.leave()

    def crash(self, a: int, b: int) -> None:
        self._member(a).crash()

    def grow(self, a: int, b: int) -> None:
        """A topic gets more partitions, or comes to be, or goes."""
        topic = "tu"[a % 2]
        if b % 6 == 0:
            self.topics.pop(topic, None)
        elif self.topics.get(topic, 0) < 8:
            self.topics[topic] = self.topics.get(topic, 0) + 1
        for member in self.members:
            member.news.append(dict(self.topics))

    ACTIONS: ClassVar[dict[str, Callable[[World, int, int], None]]] = {
        "join": join,
        "run": run,
        "run_on": run_on,
        "run_all": run_all,
        "all_but_one_run": all_but_one_run,
        "crawl": crawl,
        "stumble": stumble,
        "deliver": deliver,
        "deliver_all": deliver_all,
        "time_passes": time_passes,
        "consume": consume,
        "disconnect": disconnect,
        "reconnect": reconnect,
        "blink": blink,
        "freeze": freeze,
        "thaw": thaw,
        "expire": expire,
        "replace": replace,
        "leave": leave,
        "crash": crash,
        "grow": grow,
    }

    # --- what must hold

    def check(self) -> None:
        """Everything that holds after every step."""
        readers: dict[TopicPartition, str] = {}
        for member in self.members:
            for at in member.reads:
                other = readers.setdefault(at, member.name)
                if other != member.name:
                    raise Violation(f"{at} is read by {other} and by {member.name}")
            if member.alive and not member.hands.positions.keys() <= member.told:
                secret = sorted(member.hands.positions.keys() - member.told)
                self.lies.append(f"{member.name} reads {secret} and its application does not know")
        if self.lies:
            raise Violation(self.lies[0])

    def settled(self) -> str | None:
        """What is not yet as the plan says; None if all is."""
        alive = [member for member in self.members if member.alive]
        registered = {member.name: member.rebalancer.subscription for member in alive}
        there = self.server.children.get(paths.consumer_ids(GROUP), set())
        if there != set(registered):
            return f"registered are {sorted(there)}, alive are {sorted(registered)}"
        planned = plan({topic: range(count) for topic, count in self.topics.items()}, registered)
        owners = {
            (path.split("/")[-2], int(path.split("/")[-1])): node.data.decode()
            for path, node in self.server.nodes.items()
            if path.startswith(f"{paths.group_owners(GROUP)}/") and node.owner
        }
        if owners != planned:
            return f"owners are {owners}, planned are {planned}"
        read = {at: member.name for member in alive for at in member.reads}
        if read != {at: thread.rpartition("-")[0] for at, thread in planned.items()}:
            return f"read are {read}, planned are {planned}"
        unsteady = [member.name for member in alive if member.rebalancer.state is not State.STEADY]
        return f"{unsteady} are not done" if unsteady else None

    # --- the end

    def heal(self) -> None:
        """Mend everything and see that it comes to rest; then let one join and one die, and see that it is quick."""
        for member in self.members:
            member.thaw()
            member.expire()
            member.reconnect()
            member.client.stumbles = False
        self._calm_down(500.0)
        self._change(self.join)
        if len(self.members) > 1:
            self._change(self._kill)

    def _kill(self, a: int, b: int) -> None:
        victim = min((member for member in self.members if member.alive), key=lambda member: member.name)
        victim.crash()
        victim.expire()

    def _change(self, change: Callable[[int, int], None]) -> None:
        before = {m.name: (m.rebalancer.history.attempts, m.client.nodes.operations) for m in self.members}
        change(0, 0)
        self._calm_down(10.0)
        for member in self.members:
            attempts, operations = before.get(member.name, (0, 0))
            attempts = member.rebalancer.history.attempts - attempts
            operations = member.client.nodes.operations - operations
            if attempts > 8 or operations > 80:
                raise Violation(f"{member.name} needed {attempts} attempts and {operations} requests for one change")

    def _calm_down(self, limit: float) -> None:
        end = self.now + limit
        while True:
            busy = True
            while busy:
                busy = False
                for member in [*self.members]:
                    for _ in range(len(member.client.queue) + len(member.news)):
                        member.deliver(0)
                    if member.runnable():
                        busy = True
                        member.run()
                        self.check()
            if self.settled() is None:
                return
            if self.now > end:
                raise Violation(f"it does not come to rest: {self.settled()}")
            self.now += 0.1 if limit < 100 else 2.0
