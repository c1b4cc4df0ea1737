"""One controller follows another, carries on what was half done, and the earlier one can do no harm."""

from functools import partial

import pytest

from kafka_classic.wire.apis import Api
from kafka_classic.wire.control import FULL
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.controller import Mandate
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.errors import ControllerFenced
from kafka_classic.zk.partitions import PartitionState
from kafka_classic.zk.session import SessionState
from kafka_classic.zk.znodes import Delete, Znodes
from tests.controller.cluster import Broker, Cluster
from tests.controller.test_events import T0, T1
from tests.zk.breaking import expire


def greeted_twice(broker: Broker) -> bool:
    return [body.type for body in broker.told(Api.LEADER_AND_ISR)] == [FULL, FULL]


def test_another_takes_over_when_the_controller_stops(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    first = cluster.active(1)
    second = cluster.controller(2)
    assert not second.active
    first.stop()
    assert not first.active
    cluster.until(lambda: second.active)
    assert (first.epoch, second.epoch) == (None, 2)
    for broker in cluster.brokers.values():
        cluster.until(partial(greeted_twice, broker))
        assert broker.told(Api.LEADER_AND_ISR)[-1].controller_id == 2
    assert cluster.states.read(*T0) == PartitionState(1, 0, (1, 2), 1, 0)  # nothing to change


def test_a_broker_that_died_with_its_controller_is_buried_by_the_next(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2, 3), (2, 1))
    own = cluster.brokers[1].session
    assert own is not None
    first = cluster.controller(1, own)
    cluster.until_state(T1, 2, (2, 1))
    second = cluster.controller(2)
    cluster.kill(1)  # its session was the controller's too
    cluster.until_state(T0, 2, (2, 3))
    cluster.until_state(T1, 2, (2,))
    cluster.until(lambda: second.active)
    assert not first.active


def test_a_broker_that_was_away_while_there_was_no_controller_has_lost_its_leadership(cluster: Cluster) -> None:
    """It may have come back with an empty disk; the in-sync replica that stayed has everything."""
    cluster.start(1, 2)
    cluster.create("t", (2, 1), (1, 2), (2,))
    cluster.active(1).stop()
    cluster.brokers[2].stop()
    cluster.brokers[2].start()
    cluster.controller(1)
    cluster.until_state(T0, 1, (1,))
    cluster.until_state(T1, 1, (1,))
    cluster.until(lambda: cluster.states.read("t", 2) == PartitionState(2, 1, (2,), 2, 1))  # nobody else has it


def test_where_all_were_away_the_leader_stays_in_a_new_epoch(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (2, 1))
    cluster.active(1).stop()
    for broker in cluster.brokers.values():
        broker.stop()
    for broker in cluster.brokers.values():
        broker.start()
    cluster.controller(1)
    cluster.until(lambda: cluster.states.read(*T0) == PartitionState(2, 1, (2, 1), 2, 1))


def test_the_next_controller_ends_a_deletion_that_was_half_done(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    first = cluster.active(1)
    cluster.until_state(T1, 2, (2, 1))
    first.stop()
    TopicDeletions(cluster.session).request("t")
    nodes = Znodes(cluster.session)
    nodes.transact([Delete("/brokers/topics/t/partitions/1/state"), Delete("/brokers/topics/t/partitions/1")])
    cluster.controller(2)
    cluster.until(lambda: cluster.topics.all() == {} and TopicDeletions(cluster.session).pending() == [])
    cluster.until(lambda: all(b.seen == {} and len(b.stops()) == 2 for b in cluster.brokers.values()))


def test_what_came_while_there_was_no_controller_is_done(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    cluster.active(1).stop()
    cluster.create("u", (2, 1))
    cluster.shrink(T0, (1,))
    cluster.controller(2)
    cluster.until_state(("u", 0), 2, (2, 1))
    cluster.until_state(T0, 1, (1,))
    assert cluster.isr_changes.read() == {}


def test_a_controller_whose_session_expired_is_a_candidate_again(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    session = cluster.connect()
    first = cluster.controller(1, session)
    cluster.until(lambda: first.active)
    states: list[tuple[SessionState, bool]] = []
    session.add_listener(lambda state: states.append((state, first.active)))
    second = cluster.controller(2)
    expire(session)
    cluster.until(lambda: second.active or first.epoch == 2)
    assert (SessionState.SUSPENDED, False) in states  # not active from that very moment on
    third = second if second.active else first
    third.stop()
    cluster.until(lambda: first.active or second.active)
    assert cluster.election.current() in (1, 2)


def test_a_connection_that_came_back_raises_the_epoch_of_the_same_controller(cluster: Cluster) -> None:
    cluster.start(1)
    session = cluster.connect()
    controller = cluster.controller(1, session)
    cluster.until(lambda: controller.active)
    session.client._connection._socket.close()
    cluster.until(lambda: controller.epoch == 2)
    assert cluster.election.current() == 1


def test_a_znode_deleted_by_hand_makes_a_new_election(cluster: Cluster) -> None:
    cluster.start(1)
    controller = cluster.active(1)
    Znodes(cluster.session).delete("/controller")
    cluster.until(lambda: controller.epoch == 2)


def test_a_replaced_controller_writes_nothing_and_steps_down(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    first = cluster.active(1)
    # As if another one had been elected, and this one had not heard of it yet.
    epoch = Znodes(cluster.session).get("/controller_epoch")
    assert epoch is not None
    Znodes(cluster.session).set("/controller_epoch", b"7", epoch.version)
    with pytest.raises(KafkaError) as refused:
        first.alter_reassignments({T0: (2, 1)}, 30.0)
    assert refused.value.code is Error.not_controller
    info = cluster.topics.get("t")
    assert info is not None
    assert info.assignment == {0: (1, 2)}
    with pytest.raises(ControllerFenced):
        cluster.states.write_many({T0: PartitionState(2, 1, (2,), 1)}, Mandate(1, epoch.version))
    # The place is its own session's still, so it takes it again, in the next epoch.
    cluster.until(lambda: first.epoch == 8)


def test_a_broker_that_knows_a_later_controller_makes_the_earlier_look(cluster: Cluster) -> None:
    cluster.start(1)
    controller = cluster.active(1)
    epoch = Znodes(cluster.session).get("/controller_epoch")
    assert epoch is not None
    Znodes(cluster.session).set("/controller_epoch", b"7", epoch.version)
    cluster.brokers[1].newest_controller = 7
    cluster.start(2)  # makes it tell broker 1
    cluster.until(lambda: controller.epoch == 8)
    cluster.until(lambda: cluster.brokers[1].live == {1, 2})


def test_a_failover_of_two_thousand_partitions_is_one_request_to_a_broker(cluster: Cluster) -> None:
    count = 2000
    cluster.start(1, 2, 3)
    orders = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    cluster.active(1)
    cluster.create("t", *(orders[n % 3] for n in range(count)))
    cluster.until(lambda: all(len(b.seen) == count for b in cluster.brokers.values()))
    cluster.kill(2)
    cluster.until(lambda: all(row.leader != 2 for b in cluster.brokers.values() for row in b.seen.values()))
    states = cluster.states.read_many([("t", n) for n in range(count)])
    assert all(2 not in state.isr and state.leader_epoch == 1 for state in states.values())
    assert len(cluster.brokers[1].told(Api.LEADER_AND_ISR)) == 3  # the greeting, the creation, the failover
