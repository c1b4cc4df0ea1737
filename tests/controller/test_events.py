"""What the controller does about each event, on a real ZooKeeper."""

from collections.abc import Iterable

import pytest

from kafka_classic.controller.controller import Election
from kafka_classic.controller.reign import Reign
from kafka_classic.wire.apis import Api
from kafka_classic.wire.control import EPOCH_DURING_DELETION, FULL, INCREMENTAL
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.configs import ConfigRegistry
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.partitions import PartitionState
from tests.controller.cluster import Cluster

T0, T1 = ("t", 0), ("t", 1)


def codes(results: dict[tuple[str, int], KafkaError | None]) -> dict[tuple[str, int], Error | None]:
    return {at: None if error is None else error.code for at, error in results.items()}


def test_each_broker_is_first_told_everything_then_changes_alone(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    cluster.active()
    for broker in cluster.brokers.values():
        [(first, greeting), (second, metadata), *_] = broker.heard
        assert (first, second) == (Api.LEADER_AND_ISR, Api.UPDATE_METADATA)
        assert greeting.type == FULL
        assert [topic.topic_name for topic in metadata.topic_states] == ["t"]
        assert {row.id: [e.port for e in row.endpoints] for row in metadata.live_brokers} == {1: [9001], 2: [9002]}
    cluster.create("u", (2,))
    cluster.until_state(("u", 0), 2, (2,))
    last = cluster.brokers[2].told(Api.LEADER_AND_ISR)[-1]
    assert last.type == INCREMENTAL
    assert [topic.topic_name for topic in last.topic_states] == ["u"]
    assert [(leader.broker_id, leader.host_name, leader.port) for leader in last.live_leaders] == [(2, "h", 9002)]
    [row] = cluster.brokers[2].led_rows(("u", 0))
    assert (row.is_new, row.partition_epoch, row.replicas) == (True, 0, (2,))
    assert cluster.brokers[1].led_rows(("u", 0)) == []  # it holds none of it


def test_a_topic_is_created_and_grows(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.active()
    info = cluster.create("t", (3, 1, 2))
    cluster.until_state(T0, 3, (3, 1, 2))
    cluster.topics.add_partitions("t", {1: (2, 3)}, info.version)
    cluster.until_state(T1, 2, (2, 3))
    assert cluster.states.read(*T0) == PartitionState(3, 0, (3, 1, 2), 1, 0)


def test_a_topic_without_a_live_replica_waits_for_one(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.active()
    cluster.create("t", (2, 3))
    cluster.until(lambda: T0 in cluster.brokers[1].seen)
    assert cluster.brokers[1].seen[T0].leader == -1
    assert cluster.brokers[1].seen[T0].offline_replicas == (2, 3)
    cluster.start(3)
    cluster.until_state(T0, 3, (3,))
    cluster.until(lambda: cluster.brokers[1].seen[T0].offline_replicas == (2,))


def test_a_dead_leader_is_followed_by_the_next_in_sync(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (2, 3, 1), (1, 2, 3))
    cluster.active()
    cluster.kill(2)
    cluster.until_state(T0, 3, (3, 1))
    cluster.until_state(T1, 1, (1, 3))
    for at in (T0, T1):
        state = cluster.states.read(*at)
        assert state is not None
        assert state.leader_epoch == 1
    assert cluster.brokers[1].seen[T0].offline_replicas == (2,)
    assert cluster.brokers[1].live == {1, 3}
    cluster.start(2)
    cluster.until(lambda: cluster.brokers[2].led_rows(T0))
    assert cluster.brokers[2].told(Api.LEADER_AND_ISR)[0].type == FULL
    assert cluster.brokers[2].led_rows(T0)[0].leader == 3
    cluster.until(lambda: all(b.seen[T0].offline_replicas == () for b in cluster.brokers.values()))


def test_the_last_in_sync_stays_so_and_leads_again_when_it_is_back(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1))
    cluster.active()
    cluster.shrink(T0, (2,))
    cluster.until_state(T0, 2, (2,))
    cluster.kill(2)
    cluster.until_state(T0, -1, (2,))
    cluster.start(2)
    cluster.until_state(T0, 2, (2,))
    state = cluster.states.read(*T0)
    assert state is not None
    assert state.leader_epoch == 2


def test_a_broker_that_was_away_for_an_instant_has_lost_its_leadership(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1), (1, 2))
    controller = cluster.active()
    broker = cluster.brokers[2]
    before = broker.epoch
    broker.stop()
    broker.start()
    assert broker.epoch > before
    cluster.until_state(T0, 1, (1,))
    cluster.until_state(T1, 1, (1,))
    assert controller.active


def test_an_unclean_leader_where_the_topic_allows_it(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1))
    cluster.create("loose", (2, 1), unclean_leader_election_enable="true")
    cluster.active()
    for at in (T0, ("loose", 0)):
        cluster.shrink(at, (2,))
        cluster.until_state(at, 2, (2,))
    cluster.kill(2)
    cluster.until_state(("loose", 0), 1, (1,))
    cluster.until_state(T0, -1, (2,))
    ConfigRegistry(cluster.session).set("topics", "t", {"unclean.leader.election.enable": "true"})
    cluster.until_state(T0, 1, (1,))


def test_an_unclean_leader_on_request(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1), (1,), (2,))
    controller = cluster.active()
    cluster.shrink(T0, (2,))
    cluster.until_state(T0, 2, (2,))
    cluster.kill(2)
    cluster.until_state(T0, -1, (2,))
    results = controller.elect_leaders(Election.UNCLEAN, [T0, T1, ("t", 2), ("t", 9)], 30.0)
    assert codes(results) == {
        T0: None,
        T1: Error.election_not_needed,
        ("t", 2): Error.eligible_leaders_not_available,
        ("t", 9): Error.unknown_topic_or_partition,
    }
    cluster.until_state(T0, 1, (1,))


def test_the_preferred_leader_on_request(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1), (1, 2), (2, 1))
    controller = cluster.active()
    cluster.kill(2)
    cluster.until_state(T0, 1, (1,))
    cluster.start(2)
    cluster.until(lambda: cluster.brokers[2].seen)
    assert codes(controller.elect_leaders(Election.PREFERRED, None, 30.0)) == {
        T0: Error.preferred_leader_not_available,
        T1: Error.election_not_needed,
        ("t", 2): Error.preferred_leader_not_available,
    }
    cluster.shrink(T0, (1, 2))
    cluster.until_state(T0, 1, (1, 2))
    assert codes(controller.elect_leaders(Election.PREFERRED, [T0], 30.0)) == {T0: None}
    cluster.until_state(T0, 2, (1, 2))


def test_leadership_goes_back_by_itself_above_the_limit(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1), (2, 1))
    cluster.active(
        leader_imbalance_check_interval_seconds="1",
        leader_imbalance_per_broker_percentage="50",
    )
    cluster.kill(2)
    cluster.until_state(T0, 1, (1,))
    cluster.start(2)
    cluster.until(lambda: cluster.brokers[2].seen)
    cluster.shrink(T1, (1, 2))
    cluster.until_state(T1, 2, (1, 2))  # 100 percent are led by others: what can go back does
    state = cluster.states.read(*T0)
    assert state is not None
    assert state.leader == 1  # not in sync; and from here on it is 50 percent


def test_leadership_is_not_given_back_to_a_broker_that_does_not_answer(cluster: Cluster) -> None:
    """It would not hear of it, and the leader that does its work would be told to stop: nobody would lead."""
    cluster.start(1, 2, 3)
    cluster.create("t", (2, 1), (3, 1))
    cluster.active(leader_imbalance_check_interval_seconds="1")
    for at, id in ((T0, 2), (T1, 3)):
        cluster.kill(id)
        cluster.until_state(at, 1, (1,))
    cluster.start(2, 3)
    cluster.until(lambda: cluster.brokers[2].seen and cluster.brokers[3].seen)
    cluster.brokers[2].deaf = True
    cluster.create("u", (1,))
    cluster.until(lambda: cluster.brokers[2].missed)
    cluster.shrink(T0, (1, 2))
    cluster.until_state(T0, 1, (1, 2), except_for=(2,))
    cluster.shrink(T1, (1, 3))
    cluster.until_state(T1, 3, (1, 3), except_for=(2,))  # the balance that gave this back had the other before it too
    cluster.until_state(T0, 1, (1, 2), except_for=(2,))
    cluster.brokers[2].deaf = False
    cluster.until_state(T0, 2, (1, 2))


def test_a_notice_of_other_in_sync_replicas_goes_to_all_and_is_deleted(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    cluster.active()
    written = cluster.shrink(T0, (1, 3))
    cluster.until_state(T0, 1, (1, 3))
    assert written.leader_epoch == 0
    assert cluster.brokers[2].seen[T0].zk_version == written.zk_version
    cluster.until(lambda: cluster.isr_changes.read() == {})
    assert len(cluster.brokers[1].led_rows(T0)) == 1  # the leader knows: it did it


def test_a_leader_that_leaves_the_in_sync_replicas_is_followed_by_another(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (2, 3, 1))
    cluster.active()
    cluster.shrink(T0, (3, 1))
    cluster.until_state(T0, 3, (3, 1))
    cluster.until(lambda: cluster.brokers[3].led_rows(T0)[-1].leader_epoch == 1)


def test_the_next_controller_follows_a_leader_that_left_the_in_sync_replicas(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (3, 2))
    cluster.active().stop()
    cluster.shrink(T0, (2,))
    cluster.controller(2)
    cluster.until_state(T0, 2, (2,))


def test_an_election_does_not_undo_what_a_leader_wrote_meanwhile(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    cluster.active()
    state = cluster.states.read(*T0)
    assert state is not None
    # No notice: the controller does not know that 2 is out of sync.
    cluster.states.write(*T0, PartitionState(1, state.leader_epoch, (1, 3), state.controller_epoch, state.zk_version))
    cluster.kill(1)
    cluster.until_state(T0, 3, (3,))


def test_a_topic_is_deleted_everywhere_and_may_be_created_anew(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (2,))
    cluster.create("stays", (1,))
    cluster.active()
    TopicDeletions(cluster.session).request("t")
    cluster.until(lambda: all(b.seen.keys() == {("stays", 0)} for b in cluster.brokers.values()))
    assert cluster.topics.all().keys() == {"stays"}
    assert TopicDeletions(cluster.session).pending() == []
    cluster.until(lambda: all(b.stops() for b in cluster.brokers.values()))
    assert cluster.brokers[1].stops() == [(T0, EPOCH_DURING_DELETION, True)]
    assert cluster.brokers[2].stops() == [(T0, EPOCH_DURING_DELETION, True), (T1, EPOCH_DURING_DELETION, True)]
    cluster.create("t", (2,))
    cluster.until_state(T0, 2, (2,))


def test_a_topic_that_is_made_anew_is_not_hit_by_the_news_of_the_deletion_before(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two were to be deleted, one after the other: the news of the second names the first too."""
    cluster.start(1)
    cluster.create("t", (1,))
    cluster.create("u", (1,))
    controller = cluster.active()
    done = Reign._delete
    heard: list[list[str]] = []

    def delete(reign: Reign, names: Iterable[str]) -> None:
        names = [*names]
        first = bool(names) and not heard
        if first:
            before = len(controller._queue)
            TopicDeletions(cluster.session).request("u")
            cluster.until(lambda: len(controller._queue) > before, "news of the second, while the first stands")
        done(reign, names)
        if first:
            cluster.create("t", (1,))
        if names:
            heard.append(names)

    monkeypatch.setattr(Reign, "_delete", delete)
    TopicDeletions(cluster.session).request("t")
    cluster.until(lambda: cluster.topics.get("u") is None and not controller._queue)
    assert heard[0] == ["t"]
    cluster.until_state(T0, 1, (1,))


def test_before_a_broker_stops_it_leads_nothing_that_others_hold(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (2, 3), (3, 2), (2,), (2, 1))
    controller = cluster.active()
    cluster.shrink(("t", 3), (2,))
    cluster.until_state(("t", 3), 2, (2,))
    epoch = cluster.brokers[2].epoch
    assert controller.shut_down(2, epoch) == [("t", 3)]  # nobody can take it over
    cluster.until_state(T0, 3, (3,))
    cluster.until_state(T1, 3, (3,))
    cluster.until_state(("t", 2), 2, (2,))  # nobody else holds it
    cluster.until(lambda: cluster.brokers[2].stops())
    assert cluster.brokers[2].stops() == [(T1, 1, False)]
    with pytest.raises(KafkaError) as refused:
        controller.shut_down(2, epoch - 1)
    assert refused.value.code is Error.stale_broker_epoch
    # It takes nothing over meanwhile.
    cluster.create("u", (2, 1))
    cluster.until_state(("u", 0), 1, (1,))
    cluster.kill(2)
    cluster.until_state(("t", 2), -1, (2,))
    cluster.start(2)
    cluster.until_state(("t", 2), 2, (2,))


def test_a_broker_that_hangs_holds_up_no_other(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.active()
    cluster.brokers[3].deaf = True
    cluster.create("t", (3, 1))
    cluster.until_state(T0, 3, (3, 1), except_for=(3,))
    assert cluster.brokers[3].seen == {}
    cluster.brokers[3].deaf = False
    cluster.until_state(T0, 3, (3, 1))
    cluster.brokers[3].deaf = True
    cluster.kill(3)
    cluster.until_state(T0, 1, (1,))
