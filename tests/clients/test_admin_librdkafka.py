"""librdkafka's admin calls."""

from __future__ import annotations

import re
import time
import warnings
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients.conftest import MakeTopic
from tests.clients.parties import DEADLINE_S, Refused, Sent, need_kcat, numbered, read, values
from tests.clients.with_kcat import kcat
from tests.clients.with_librdkafka import Librdkafka, admin_module, admin_of, error_name

NewTopic: Any = admin_module.NewTopic
NewPartitions: Any = admin_module.NewPartitions
OffsetSpec: Any = admin_module.OffsetSpec
ConfigResource: Any = admin_module.ConfigResource
ConfigEntry: Any = admin_module.ConfigEntry
ConfigSource: Any = admin_module.ConfigSource
Op: Any = admin_module.AlterConfigOpType


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Any:
    return admin_of(bootstrap)


def only(futures: dict[Any, Any]) -> Any:
    """The result of a call for one thing; what Kafka refuses is raised as Refused."""
    (future,) = futures.values()
    try:
        return future.result(DEADLINE_S)
    except confluent_kafka.KafkaException as error:
        raise Refused(error_name(error.args[0])) from error


def configs_of(admin: Any, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = only(admin.describe_configs([ConfigResource("topic", topic)]))
    return found


def test_a_topic_is_created_with_partitions_and_settings_and_described(admin: Any, unmade_topic: str) -> None:
    only(admin.create_topics([NewTopic(unmade_topic, 5, 1, config={"retention.ms": "12345"})]))
    listed = admin.list_topics(timeout=DEADLINE_S).topics[unmade_topic]
    assert sorted(listed.partitions) == [0, 1, 2, 3, 4]
    described = only(admin.describe_topics(TopicCollection([unmade_topic])))
    assert described.name == unmade_topic
    assert [p.id for p in described.partitions] == [0, 1, 2, 3, 4]
    assert {p.leader.id for p in described.partitions} == {0}
    assert all([node.id for node in p.replicas] == [0] == [node.id for node in p.isr] for p in described.partitions)
    assert described.topic_id is not None
    assert not described.is_internal
    configs = configs_of(admin, unmade_topic)
    assert configs["retention.ms"].value == "12345"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["segment.bytes"].value == str(1 << 30)
    assert configs["segment.bytes"].is_default


def test_a_topic_may_be_created_with_the_brokers_defaults(admin: Any, unmade_topic: str) -> None:
    only(admin.create_topics([NewTopic(unmade_topic)]))
    assert list(admin.list_topics(unmade_topic, timeout=DEADLINE_S).topics[unmade_topic].partitions) == [0]


def test_a_topic_may_be_created_with_an_assignment(admin: Any, unmade_topic: str) -> None:
    only(admin.create_topics([NewTopic(unmade_topic, 2, replica_assignment=[[0], [0]])]))
    assert len(admin.list_topics(unmade_topic, timeout=DEADLINE_S).topics[unmade_topic].partitions) == 2


def test_validating_creates_nothing(admin: Any, unmade_topic: str) -> None:
    only(admin.create_topics([NewTopic(unmade_topic, 1, 1)], validate_only=True))
    assert unmade_topic not in admin.list_topics(timeout=DEADLINE_S).topics
    with pytest.raises(Refused, match="INVALID_REPLICATION_FACTOR"):
        only(admin.create_topics([NewTopic(unmade_topic, 1, 3)], validate_only=True))


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (NewTopic("a name", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("..", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("a/b", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("x" * 250, 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("too-many-replicas", 1, 2), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("no-such-broker", 1, replica_assignment=[[7]]), "INVALID_REPLICA_ASSIGNMENT"),
        (NewTopic("unknown-setting", 1, 1, config={"retention.msec": "1"}), "INVALID_CONFIG"),
        (NewTopic("wrong-value", 1, 1, config={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (NewTopic("out-of-range", 1, 1, config={"segment.bytes": "-1"}), "INVALID_CONFIG"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.topic[:20],
)
def test_what_cannot_be_created_is_refused_by_kafkas_name_for_it(admin: Any, asked: Any, error: str) -> None:
    with pytest.raises(Refused, match=f"^{error}$"):
        only(admin.create_topics([asked]))
    assert asked.topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_topic_that_exists_is_refused(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        only(admin.create_topics([NewTopic(topic, 1, 1)]))


def test_of_many_topics_each_gets_its_own_answer(admin: Any, make_topic: MakeTopic, unmade_topic: str) -> None:
    there = make_topic()
    asked = [NewTopic(there, 1, 1), NewTopic(unmade_topic, 2, 1), NewTopic("not good", 1, 1)]
    futures = admin.create_topics(asked)
    answers = {name: future.exception(DEADLINE_S) for name, future in futures.items()}
    assert answers[unmade_topic] is None
    assert error_name(answers[there].args[0]) == "TOPIC_ALREADY_EXISTS"
    assert error_name(answers["not good"].args[0]) == "TOPIC_EXCEPTION"
    assert unmade_topic in admin.list_topics(timeout=DEADLINE_S).topics


def test_partitions_can_be_added_and_written_to(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    only(admin.create_partitions([NewPartitions(topic, 4)], validate_only=True))
    assert len(admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) == 2
    only(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) == 4
    Librdkafka().produce(bootstrap, topic, numbered(3, partition=3))
    assert values(read(Librdkafka(), bootstrap, topic, partition=3)) == values(numbered(3))


def test_partitions_never_become_fewer(admin: Any, make_topic: MakeTopic, unmade_topic: str) -> None:
    topic = make_topic(partitions=3)
    for count in (1, 3):
        with pytest.raises(Refused, match="INVALID_PARTITIONS"):
            only(admin.create_partitions([NewPartitions(topic, count)]))
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PART"):
        only(admin.create_partitions([NewPartitions(unmade_topic, 5)]))


def test_a_deleted_topic_is_gone_and_its_name_can_be_used_again(
    admin: Any, bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    Librdkafka().produce(bootstrap, topic, numbered(3))
    only(admin.delete_topics([topic]))
    until(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "the deletion")
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PART"):
        only(admin.delete_topics([topic]))
    only(admin.create_topics([NewTopic(topic, 1, 1)]))
    Librdkafka().produce(bootstrap, topic, [Sent(b"anew")])
    assert values(read(Librdkafka(), bootstrap, topic)) == [b"anew"]
    folders = [path.name for path in cluster.brokers[0].data_dir.iterdir() if path.name.startswith(topic)]
    assert until(lambda: folders, "the new log") == [f"{topic}-0"]


def test_the_cluster_is_described(admin: Any, cluster: LocalCluster) -> None:
    described = admin.describe_cluster(request_timeout=DEADLINE_S).result(DEADLINE_S)
    (node,) = described.nodes
    assert (node.id, f"{node.host}:{node.port}") == (0, cluster.bootstrap)
    assert described.controller.id == 0
    assert described.cluster_id == admin.list_topics(timeout=DEADLINE_S).cluster_id
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", described.cluster_id)


def test_settings_of_a_topic_change_one_by_one(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1000", "flush.ms": "77"})

    def alter(name: str, value: str | None, operation: Any, **options: Any) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        only(admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])], **options))

    alter("retention.ms", "2000", Op.SET)
    assert configs_of(admin, topic)["retention.ms"].value == "2000"
    assert configs_of(admin, topic)["flush.ms"].value == "77"
    alter("retention.ms", None, Op.DELETE)
    assert configs_of(admin, topic)["retention.ms"].value == str(7 * 24 * 3_600_000)
    alter("retention.ms", "3000", Op.SET, validate_only=True)
    assert configs_of(admin, topic)["retention.ms"].is_default
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        alter("retention.ms", "soon", Op.SET)
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        alter("no.such.setting", "1", Op.SET)


def test_settings_of_a_topic_are_replaced_as_a_whole(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1000", "flush.ms": "77"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        only(admin.alter_configs([ConfigResource("topic", topic, set_config={"retention.ms": "5000"})]))
    configs = configs_of(admin, topic)
    assert configs["retention.ms"].value == "5000"
    assert configs["flush.ms"].is_default


def test_a_changed_setting_counts_from_the_next_batch_on(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"max.message.bytes": "500"})
    with pytest.raises(Refused, match="MSG_SIZE_TOO_LARGE"):
        Librdkafka().produce(bootstrap, topic, numbered(1, size=1000))
    entry = ConfigEntry("max.message.bytes", "5000", incremental_operation=Op.SET)
    only(admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])]))
    Librdkafka().produce(bootstrap, topic, numbered(1, size=1000))


def test_settings_of_a_broker_are_described(admin: Any, cluster: LocalCluster) -> None:
    configs = only(admin.describe_configs([ConfigResource("broker", "0")]))
    assert configs["broker.id"].value == "0"
    assert configs["log.dirs"].value == str(cluster.brokers[0].data_dir)
    assert configs["log.dirs"].is_read_only
    assert configs["log.segment.bytes"].is_default


def test_settings_of_what_is_not_there_are_refused(admin: Any, unmade_topic: str) -> None:
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PART"):
        configs_of(admin, unmade_topic)


def test_records_are_deleted_up_to_an_offset(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Librdkafka().produce(bootstrap, topic, numbered(20))
    assert only(admin.delete_records([TopicPartition(topic, 0, 7)])).low_watermark == 7
    with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE|AUTO_OFFSET_RESET"):
        read(Librdkafka(), bootstrap, topic, 0)
    assert values(read(Librdkafka(), bootstrap, topic, 7)) == values(numbered(20)[7:])
    # Further back than the start is no error and changes nothing.
    assert only(admin.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 7
    with pytest.raises(Refused, match="OFFSET_OUT_OF_RANGE"):
        only(admin.delete_records([TopicPartition(topic, 0, 21)]))
    assert only(admin.delete_records([TopicPartition(topic, 0, confluent_kafka.OFFSET_END)])).low_watermark == 20
    Librdkafka().produce(bootstrap, topic, [Sent(b"next")])
    assert [m.offset for m in read(Librdkafka(), bootstrap, topic, 20)] == [20]


def test_offsets_are_listed_by_every_kind_of_question(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    first = int(time.time() * 1000) - 100_000
    # The largest timestamp is not the last.
    times = [first, first + 10, first + 500, first + 20]
    Librdkafka().produce(bootstrap, topic, [Sent(b".", timestamp=t) for t in times])
    only(admin.delete_records([TopicPartition(topic, 0, 1)]))

    def ask(spec: Any) -> tuple[int, int]:
        answer = only(
            admin.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        )
        return answer.offset, answer.timestamp

    assert ask(OffsetSpec.earliest())[0] == 1
    assert ask(OffsetSpec.latest())[0] == 4
    assert ask(OffsetSpec.max_timestamp()) == (2, first + 500)
    assert ask(OffsetSpec.for_timestamp(first + 15)) == (2, first + 500)
    assert ask(OffsetSpec.for_timestamp(first + 501))[0] == -1


def test_kcat_lists_brokers_topics_and_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    need_kcat()
    topic = make_topic(partitions=3)
    listed = kcat("-b", bootstrap, "-L", "-t", topic).decode()
    assert f"broker 0 at {bootstrap}" in listed
    assert f'topic "{topic}" with 3 partitions:' in listed
    assert "partition 2, leader 0, replicas: 0, isrs: 0" in listed
