"""What a broker tells of the cluster while the registries change under it."""

from uuid import UUID, uuid4

from kafka_classic.broker.cluster_view import ClusterView
from kafka_classic.wire.errors import Error
from kafka_classic.zk.brokers import BrokerInfo
from kafka_classic.zk.topics import TopicInfo


def info(id: int, *endpoints: str) -> BrokerInfo:
    return BrokerInfo(id, "h", 9092 + id, endpoints=endpoints or (f"PLAINTEXT://h:{9092 + id}",))


def test_a_broker_that_answers_is_in_its_own_answer_whatever_the_registry_says() -> None:
    view = ClusterView("c")
    view.serve_as(info(1))
    assert list(view.brokers) == [1]
    view.set_brokers({0: info(0)})
    assert sorted(view.brokers) == [0, 1]
    view.set_brokers({})
    assert list(view.brokers) == [1]
    registered = BrokerInfo(1, "h", 9093, epoch=7, endpoints=("PLAINTEXT://h:9093",))
    view.set_brokers({1: registered})
    assert view.brokers[1] is registered


def test_each_client_is_told_the_addresses_of_the_listener_it_came_by() -> None:
    view = ClusterView("c")
    view.set_brokers({0: info(0, "IN://a:1", "OUT://b:2"), 1: info(1, "IN://c:3")})
    assert [(b.id, h, p) for b, h, p in view.addresses("IN")] == [(0, "a", 1), (1, "c", 3)]
    assert [(b.id, h, p) for b, h, p in view.addresses("OUT")] == [(0, "b", 2)]


def test_a_partition_elsewhere_or_nowhere_is_told_apart() -> None:
    view = ClusterView("c")
    topic_id = uuid4()
    view.set_topics({"t": TopicInfo("t", topic_id, {0: (5,)})})
    assert view.why_not_here("t", 0) is Error.not_leader_or_follower
    assert view.why_not_here(topic_id, 0) is Error.not_leader_or_follower
    assert view.why_not_here("t", 1) is Error.unknown_topic_or_partition
    assert view.why_not_here("u", 0) is Error.unknown_topic_or_partition
    assert view.why_not_here(UUID(int=9), 0) is Error.unknown_topic_id
