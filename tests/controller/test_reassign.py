"""Partitions move to other brokers: added first, caught up, then the old ones leave."""

import pytest

from kafka_classic.controller.controller import Controller, Reassignment
from kafka_classic.wire.errors import Error, KafkaError
from kafka_classic.zk.topics import TopicInfo
from tests.controller.cluster import Cluster
from tests.controller.test_events import T0, T1, codes

Ids = tuple[int, ...]


@pytest.mark.parametrize(
    ("now", "target", "expected"),
    [
        (Reassignment((1, 2)), (3, 4), Reassignment((3, 4, 1, 2), (3, 4), (1, 2))),
        (Reassignment((1, 2)), (2, 3), Reassignment((2, 3, 1), (3,), (1,))),
        (Reassignment((1, 2)), (2, 1), Reassignment((2, 1))),
        (Reassignment((1, 2, 3)), (3,), Reassignment((3, 1, 2), (), (1, 2))),
        # Under way to 3 and 4, and now to 4 and 5: 3 is dropped, and it still comes from 1 and 2.
        (Reassignment((3, 4, 1, 2), (3, 4), (1, 2)), (4, 5), Reassignment((4, 5, 1, 2), (4, 5), (1, 2))),
        (Reassignment((3, 1, 2), (3,), ()), (1, 2), Reassignment((1, 2))),
    ],
)
def test_the_way_to_other_replicas(now: Reassignment, target: Ids, expected: Reassignment) -> None:
    assert now.towards(target) == expected
    assert expected.target == target
    assert set(expected.origin) == set(now.origin)


def moving(cluster: Cluster) -> Controller:
    """Partition 0 is on its way from 1 and 2 to 3 and 4, and none of those has caught up."""
    cluster.start(1, 2, 3, 4)
    cluster.create("t", (1, 2), (2, 1))
    controller = cluster.active()
    assert codes(controller.alter_reassignments({T0: (3, 4)}, 30.0)) == {T0: None}
    cluster.until(lambda: all(cluster.brokers[id].led_rows(T0) for id in (1, 2, 3, 4)))
    return controller


def topic(cluster: Cluster) -> TopicInfo:
    info = cluster.topics.get("t")
    assert info is not None
    return info


def test_new_replicas_are_added_and_the_old_leave_when_all_have_caught_up(cluster: Cluster) -> None:
    controller = moving(cluster)
    under_way = Reassignment((3, 4, 1, 2), (3, 4), (1, 2))
    assert controller.list_reassignments(None) == {T0: under_way}
    assert controller.list_reassignments([T1]) == {}
    info = topic(cluster)
    assert (info.assignment[0], info.adding, info.removing) == ((3, 4, 1, 2), {0: (3, 4)}, {0: (1, 2)})
    row = cluster.brokers[3].led_rows(T0)[-1]
    assert (row.leader, row.leader_epoch, row.isr) == (1, 1, (1, 2))
    assert (row.replicas, row.adding_replicas, row.removing_replicas) == tuple(under_way)
    cluster.shrink(T0, (1, 2, 3))
    cluster.until_state(T0, 1, (1, 2, 3))
    assert controller.list_reassignments(None) == {T0: under_way}
    cluster.shrink(T0, (1, 2, 3, 4))
    cluster.until_state(T0, 3, (3, 4))
    cluster.until(lambda: cluster.brokers[1].stops() and cluster.brokers[2].stops())
    assert cluster.brokers[1].stops() == cluster.brokers[2].stops() == [(T0, 2, True)]
    assert controller.list_reassignments(None) == {}
    info = topic(cluster)
    assert (info.assignment, info.adding, info.removing) == ({0: (3, 4), 1: (2, 1)}, None, None)
    cluster.until(lambda: cluster.brokers[4].led_rows(T0)[-1].replicas == (3, 4))


def test_a_leader_that_stays_leads_on(cluster: Cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("t", (1, 2))
    controller = cluster.active()
    controller.alter_reassignments({T0: (3, 1)}, 30.0)
    cluster.until(lambda: cluster.brokers[3].led_rows(T0))
    cluster.shrink(T0, (1, 2, 3))
    cluster.until_state(T0, 1, (1, 3))
    assert topic(cluster).assignment == {0: (3, 1)}


def test_another_order_is_settled_at_once(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    controller = cluster.active()
    controller.alter_reassignments({T0: (2, 1)}, 30.0)
    assert topic(cluster).assignment == {0: (2, 1)}
    assert controller.list_reassignments(None) == {}
    cluster.until_state(T0, 1, (1, 2))


def test_a_reassignment_is_cancelled(cluster: Cluster) -> None:
    controller = moving(cluster)
    cluster.shrink(T0, (1, 2, 3))
    cluster.until_state(T0, 1, (1, 2, 3))
    assert codes(controller.alter_reassignments({T0: None, T1: None}, 30.0)) == {
        T0: None,
        T1: Error.no_reassignment_in_progress,
    }
    cluster.until_state(T0, 1, (1, 2))
    cluster.until(lambda: cluster.brokers[3].stops() and cluster.brokers[4].stops())
    assert cluster.brokers[3].stops() == [(T0, 2, True)]
    info = topic(cluster)
    assert (info.assignment[0], info.adding, info.removing) == ((1, 2), None, None)


def test_a_reassignment_is_replaced_by_another(cluster: Cluster) -> None:
    controller = moving(cluster)
    cluster.start(5)
    cluster.until(lambda: cluster.brokers[5].seen)
    controller.alter_reassignments({T0: (4, 5)}, 30.0)
    assert controller.list_reassignments(None) == {T0: Reassignment((4, 5, 1, 2), (4, 5), (1, 2))}
    cluster.until(lambda: cluster.brokers[3].stops() and cluster.brokers[5].led_rows(T0))
    cluster.shrink(T0, (1, 2, 4, 5))
    cluster.until_state(T0, 4, (4, 5))


def test_what_cannot_be_is_refused(cluster: Cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1, 2))
    controller = cluster.active()
    for target in ((), (1, 1), (-1,), (1, 9)):
        assert codes(controller.alter_reassignments({T0: target}, 30.0)) == {T0: Error.invalid_replica_assignment}
    assert codes(controller.alter_reassignments({("u", 0): (1,)}, 30.0)) == {("u", 0): Error.unknown_topic_or_partition}
    assert topic(cluster).version == 0


def test_a_topic_that_grows_meanwhile_keeps_both(cluster: Cluster) -> None:
    controller = moving(cluster)
    cluster.topics.add_partitions("t", {2: (4,)}, topic(cluster).version)
    cluster.until_state(("t", 2), 4, (4,))
    cluster.until(lambda: cluster.brokers[1].led_rows(T0)[-1].leader_epoch == 2)
    cluster.shrink(T0, (1, 2, 3, 4))
    cluster.until_state(T0, 3, (3, 4))
    assert topic(cluster).assignment == {0: (3, 4), 1: (2, 1), 2: (4,)}
    assert controller.active


def test_the_next_controller_goes_on_with_it(cluster: Cluster) -> None:
    first = moving(cluster)
    first.stop()
    cluster.shrink(T0, (1, 2, 3, 4))
    second = cluster.controller(2)
    cluster.until_state(T0, 3, (3, 4))
    assert topic(cluster).assignment == {0: (3, 4), 1: (2, 1)}
    cluster.until(lambda: cluster.brokers[1].stops())
    cluster.until(lambda: second.active)
    assert second.list_reassignments(None) == {}


def test_the_next_controller_tells_a_leader_that_never_heard_of_it(cluster: Cluster) -> None:
    cluster.start(1, 2)
    info = cluster.create("t", (1,))
    cluster.active().stop()
    # The first controller wrote the topic, and was gone before it did any more.
    cluster.topics.set_assignment(TopicInfo("t", info.topic_id, {0: (2, 1)}, info.version, {0: (2,)}, {0: (1,)}))
    second = cluster.controller(2)
    cluster.until(lambda: cluster.brokers[1].led_rows(T0)[-1].leader_epoch == 1)
    assert cluster.brokers[1].led_rows(T0)[-1].replicas == (2, 1)
    cluster.until(lambda: second.active)
    assert second.list_reassignments(None) == {T0: Reassignment((2, 1), (2,), (1,))}
    cluster.shrink(T0, (1, 2))
    cluster.until_state(T0, 2, (2,))


def test_the_next_controller_ends_a_cancellation_that_was_half_done(cluster: Cluster) -> None:
    """The topic was written, the partition's state was not: it names a replica that is none any more."""
    first = moving(cluster)
    cluster.shrink(T0, (1, 2, 3))
    cluster.until_state(T0, 1, (1, 2, 3))
    first.stop()
    info = topic(cluster)
    cluster.topics.set_assignment(TopicInfo("t", info.topic_id, {**info.assignment, 0: (1, 2)}, info.version))
    second = cluster.controller(2)
    cluster.until(lambda: second.active)
    cluster.until_state(T0, 1, (1, 2))
    assert cluster.brokers[1].led_rows(T0)[-1].replicas == (1, 2)


def test_only_the_controller_answers(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.active()
    other = cluster.controller(2)
    with pytest.raises(KafkaError) as refused:
        other.list_reassignments(None)
    assert refused.value.code is Error.not_controller
