"""aiokafka's admin calls, which ask by older versions of the requests than the others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from kafka_classic.testing.cluster import LocalCluster
from tests.clients.conftest import MakeTopic
from tests.clients.parties import DEADLINE_S, numbered, read, values
from tests.clients.with_aiokafka import Aiokafka

NewTopic: Any = aiokafka.admin.NewTopic
errors: Any = aiokafka.errors


@asynccontextmanager
async def administering(bootstrap: str) -> AsyncIterator[Any]:
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def ask(bootstrap: str, question: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with administering(bootstrap) as admin:
            return await asyncio.wait_for(question(admin), DEADLINE_S)

    return asyncio.run(run())


def created(bootstrap: str, topic: Any, **options: Any) -> int:
    """Create one topic; the error code of the answer."""
    answer = ask(bootstrap, lambda admin: admin.create_topics([topic], **options))
    ((_, code, *_),) = answer.topic_errors
    return int(code)


def topic_configs(bootstrap: str, topic: str) -> dict[str, str]:
    (answer,) = ask(bootstrap, lambda admin: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    ((code, _, _, name, rows),) = answer.resources
    assert (code, name) == (0, topic)
    return {row[0]: row[1] for row in rows}


def test_a_topic_is_created_listed_and_described(bootstrap: str, unmade_topic: str) -> None:
    assert created(bootstrap, NewTopic(unmade_topic, 3, 1, topic_configs={"retention.ms": "999"})) == 0
    assert unmade_topic in ask(bootstrap, lambda admin: admin.list_topics())
    (described,) = ask(bootstrap, lambda admin: admin.describe_topics([unmade_topic]))
    assert described["topic"] == unmade_topic
    assert sorted(p["partition"] for p in described["partitions"]) == [0, 1, 2]
    assert {p["leader"] for p in described["partitions"]} == {0}
    assert topic_configs(bootstrap, unmade_topic)["retention.ms"] == "999"


def test_validating_creates_nothing(bootstrap: str, unmade_topic: str) -> None:
    assert created(bootstrap, NewTopic(unmade_topic, 3, 1), validate_only=True) == 0
    assert unmade_topic not in ask(bootstrap, lambda admin: admin.list_topics())


def test_what_cannot_be_created_is_refused(bootstrap: str, make_topic: MakeTopic, unmade_topic: str) -> None:
    assert created(bootstrap, NewTopic("not good", 1, 1)) == errors.InvalidTopicError.errno
    assert created(bootstrap, NewTopic(make_topic(), 1, 1)) == errors.TopicAlreadyExistsError.errno
    assert created(bootstrap, NewTopic(unmade_topic, 1, 9)) == errors.InvalidReplicationFactorError.errno
    assert created(bootstrap, NewTopic(unmade_topic, 0, 1)) == errors.InvalidPartitionsError.errno


def test_the_cluster_is_described(bootstrap: str) -> None:
    described = ask(bootstrap, lambda admin: admin.describe_cluster())
    (broker,) = described["brokers"]
    assert (broker["node_id"], f"{broker['host']}:{broker['port']}") == (0, bootstrap)
    assert described["controller_id"] == 0


def test_partitions_can_be_added(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    ask(bootstrap, lambda admin: admin.create_partitions({topic: aiokafka.admin.NewPartitions(3)}))
    (described,) = ask(bootstrap, lambda admin: admin.describe_topics([topic]))
    assert len(described["partitions"]) == 3
    with pytest.raises(errors.InvalidPartitionsError):
        ask(bootstrap, lambda admin: admin.create_partitions({topic: aiokafka.admin.NewPartitions(2)}))


def test_settings_of_a_topic_are_replaced_as_a_whole(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(configs={"retention.ms": "1000", "flush.ms": "77"})
    changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "2000"})
    (answer,) = ask(bootstrap, lambda admin: admin.alter_configs([changed]))
    assert answer.resources[0][0] == 0
    configs = topic_configs(bootstrap, topic)
    assert configs["retention.ms"] == "2000"
    assert configs["flush.ms"] == str(2**63 - 1)


def test_settings_of_a_broker_are_described(bootstrap: str, cluster: LocalCluster) -> None:
    broker = ConfigResource(ConfigResourceType.BROKER, "0", {"log.dirs": None})
    (answer,) = ask(bootstrap, lambda admin: admin.describe_configs([broker]))
    ((code, _, _, name, rows),) = answer.resources
    assert (code, name) == (0, "0")
    assert [tuple(row[:2]) for row in rows] == [("log.dirs", str(cluster.brokers[0].data_dir))]


def test_records_are_deleted_up_to_an_offset(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    Aiokafka().produce(bootstrap, topic, numbered(10))
    place = aiokafka.TopicPartition(topic, 0)
    deleted = {place: aiokafka.admin.RecordsToDelete(before_offset=6)}
    assert ask(bootstrap, lambda admin: admin.delete_records(deleted)) == {place: 6}
    assert values(read(Aiokafka(), bootstrap, topic, 6)) == values(numbered(10)[6:])


def test_a_topic_is_deleted(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    answer = ask(bootstrap, lambda admin: admin.delete_topics([topic]))
    assert [tuple(row) for row in answer.topic_error_codes] == [(topic, 0)]
    assert topic not in ask(bootstrap, lambda admin: admin.list_topics())
    answer = ask(bootstrap, lambda admin: admin.delete_topics([topic]))
    assert answer.topic_error_codes[0][1] == errors.UnknownTopicOrPartitionError.errno
