"""A cluster in memory around the real rules: one partition, a network that loses, delays and reorders, a ZooKeeper.

A schedule is a list of steps `(action, a, b)`. The two numbers choose among what is there (a broker, a message), modulo
how much there is, and an action that does not apply does nothing: so any part of a schedule is a schedule too, and a
failing one can be made small by leaving steps out (walk.py).

What is checked after every step:
- Log matching: whoever holds a record of an epoch at an offset holds the same one, after the same records.
- Invariant 2: what is below the high watermark of any running replica, so that a consumer may have read it, never
  changes. No high watermark is beyond its log's end.
- Invariant 1: every record that was acknowledged, or read, is at its offset in the log of *every* member of the ISR
  that ZooKeeper holds, dead or alive: whoever of them is elected, nothing is lost. (This does not wait for a truncation
  to be over: what a truncation in the ISR cuts was never committed.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from kafka_classic.replication.replica import NO_LEADER, Leadership, Replica, Taken
from tests.replication.memory_log import Entry, MemoryLog
from tests.replication.messages import (
    AskEpoch,
    EpochEnd,
    Fetch,
    Fetched,
    Message,
    Refused,
    State,
    Tell,
    WriteIsr,
    Written,
)

LAG = 10.0
Step = tuple[str, int, int]


class Violation(AssertionError):
    """Something that must always hold does not."""


class Broker:
    """A broker with its replica, as far as the rules can see one."""

    def __init__(self, id: int, rules: type[Replica]) -> None:
        self.id = id
        self.log = MemoryLog()
        self.checkpoint = 0  # of the high watermark
        self.running = True
        self.paused = False
        self.session = True
        self.skew = 0.0  # of its clock
        self._rules = rules
        self.start()

    def start(self) -> None:
        self.replica = self._rules(self.id, min(self.checkpoint, self.log.end_offset))
        self.replica.log = self.log
        self.asking = -1  # the token of the request to the leader whose answer counts
        self.writing = -1  # likewise of the one to ZooKeeper
        self.waiting: list[tuple[int, Entry]] = []  # acks=all: what is to be acknowledged, by offset

    @property
    def acts(self) -> bool:
        return self.running and not self.paused


class Cluster:
    """One partition on 3 to 5 brokers. The flags take a rule of the product away, to see that the checks notice."""

    def __init__(
        self,
        size: int,
        min_isr: int,
        rules: type[Replica] = Replica,
        *,
        fences: bool = True,
        compares: bool = True,
        clean: bool = True,
    ) -> None:
        self.min_isr = min_isr
        self.fences, self.compares, self.clean = fences, compares, clean
        self.now = 100.0
        self.replicas = tuple(range(1, size + 1))
        self.brokers = [Broker(id, rules) for id in self.replicas]
        self.network: list[Message] = []
        self.state = State(1, 0, self.replicas, 0)
        self.token = 0
        self.value = 0
        self.acknowledged: dict[int, Entry] = {}
        self.committed: list[Entry] = []  # what was below some high watermark
        self.written: dict[tuple[int, int], tuple[int, Entry | None]] = {}  # (epoch, offset): value, what stood before
        self.handlers: dict[type, Callable[..., None]] = {
            Tell: self._told,
            AskEpoch: self._epoch_asked,
            EpochEnd: self._cut,
            Fetch: self._fetch_asked,
            Fetched: self._fetched,
            Refused: self._refused,
            WriteIsr: self._write,
            Written: self._written,
        }
        self._tell_all()
        self.all_but_one_hear(size - 1, 0)

    # --- what can happen

    def step(self, action: str, a: int, b: int) -> None:
        """Do one step of a schedule and check everything."""
        self.ACTIONS[action](self, a, b)
        self.check()

    def _broker(self, a: int) -> Broker:
        return self.brokers[a % len(self.brokers)]

    def _leading(self) -> list[Broker]:
        """Those who believe to lead."""
        return [broker for broker in self.brokers if broker.replica.leading and broker.acts]

    def produce(self, a: int, b: int) -> None:
        """A producer writes with acks=all to whoever believes to lead."""
        leading = self._leading()
        if leading:
            broker = leading[a % len(leading)]
            if len(broker.replica.isr) >= self.min_isr:  # else NOT_ENOUGH_REPLICAS
                for _ in range(1 + b % 2):
                    self.value += 1
                    self._append(broker, (broker.replica.leader_epoch, self.value))
                    broker.waiting.append((broker.log.end_offset - 1, broker.log.entries[-1]))
                broker.replica.advance()

    def poll(self, a: int, b: int) -> None:
        """A follower sends its next request, if it awaits no answer or has given up waiting."""
        broker = self._broker(a)
        replica = broker.replica
        if broker.acts and not replica.leading and replica.leader != NO_LEADER and (broker.asking < 0 or b % 4 == 0):
            self.token += 1
            broker.asking = self.token
            if not replica.truncating:
                offset = broker.log.end_offset
                self.network.append(Fetch(replica.leader, broker.id, self.token, replica.leader_epoch, offset))
            elif broker.log.epochs.latest < 0:
                self._cut(EpochEnd(broker.id, self.token, -1, -1))
            else:
                latest = broker.log.epochs.latest
                self.network.append(AskEpoch(replica.leader, broker.id, self.token, replica.leader_epoch, latest))

    def follow(self, a: int, b: int) -> None:
        """A follower gives up waiting, if it does, and asks again; the answer comes at once."""
        self.poll(a, 0)
        self._exchange(self._broker(a).asking)

    def all_but_one_follow(self, a: int, b: int) -> None:
        """So that one stays behind: left to chance, all would be equally far most of the time."""
        for at in range(len(self.brokers)):
            if at != a % len(self.brokers):
                self.follow(at, b)

    def all_but_one_hear(self, a: int, b: int) -> None:
        """What the controller has said arrives, but for one broker."""
        self._hear_all_but([self._broker(a)])

    def others_hear(self, a: int, b: int) -> None:
        """What the controller has said arrives, but for those who believe to lead."""
        self._hear_all_but(self._leading())

    def _hear_all_but(self, brokers: list[Broker]) -> None:
        left_out = {broker.id for broker in brokers}
        for message in [message for message in self.network if type(message) is Tell and message.to not in left_out]:
            self._deliver(self.network.index(message))

    def hear(self, a: int, b: int) -> None:
        """What the controller last said to a broker arrives, as often as not to the new leader."""
        id = self.state.leader if b % 2 else self._broker(a).id
        said = [at for at, message in enumerate(self.network) if type(message) is Tell and message.to == id]
        if said:
            self._deliver(said[-1])

    def _exchange(self, token: int) -> None:
        for _ in range(2):
            for at, message in enumerate(self.network):
                if not isinstance(message, Tell) and message.token == token:
                    self._deliver(at)
                    break

    def deliver(self, a: int, b: int) -> None:
        """A message arrives, whichever."""
        if self.network:
            self._deliver(a % len(self.network))

    def arrive(self, a: int, b: int) -> None:
        """The newest message arrives, or the oldest."""
        if self.network:
            self._deliver(-1 if b % 2 else 0)

    def drop(self, a: int, b: int) -> None:
        if self.network:
            del self.network[a % len(self.network)]

    def look(self, a: int, b: int) -> None:
        """A leader looks whether its ISR is right, and goes on writing it if an answer does not come."""
        leading = self._leading()
        if not leading:
            return
        broker = leading[a % len(leading)]
        replica = broker.replica
        if replica.pending is not None:
            if b % 2:
                return
            isr = tuple(id for id in self.replicas if id in replica.pending)
        else:
            wanted = replica.shrunk(self.now + broker.skew, LAG)
            if wanted is None:
                return
            isr = replica.propose(wanted)
        self._write_isr(broker, isr)

    def _write_isr(self, broker: Broker, isr: tuple[int, ...]) -> None:
        self.token += 1
        broker.writing = self.token
        state = State(broker.id, broker.replica.leader_epoch, isr, broker.replica.version)
        self.network.append(WriteIsr(None, broker.id, self.token, state))

    def change_isr(self, a: int, b: int) -> None:
        """A leader looks at its ISR, and what it writes is written and answered at once."""
        token = self.token
        self.look(a, b)
        if self.token != token:
            self._exchange(self.token)

    def time_passes(self, a: int, b: int) -> None:
        self.now += (1.0, 4.0, LAG + 1)[b % 3]

    def lie(self, a: int, b: int) -> None:
        """A broker's clock jumps."""
        self._broker(a).skew = (0.0, LAG + 5, -LAG - 5)[b % 3]

    def save(self, a: int, b: int) -> None:
        """The high watermark is checkpointed."""
        broker = self._broker(a)
        if broker.running:
            broker.checkpoint = broker.replica.high_watermark

    def pause(self, a: int, b: int) -> None:
        self._broker(a).paused = True

    def resume(self, a: int, b: int) -> None:
        self._broker(a).paused = False

    def crash(self, a: int, b: int) -> None:
        """kill -9: the log is kept, the high watermark is that of the checkpoint, what was in flight to it is lost."""
        broker = self._broker(a)
        if broker.running:
            broker.running = broker.paused = False
            self.network = [message for message in self.network if message.to != broker.id]

    def expire(self, a: int, b: int) -> None:
        """The session ends; the broker may not know, and go on. The controller takes it out of the ISR."""
        broker = self._broker(a)
        if broker.session:
            broker.session = False
            self._gone(broker.id)

    def join(self, a: int, b: int) -> None:
        """A broker starts if it was killed, which it cannot before its old session is over, and registers."""
        broker = self._broker(a)
        if broker.session or broker.paused:
            return
        if not broker.running:
            broker.running = True
            broker.log.recover()
            broker.start()
        broker.session = True
        if self.state.leader == NO_LEADER:
            self._elect(self.state.isr)
        self._tell(broker.id)

    def move(self, a: int, b: int) -> None:
        """Another of the ISR is made leader, as for a shutdown; as often as not one that thinks it is."""
        able = [id for id in self.state.isr if self._live(id) and id != self.state.leader]
        if b % 2:
            able = [id for id in able if self.brokers[id - 1].replica.leading] or able
        if able and self.state.leader != NO_LEADER:
            self._change(able[a % len(able)], self.state.isr)

    def tell_again(self, a: int, b: int) -> None:
        """The controller, or the next one, repeats how things stand now."""
        self._tell(self._broker(a).id)

    ACTIONS: ClassVar[dict[str, Callable[[Cluster, int, int], None]]] = {
        "produce": produce,
        "poll": poll,
        "follow": follow,
        "all_but_one_follow": all_but_one_follow,
        "all_but_one_hear": all_but_one_hear,
        "others_hear": others_hear,
        "hear": hear,
        "deliver": deliver,
        "arrive": arrive,
        "drop": drop,
        "look": look,
        "change_isr": change_isr,
        "time_passes": time_passes,
        "lie": lie,
        "save": save,
        "pause": pause,
        "resume": resume,
        "crash": crash,
        "expire": expire,
        "join": join,
        "move": move,
        "tell_again": tell_again,
    }

    # --- the controller

    def _live(self, id: int) -> bool:
        return self.brokers[id - 1].session

    def _gone(self, id: int) -> None:
        state = self.state
        if id in state.isr or id == state.leader:
            # The last one of the ISR stays in it: nobody else may lead.
            isr = tuple(other for other in state.isr if other != id) or state.isr
            if state.leader == id:
                self._elect(isr)
            else:
                self._change(state.leader, isr)

    def _elect(self, isr: tuple[int, ...]) -> None:
        """The first of the replicas that is live and in the ISR; none if there is none."""
        able = [id for id in self.replicas if self._live(id) and (id in isr or not self.clean)]
        if able and able[0] not in isr:
            isr = (able[0],)
        if able or self.state.leader != NO_LEADER:
            self._change(able[0] if able else NO_LEADER, isr)

    def _change(self, leader: int, isr: tuple[int, ...]) -> None:
        self.state = State(leader, self.state.leader_epoch + 1, isr, self.state.version + 1)
        self._tell_all()

    def _tell_all(self) -> None:
        for id in self.replicas:
            self._tell(id)

    def _tell(self, id: int) -> None:
        broker = self.brokers[id - 1]
        if broker.session and broker.running:
            leader, epoch, isr, version = self.state
            self.network.append(Tell(id, Leadership(leader, epoch, isr, self.replicas, version)))

    # --- what arrives

    def _deliver(self, at: int) -> None:
        message = self.network[at]
        if message.to is not None:
            broker = self.brokers[message.to - 1]
            if broker.paused:
                return
            if not broker.running:
                del self.network[at]
                return
        del self.network[at]
        self.handlers[type(message)](message)

    def _told(self, message: Tell) -> None:
        broker = self.brokers[message.to - 1]
        pending = broker.replica.pending
        taken = broker.replica.take(message.told, self.now + broker.skew)
        if taken in (Taken.LEADS, Taken.FOLLOWS):
            broker.asking = broker.writing = -1
            if taken is Taken.FOLLOWS:
                broker.waiting = []  # NOT_LEADER_OR_FOLLOWER
        elif broker.replica.pending is not pending:
            broker.writing = -1

    def _refusal(self, message: AskEpoch | Fetch) -> bool:
        replica = self.brokers[message.to - 1].replica
        if not replica.leading or (self.fences and message.leader_epoch != replica.leader_epoch):
            self.network.append(Refused(message.by, message.token))
            return True
        return False

    def _epoch_asked(self, message: AskEpoch) -> None:
        if not self._refusal(message):
            log = self.brokers[message.to - 1].log
            answer = log.epochs.end_offset(message.epoch, log.end_offset)
            self.network.append(EpochEnd(message.by, message.token, *answer))

    def _cut(self, message: EpochEnd) -> None:
        broker = self.brokers[message.to - 1]
        if message.token == broker.asking:
            broker.asking = -1
            offset, done = broker.replica.cut(message.epoch, message.end)
            broker.log.truncate(offset)
            broker.replica.was_cut(done=done)

    def _fetch_asked(self, message: Fetch) -> None:
        if self._refusal(message):
            return
        broker = self.brokers[message.to - 1]
        replica, log, offset = broker.replica, broker.log, message.offset
        if offset > log.end_offset:
            self.network.append(Refused(message.by, message.token, diverged=True))
            return
        replica.fetched(message.by, offset, self.now + broker.skew)
        grown = replica.grown(message.by)
        if grown is not None:
            self._write_isr(broker, replica.propose(grown))
        entries = log.entries[offset : offset + 3]
        self.network.append(Fetched(message.by, message.token, offset, entries, replica.high_watermark))

    def _fetched(self, message: Fetched) -> None:
        broker = self.brokers[message.to - 1]
        if message.token == broker.asking:
            broker.asking = -1
            for entry in message.entries:
                self._append(broker, entry)
            broker.replica.followed(message.high_watermark)

    def _refused(self, message: Refused) -> None:
        broker = self.brokers[message.to - 1]
        if message.token == broker.asking:
            broker.asking = -1
            if message.diverged:
                broker.replica.truncating = True

    def _write(self, message: WriteIsr) -> None:
        state = message.state
        done = state.version == self.state.version or not self.compares
        if done:
            self.state = state._replace(version=self.state.version + 1)
        self.network.append(Written(message.by, message.token, self.state, done))

    def _written(self, message: Written) -> None:
        """Written, or what stands there is ours of before, or the controller's next word settles it."""
        broker = self.brokers[message.to - 1]
        state = message.state
        if message.token == broker.writing:
            broker.writing = -1
            if state.leader == broker.id and state.leader_epoch == broker.replica.leader_epoch:
                broker.replica.settle(state.isr, state.version)

    # --- what must hold

    def _append(self, broker: Broker, entry: Entry) -> None:
        log = broker.log
        is_here = entry[1], (log.entries[-1] if log.entries else None)
        known = self.written.setdefault((entry[0], log.end_offset), is_here)
        if known != is_here:
            raise Violation(f"two histories of epoch {entry[0]} at {log.end_offset}: {known} and {is_here}")
        log.append(entry)

    def check(self) -> None:
        """Everything that holds after every step."""
        committed = self.committed
        for broker in self.brokers:
            if not broker.running:
                continue
            replica, entries = broker.replica, broker.log.entries
            end = replica.high_watermark
            if end > len(entries):
                raise Violation(f"broker {broker.id}: the high watermark {end} is beyond the end {len(entries)}")
            if end > len(committed):
                committed += entries[len(committed) : end]
            if entries[:end] != committed[:end]:
                raise Violation(f"broker {broker.id} shows {entries[:end]}, a consumer has read {committed}")
            if replica.leading and broker.waiting and len(replica.isr) >= self.min_isr:
                for offset, entry in broker.waiting:
                    if offset < end:
                        self.acknowledged[offset] = entry
                        if committed[offset] != entry:
                            raise Violation(f"{entry} is acknowledged at {offset}, where {committed[offset]} stands")
                broker.waiting = [row for row in broker.waiting if row[0] >= end]
        for id in self.state.isr:
            entries = self.brokers[id - 1].log.entries
            if entries[: len(committed)] != committed:
                lost = [offset for offset, entry in self.acknowledged.items() if entry not in entries[offset:][:1]]
                raise Violation(
                    f"broker {id} is in the ISR and has {entries} of what is committed, {committed}; "
                    f"acknowledged and not there: {lost}"
                )

    # --- the end

    def heal(self) -> None:
        """Mend everything, let it run until it is quiet, and see that all are one again, and that all goes on."""
        for broker in self.brokers:
            broker.paused, broker.skew = False, 0.0
            broker.asking = -1  # whatever was lost is given up, and asked again
            if not broker.running:
                self.expire(broker.id - 1, 0)
            self.join(broker.id - 1, 0)
        self._settle_down()
        written = self.value
        self.produce(0, 0)
        if self.value == written:
            raise Violation("nobody takes a record when all is well")
        self._settle_down()
        first = self.brokers[0]
        for broker in self.brokers:
            replica = broker.replica
            if broker.log.entries != first.log.entries:
                raise Violation(f"logs differ at the end: {first.log.entries} and {broker.log.entries}")
            if replica.high_watermark != broker.log.end_offset or replica.truncating or replica.pending:
                raise Violation(f"broker {broker.id} is not done: {replica.high_watermark} of {broker.log.end_offset}")
        if len(self.state.isr) < len(self.brokers) or self.value not in [v for _, v in self.acknowledged.values()]:
            raise Violation(f"{self.value} is not acknowledged by all: {self.state}")

    def _settle_down(self) -> None:
        before = None
        for _ in range(100):
            self.now += 1.0
            self._tell_all()
            self._deliver_all()
            for _ in range(2):
                for broker in self.brokers:
                    self.follow(broker.id - 1, 0)
                self.check()
            self.look(0, 0)
            self._deliver_all()
            after = (
                self.state,
                [(b.log.end_offset, b.log.epochs.latest) for b in self.brokers],
                [(b.replica.high_watermark, b.replica.truncating) for b in self.brokers],
            )
            if after == before:
                return
            before = after
        raise Violation(f"it does not come to rest: {self.state}")

    def _deliver_all(self) -> None:
        while self.network:
            self.step("arrive", 0, 0)
