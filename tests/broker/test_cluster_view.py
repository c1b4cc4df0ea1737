"""What a broker tells of the cluster while the controller tells it of changes."""

from uuid import UUID, uuid4

import gevent

from kafka_classic.broker.cluster_view import ClusterView, PartitionView, TopicView
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo

LED_BY_5 = PartitionView(5, 0, (5,), (5,), ())


def info(id: int, *endpoints: str) -> BrokerInfo:
    return BrokerInfo(id, "h", 9092 + id, endpoints=endpoints or (f"PLAINTEXT://h:{9092 + id}",))


def test_a_broker_that_answers_is_in_its_own_answer_whatever_the_controller_says() -> None:
    view = ClusterView("c")
    view.serve_as(info(1))
    assert list(view.brokers) == [1]
    view.update(0, {0: info(0)}, [], whole=True)
    assert sorted(view.brokers) == [0, 1]
    view.update(0, {}, [], whole=False)
    assert list(view.brokers) == [1]
    registered = BrokerInfo(1, "h", 9093, epoch=7, endpoints=("PLAINTEXT://h:9093",))
    view.update(0, {1: registered}, [], whole=False)
    assert view.brokers[1] is registered


def test_each_client_is_told_the_addresses_of_the_listener_it_came_by() -> None:
    view = ClusterView("c")
    view.update(0, {0: info(0, "IN://a:1", "OUT://b:2"), 1: info(1, "IN://c:3")}, [], whole=True)
    assert [(b.id, h, p) for b, h, p in view.addresses("IN")] == [(0, "a", 1), (1, "c", 3)]
    assert [(b.id, h, p) for b, h, p in view.addresses("OUT")] == [(0, "b", 2)]


def test_a_controller_that_is_gone_is_none() -> None:
    view = ClusterView("c")
    assert view.controller() == -1
    view.update(2, {1: info(1), 2: info(2)}, [], whole=True)
    assert view.controller() == 2
    view.update(2, {1: info(1)}, [], whole=False)
    assert view.controller() == -1


def test_a_partition_elsewhere_or_nowhere_is_told_apart() -> None:
    view = ClusterView("c")
    topic_id = uuid4()
    view.update(0, {}, [TopicView("t", topic_id, {0: LED_BY_5})], whole=True)
    assert view.why_not_here("t", 0) is Error.not_leader_or_follower
    assert view.why_not_here(topic_id, 0) is Error.not_leader_or_follower
    assert view.why_not_here("t", 1) is Error.unknown_topic_or_partition
    assert view.why_not_here("u", 0) is Error.unknown_topic_or_partition
    assert view.why_not_here(UUID(int=9), 0) is Error.unknown_topic_id


def test_what_changed_is_added_to_what_is_known_and_a_first_word_replaces_it() -> None:
    view = ClusterView("c")
    one, other = uuid4(), uuid4()
    view.update(0, {}, [TopicView("t", one, {0: LED_BY_5, 1: LED_BY_5})], whole=True)
    moved = LED_BY_5._replace(leader=6, leader_epoch=1)
    view.update(0, {}, [TopicView("t", one, {1: moved}), TopicView("u", other, {0: LED_BY_5})], whole=False)
    assert view.topics["t"].partitions == {0: LED_BY_5, 1: moved}
    assert (view.size_of("t"), view.id_of("u"), view.names[other]) == (2, other, "u")
    view.update(0, {}, [TopicView("v", uuid4(), {0: LED_BY_5})], whole=True)
    assert list(view.topics) == ["v"]


def test_a_topic_without_partitions_is_gone_unless_it_was_created_anew() -> None:
    view = ClusterView("c")
    old, new = uuid4(), uuid4()
    view.update(0, {}, [TopicView("t", old, {0: LED_BY_5, 1: LED_BY_5})], whole=True)
    view.update(0, {}, [TopicView("t", new, {0: LED_BY_5})], whole=False)
    view.update(0, {}, [TopicView("t", old, {})], whole=False)
    assert (view.id_of("t"), view.size_of("t")) == (new, 1)
    view.update(0, {}, [TopicView("t", new, {})], whole=False)
    assert view.id_of("t") is None


def test_hearsay_counts_where_it_knows_a_later_leader_of_what_is_known() -> None:
    view = ClusterView("c")
    id = uuid4()
    view.update(0, {}, [TopicView("t", id, {0: LED_BY_5, 1: LED_BY_5._replace(leader_epoch=3)})], whole=True)
    held = view.topics["t"]
    later = LED_BY_5._replace(leader=6, leader_epoch=2)
    assert (
        view.overhear(-1, [TopicView("t", id, {0: later, 1: later, 2: later}), TopicView("u", uuid4(), {0: later})])
        == 1
    )
    assert view.topics["t"].partitions == {0: later, 1: LED_BY_5._replace(leader_epoch=3)}
    assert held.partitions[0] is LED_BY_5
    assert view.topics.keys() == {"t"}
    assert view.overhear(-1, [TopicView("t", id, {0: later._replace(leader=7)})]) == 0  # the same epoch
    assert view.overhear(-1, [TopicView("t", uuid4(), {0: later._replace(leader_epoch=9)})]) == 0  # another's namesake
    assert view.topics["t"].partitions[0].leader == 6


def test_whoever_waits_for_the_view_wakes_up_on_hearsay() -> None:
    view = ClusterView("c")
    id = uuid4()
    view.update(0, {}, [TopicView("t", id, {0: LED_BY_5})], whole=True)
    later = LED_BY_5._replace(leader=6, leader_epoch=1)
    gevent.spawn(view.overhear, -1, [TopicView("t", id, {0: later})])
    assert view.wait_until(lambda: view.topics["t"].partitions[0].leader == 6, 60.0)


def test_another_brokers_word_on_the_controller_counts_where_it_knows_one() -> None:
    view = ClusterView("c")
    view.update(1, {1: info(1), 2: info(2)}, [], whole=True)
    view.overhear(2, [])
    assert view.controller() == 2
    view.overhear(-1, [])
    assert view.controller() == 2
