"""kafka-python's admin calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import kafka
import kafka.admin
import kafka.errors
import pytest

from kafka_classic.testing.cluster import LocalCluster
from kafka_classic.testing.waiting import until
from tests.clients.conftest import MakeTopic
from tests.clients.parties import DEADLINE_S, Sent, numbered, read, values
from tests.clients.with_kafka_python import KafkaPython

DEADLINE_MS = int(DEADLINE_S * 1000)
Place: Any = kafka.TopicPartition
Spec: Any = kafka.OffsetSpec


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Any]:
    found = kafka.KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=DEADLINE_MS)
    yield found
    found.close()


def resource(topic: str, configs: Any = None) -> Any:
    return kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic, configs)


def configs_of(admin: Any, topic: str, which: str = "all") -> dict[str, Any]:
    found: dict[str, Any] = admin.describe_configs([resource(topic)], config_filter=which)["topic"][topic]
    return found


def partitions_of(admin: Any, topic: str) -> list[int]:
    (described,) = admin.describe_topics([topic])
    return sorted(partition["partition_index"] for partition in described["partitions"])


def test_a_topic_is_created_with_partitions_and_settings_and_described(admin: Any, unmade_topic: str) -> None:
    asked = {unmade_topic: {"num_partitions": 4, "replication_factor": 1, "configs": {"segment.bytes": "1000000"}}}
    (answer,) = admin.create_topics(asked, wait_for_metadata=True)["topics"]
    assert (answer["error_code"], answer["num_partitions"], answer["replication_factor"]) == (0, 4, 1)
    assert answer["configs"]["segment.bytes"]["value"] == "1000000"
    assert unmade_topic in admin.list_topics()
    (described,) = admin.describe_topics([unmade_topic])
    assert described["name"] == unmade_topic
    assert described["topic_id"] == answer["topic_id"]
    assert [
        (p["partition_index"], p["leader_id"], p["replica_nodes"], p["isr_nodes"]) for p in described["partitions"]
    ] == [(number, 0, [0], [0]) for number in range(4)]
    (by_id,) = admin.describe_topics([uuid.UUID(described["topic_id"])])
    assert by_id["name"] == unmade_topic
    assert set(configs_of(admin, unmade_topic, "modified")) == {"segment.bytes"}


def test_validating_creates_nothing(admin: Any, unmade_topic: str) -> None:
    admin.create_topics([unmade_topic], validate_only=True)
    assert unmade_topic not in admin.list_topics()


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("not good", {}, kafka.errors.InvalidTopicError),
        ("three-replicas", {"num_partitions": 1, "replication_factor": 3}, kafka.errors.InvalidReplicationFactorError),
        ("no-partitions", {"num_partitions": 0, "replication_factor": 1}, kafka.errors.InvalidPartitionsError),
        ("bad-setting", {"configs": {"cleanup": "x"}}, kafka.errors.InvalidConfigurationError),
        ("gap", {"assignments": {1: [0]}}, kafka.errors.InvalidReplicationAssignmentError),
    ],
)
def test_what_cannot_be_created_is_refused(admin: Any, name: str, options: Any, error: Any) -> None:
    with pytest.raises(error):
        admin.create_topics({name: options})
    assert name not in admin.list_topics()


def test_a_topic_that_exists_is_refused(admin: Any, make_topic: MakeTopic) -> None:
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([make_topic()])


def test_an_unknown_topic_is_described_as_unknown(admin: Any, unmade_topic: str) -> None:
    (described,) = admin.describe_topics([unmade_topic])
    assert described["error_code"] == kafka.errors.UnknownTopicOrPartitionError.errno


def test_partitions_can_be_added(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic()
    admin.create_partitions({topic: 3}, validate_only=True)
    assert partitions_of(admin, topic) == [0]
    admin.create_partitions({topic: 3})
    assert partitions_of(admin, topic) == [0, 1, 2]
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        admin.create_partitions({topic: 2})


def test_a_topic_is_deleted_by_name_and_by_id(admin: Any, make_topic: MakeTopic) -> None:
    first, second = make_topic(), make_topic()
    (described,) = admin.describe_topics([second])
    admin.delete_topics([first])
    admin.delete_topics([uuid.UUID(described["topic_id"])])
    until(lambda: not {first, second} & set(admin.list_topics()), "the deletion")
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        admin.delete_topics([first])


def test_the_cluster_is_described(admin: Any, cluster: LocalCluster) -> None:
    described = admin.describe_cluster()
    (broker,) = described["brokers"]
    assert (broker["broker_id"], f"{broker['host']}:{broker['port']}") == (0, cluster.bootstrap)
    assert described["controller_id"] == 0
    assert described["cluster_id"]


def test_settings_of_a_topic_change_one_by_one(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"flush.ms": "77"})
    assert admin.alter_configs([resource(topic, {"retention.ms": "2000"})]) == {"topic": {topic: "OK"}}
    changed = configs_of(admin, topic, "modified")
    assert {name: row["value"] for name, row in changed.items()} == {"retention.ms": "2000", "flush.ms": "77"}
    admin.reset_configs([resource(topic, ["flush.ms"])])
    assert set(configs_of(admin, topic, "modified")) == {"retention.ms"}
    assert configs_of(admin, topic)["retention.ms"]["config_type"] == "LONG"


def test_settings_of_a_topic_are_replaced_as_a_whole(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"flush.ms": "77"})
    admin.alter_configs([resource(topic, {"retention.ms": "2000"})], incremental=False)
    changed = configs_of(admin, topic, "modified")
    # kafka-python adds what was set before, or the call would reset it.
    assert {name: row["value"] for name, row in changed.items()} == {"retention.ms": "2000", "flush.ms": "77"}


def test_synonyms_tell_where_a_setting_comes_from(admin: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1"})
    found = admin.describe_configs([resource(topic, ["retention.ms"])], include_synonyms=True, config_filter="all")[
        "topic"
    ][topic]
    assert set(found) == {"retention.ms"}
    synonyms = [(row["name"], row["value"]) for row in found["retention.ms"]["synonyms"]]
    assert synonyms == [("retention.ms", "1"), ("log.retention.ms", str(7 * 24 * 3_600_000))]


def test_settings_of_a_broker_are_described(admin: Any) -> None:
    broker = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.BROKER, "0")
    found = admin.describe_configs([broker], config_filter="all")["broker"]["0"]
    assert found["broker.id"]["value"] == "0"
    assert found["broker.id"]["read_only"]


def test_records_are_deleted_up_to_an_offset(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    KafkaPython().produce(bootstrap, topic, numbered(10) + numbered(10, partition=1))
    answers = admin.delete_records({Place(topic, 0): 4, Place(topic, 1): -1})
    assert {place.partition: answer["low_watermark"] for place, answer in answers.items()} == {0: 4, 1: 10}
    assert values(read(KafkaPython(), bootstrap, topic, 4)) == values(numbered(10)[4:])
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        admin.delete_records({Place(topic, 0): 11})


def test_offsets_are_listed_by_every_kind_of_question(admin: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    first = int(time.time() * 1000) - 100_000
    times = [first, first + 10, first + 500, first + 20]
    KafkaPython().produce(bootstrap, topic, [Sent(b".", timestamp=t) for t in times])

    def ask(spec: Any) -> tuple[int, int]:
        answer = admin.list_partition_offsets({Place(topic, 0): spec})[Place(topic, 0)]
        return answer.offset, answer.timestamp

    assert ask(Spec.EARLIEST) == (0, -1)
    assert ask(Spec.LATEST) == (4, -1)
    assert ask(Spec.MAX_TIMESTAMP) == (2, first + 500)
    assert ask(Spec.EARLIEST_LOCAL)[0] == 0
    assert ask(first + 5) == (1, first + 10)
    assert ask(first + 600) == (-1, -1)


def test_log_directories_are_described(
    admin: Any, bootstrap: str, cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    KafkaPython().produce(bootstrap, topic, numbered(10, size=100))
    (answer,) = admin.describe_log_dirs({topic: [0, 1]})
    (directory,) = answer["log_dirs"]
    assert directory["log_dir"] == str(cluster.brokers[0].data_dir)
    assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    (described,) = directory["topics"]
    sizes = {row["partition_index"]: row["partition_size"] for row in described["partitions"]}
    assert sizes[0] > 1000
    assert sizes[1] == 0
    assert {row["name"] for row in admin.describe_log_dirs()[0]["log_dirs"][0]["topics"]} >= {topic}
