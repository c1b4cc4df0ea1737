"""What a controller does from its election to its end: every event of the cluster, one after the other.

Each event reads what changed, decides (`election.py`), writes to ZooKeeper in few transactions that carry the mandate,
and then tells the brokers, one request of a kind for each. What a crash leaves half done, the next controller's `load`
finds in ZooKeeper and carries on.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from kafka_classic.controller import leadership
from kafka_classic.controller.context import Context
from kafka_classic.controller.election import NO_LEADER, Choice, elect_first, elect_without_the_dead
from kafka_classic.controller.messages import Outbox
from kafka_classic.controller.reassign import Reassignments
from kafka_classic.controller.senders import Connect, Sender
from kafka_classic.settings import BrokerSettings
from kafka_classic.wire.apis import Api
from kafka_classic.zk.brokers import BrokerInfo, BrokerRegistry
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.controller import Mandate
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.isr_changes import IsrChanges
from kafka_classic.zk.partitions import At, PartitionState, PartitionStates
from kafka_classic.zk.session import Session
from kafka_classic.zk.topics import TopicInfo, TopicRegistry
from kafka_classic.zk.watching import Watching

log = logging.getLogger(__name__)

UNCLEAN = "unclean.leader.election.enable"
Event = Callable[["Reign"], object]


class Reign:
    """The work under one mandate; only the controller's one worker calls it."""

    def __init__(
        self,
        session: Session,
        settings: BrokerSettings,
        mandate: Mandate,
        connect: Connect,
        deposed: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.mandate = mandate
        self.context = Context()
        self.topics = TopicRegistry(session)
        self.reassignments = Reassignments(self)
        self.outbox = Outbox(self.context, settings.broker_id, mandate.epoch, settings.inter_broker_listener_name)
        self._session = session
        self._connect = connect
        self._deposed = deposed
        self._brokers = BrokerRegistry(session)
        self._states = PartitionStates(session)
        self._configs = ConfigRegistry(session)
        self._deletions = TopicDeletions(session)
        self._isr_changes = IsrChanges(session)
        self._senders: dict[int, Sender] = {}
        self._watches: list[Watching] = []
        self._ended = False

    # --- life

    def load(self) -> None:
        """Reads everything, mends what happened while there was no controller, and greets every broker."""
        context = self.context
        self._join(self._brokers.live())
        context.topics = self.topics.all()
        notices = self._isr_changes.read()
        self._delete(self._deletions.pending())
        context.states = self._states.read_many([*context.partitions()])
        self._isr_changes.delete([*notices])
        self._create_states()
        self._distrust_the_reborn()
        self._bury(context.with_the_dead())
        self.reassignments.resume([*context.reassigning(), *context.astray()])
        self._send()

    def watch(self, put: Callable[[Event], None]) -> None:
        """Hears of every change from now on, and of what changed since it was loaded."""
        self._watches += [
            self._brokers.watch(lambda brokers: put(lambda reign: reign.brokers_changed(brokers)), wait=False),
            self.topics.watch(lambda topics: put(lambda reign: reign.topics_changed(topics)), wait=False),
            self._deletions.watch(lambda _: put(lambda reign: reign.deletions_asked()), wait=False),
            self._isr_changes.watch(lambda: put(lambda reign: reign.isr_changed()), wait=False),
            self._configs.watch(
                lambda kind, name, values: (
                    put(lambda reign: reign.topic_configured(name, values)) if kind == "topics" else None
                ),
                wait=False,
            ),
        ]
        if self._ended:
            self.end()

    def end(self) -> None:
        """Tells nobody anything more; may be called by anyone, and does not wait."""
        self._ended = True
        for watch in self._watches:
            watch.stop()
        for sender in [*self._senders.values()]:
            sender.stop()

    # --- events

    def brokers_changed(self, live: dict[int, BrokerInfo]) -> None:
        """Brokers came or went; one whose epoch changed did both."""
        context = self.context
        gone = {id for id, info in context.brokers.items() if id not in live or live[id].epoch != info.epoch}
        came = {id for id in live if id in gone or id not in context.brokers}
        if gone or came:
            log.info("brokers gone: %s, come: %s", sorted(gone), sorted(came))
        elif live == context.brokers:
            return
        self.outbox.brokers_changed = True
        for id in gone:
            self._senders.pop(id).stop()
            context.stopping.discard(id)
        context.brokers = {id: live[id] for id in live if id not in came}
        if gone:
            self._bury(context.with_the_dead())
        if came:
            self._join(live)
            self._create_states()
            self._bury(context.with_the_dead())
        self.outbox.seen.update(context.held_by(gone | came))
        self._send()

    def topics_changed(self, seen: dict[str, TopicInfo]) -> None:
        """Topics came, grew or went; `seen` may be older than what this controller itself has written since."""
        known = self.context.topics
        doubtful = sorted(
            {name for name, info in seen.items() if name not in known or _is_newer(info, known[name])}
            | (known.keys() - seen.keys())
        )
        now = self.topics.get_many(doubtful)
        changed = []
        for name in doubtful:
            old, new = known.get(name), now.get(name)
            if old is not None and (new is None or new.topic_id != old.topic_id):
                self._forget(old)
        self._send()  # a new topic of that name is told of after the old one is gone
        for name in doubtful:
            old, new = known.get(name), now.get(name)
            if new is not None and (old is None or _is_newer(new, old)):
                known[name] = new
                changed.append(name)
        self._create_states()
        self.reassignments.resume([at for at in self.context.reassigning() if at[0] in changed])
        self._send()

    def deletions_asked(self) -> None:
        """Topics are to go: those that are asked for now. One that the news named may be gone, and made anew."""
        self._delete(self._deletions.pending())
        self._send()

    def isr_changed(self) -> None:
        """Leaders changed their in-sync replicas: all brokers are to know, and a reassignment may be complete."""
        context = self.context
        notices = self._isr_changes.read()
        named = {at for rows in notices.values() for at in rows if context.knows(at)}
        for at, state in self._states.read_many(sorted(named)).items():
            if at not in context.states or state.zk_version > context.states[at].zk_version:
                context.states[at] = state
                self.outbox.seen.add(at)
        self._isr_changes.delete([*notices])
        self._bury(context.with_the_dead(named))
        self.reassignments.complete([at for at in context.reassigning() if at in named])
        self._send()

    def topic_configured(self, name: str, values: dict[str, str]) -> None:
        """An unclean election may have become allowed."""
        if values.get(UNCLEAN, "").lower() == "true":
            self._bury([at for at in self.context.with_the_dead() if at[0] == name])
            self._send()

    def balance(self) -> None:
        leadership.balance(self)
        self._send()

    def do(self, work: Callable[["Reign"], object]) -> object:
        """Something that a client asked for."""
        result = work(self)
        self._send()
        return result

    # --- deeds

    def move(self, partitions: Iterable[At], decide: Callable[[At, PartitionState], Choice | None]) -> set[At]:
        """Writes what `decide` chooses for each partition in a new leader epoch; returns those that were written.

        Where a leader changed its in-sync replicas meanwhile, it is decided anew with those.
        """
        context = self.context
        moved: set[At] = set()
        todo = [at for at in partitions if at in context.states]
        while todo:
            wanted = {}
            for at in todo:
                state = context.states[at]
                choice = decide(at, state)
                if choice is not None:
                    wanted[at] = replace(
                        state,
                        leader=choice.leader,
                        isr=choice.isr,
                        leader_epoch=state.leader_epoch + 1,
                        controller_epoch=self.mandate.epoch,
                    )
                    if choice.leader != NO_LEADER and choice.leader not in state.isr:
                        log.warning("%s-%d: broker %d leads though it is not in sync", *at, choice.leader)
            written, conflicts = self._states.write_many(wanted, self.mandate)
            context.states.update(written)
            moved |= written.keys()
            for at, now in conflicts.items():
                if now is None:
                    del context.states[at]
                else:
                    context.states[at] = now
            todo = [at for at, now in conflicts.items() if now is not None]
        self.outbox.changed(moved)
        return moved

    def is_silent(self, broker: int) -> bool:
        """Whether a broker owes an answer to what it was told."""
        sender = self._senders.get(broker)
        return sender is not None and sender.silent

    def _join(self, live: dict[int, BrokerInfo]) -> None:
        self.context.brokers = dict(live)
        timeout_s = self.settings.controller_socket_timeout_ms / 1000
        for id, info in live.items():
            if id not in self._senders:
                self._senders[id] = Sender(self._session, info, self._connect, timeout_s, self._deposed)
        if self._ended:
            self.end()

    def _bury(self, partitions: Iterable[At]) -> None:
        """Finds leaders for partitions whose own is gone, and takes the dead out of the in-sync replicas."""
        context = self.context
        partitions = [*partitions]
        able = context.able()
        lost = {
            at[0]
            for at in partitions
            if context.states[at].leader not in context.brokers and able.isdisjoint(context.states[at].isr)
        }
        unclean = self._unclean(lost)
        self.move(
            partitions,
            lambda at, state: elect_without_the_dead(
                context.replicas(at), state.leader, state.isr, context.brokers, able, unclean=at[0] in unclean
            ),
        )

    def _distrust_the_reborn(self) -> None:
        """Leadership goes from brokers that died and came back while there was no controller, if another can take it.

        One that is named in a state older than its registration may have lost what made it an in-sync replica: its
        disk was wiped, say. Where all of them were away, each is as good as the other and the leader stays, but in a
        new epoch: it may have cut the end of its log when it came back, and consumers can tell by the epoch.
        """
        context = self.context

        def steady(state: PartitionState) -> set[int]:
            return {id for id, info in context.brokers.items() if info.epoch <= state.written}

        def decide(at: At, state: PartitionState) -> Choice | None:
            trusted = steady(state)
            choice = elect_without_the_dead(
                context.replicas(at), state.leader, state.isr, trusted, trusted & context.able(), unclean=False
            )
            if choice is not None and choice.leader != NO_LEADER:
                return choice
            reborn = state.leader in context.able() and state.leader not in trusted
            return Choice(state.leader, state.isr) if reborn else None

        newest = max((info.epoch for info in context.brokers.values()), default=-1)
        # What this controller created a moment ago was not read, so it does not say when it was written.
        self.move([at for at, state in context.states.items() if 0 < state.written < newest], decide)

    def _unclean(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics that would rather lose records than wait for a replica in sync."""
        topics = sorted(topics)
        default = "true" if self.settings.unclean_leader_election_enable else "false"
        configs = self._configs.get_many("topics", topics)
        return {
            name
            for name in topics
            if (configs[name].values if name in configs else {}).get(UNCLEAN, default).lower() == "true"
        }

    def _create_states(self) -> None:
        """Gives partitions that never had one their first leader, if one of their replicas lives."""
        context, able = self.context, self.context.able()
        missing = context.without_state()
        if not missing:
            return
        wanted = {}
        for at in missing:
            choice = elect_first(context.replicas(at), able)
            if choice is not None:
                wanted[at] = PartitionState(choice.leader, 0, choice.isr, self.mandate.epoch)
        created = self._states.create_many(wanted, self.mandate)
        found = self._states.read_many([at for at in missing if at not in created])
        context.states.update(created)
        context.states.update(found)
        self.outbox.new.update(created)
        self.outbox.changed(created)
        self.outbox.changed(found)
        self.outbox.seen.update(missing)
        self._bury([at for at in context.with_the_dead() if at in found])

    def _delete(self, names: Iterable[str]) -> None:
        """Takes topics away: first out of ZooKeeper, so that whoever sees one gone may create it anew.

        A replica on a broker that is down is stray when that broker comes back: no greeting names it.
        """
        for name in names:
            if not self.settings.delete_topic_enable:
                self._deletions.done(name)
                continue
            info = self.context.topics.get(name) or self.topics.get(name)
            self.topics.delete(name, self.mandate)
            if info is not None:
                self._forget(info)
                log.info("topic %s is deleted", name)

    def _forget(self, info: TopicInfo) -> None:
        self.context.forget(info.name)
        self.outbox.delete(info)

    def _send(self) -> None:
        """Tells the brokers what the event changed. One that was told nothing yet is told everything."""
        outbox = self.outbox
        for id, sender in self._senders.items():
            info = self.context.brokers[id]
            full = not sender.greeted
            leader_and_isr = outbox.leader_and_isr(info, full=full)
            if leader_and_isr is not None:
                sender.put(Api.LEADER_AND_ISR, leader_and_isr)
            stop_replica = outbox.stop_replica(info)
            if stop_replica is not None:
                sender.put(Api.STOP_REPLICA, stop_replica)
            # The last: who reads it there finds that the broker has done its own part.
            if full or outbox.concerns_all:
                sender.put(Api.UPDATE_METADATA, outbox.update_metadata(info, full=full))
            sender.greeted = True
        outbox.clear()
        if self._ended:
            self.end()


def _is_newer(info: TopicInfo, known: TopicInfo) -> bool:
    return info.topic_id != known.topic_id or info.version > known.version
