"""Requests of every API in every version, and what a test wants to know of their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import kio.schema.alter_configs.v2.request as alter_configs_request
import kio.schema.api_versions.v4.request as api_versions_request
import kio.schema.create_partitions.v3.request as create_partitions_request
import kio.schema.create_topics.v7.request as create_topics_request
import kio.schema.delete_records.v2.request as delete_records_request
import kio.schema.delete_topics.v6.request as delete_topics_request
import kio.schema.describe_cluster.v2.request as describe_cluster_request
import kio.schema.describe_configs.v4.request as describe_configs_request
import kio.schema.describe_log_dirs.v5.request as describe_log_dirs_request
import kio.schema.fetch.v12.request as fetch_by_name_request
import kio.schema.fetch.v18.request as fetch_by_id_request
import kio.schema.incremental_alter_configs.v1.request as incremental_request
import kio.schema.init_producer_id.v6.request as init_producer_id_request
import kio.schema.list_offsets.v11.request as list_offsets_request
import kio.schema.metadata.v13.request as metadata_request
import kio.schema.offset_for_leader_epoch.v4.request as epoch_request
import kio.schema.produce.v12.request as produce_by_name_request
import kio.schema.produce.v13.request as produce_by_id_request

from kafka_classic.wire.apis import Api
from kafka_classic.wire.bodies import write_request
from tests.broker.raw import CLIENT, Raw

# kio's classes want its own number types; the writer takes plain numbers, and tests read better with those.
ALTER: Any = alter_configs_request
VERSIONS: Any = api_versions_request
PARTITIONS: Any = create_partitions_request
CREATE: Any = create_topics_request
DELETE_RECORDS: Any = delete_records_request
DELETE: Any = delete_topics_request
CLUSTER: Any = describe_cluster_request
CONFIGS: Any = describe_configs_request
LOG_DIRS: Any = describe_log_dirs_request
FETCH: dict[bool, Any] = {False: fetch_by_name_request, True: fetch_by_id_request}
INCREMENTAL: Any = incremental_request
PRODUCER_ID: Any = init_producer_id_request
OFFSETS: Any = list_offsets_request
METADATA: Any = metadata_request
EPOCH: Any = epoch_request
PRODUCE: dict[bool, Any] = {False: produce_by_name_request, True: produce_by_id_request}

Topic = str | UUID
TOPIC, BROKER = 2, 4
LONG_ENOUGH = 60_000


def ms(value: int) -> timedelta:
    return timedelta(milliseconds=value)


# --- produce and fetch


def produce_request(
    version: int, batches: Mapping[Topic, Mapping[int, bytes]], *, acks: int = 1, transactional_id: str | None = None
) -> Any:
    made, by_id = PRODUCE[version >= 13], version >= 13
    return made.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=ms(30_000),
        topic_data=tuple(
            made.TopicProduceData(
                **{"topic_id" if by_id else "name": topic},
                partition_data=tuple(
                    made.PartitionProduceData(index=index, records=records) for index, records in rows.items()
                ),
            )
            for topic, rows in batches.items()
        ),
    )


def produce_all(raw: Raw, version: int, batches: Mapping[Topic, Mapping[int, bytes]], **more: Any) -> dict[Any, Any]:
    """Produce to many partitions at once; returns (topic, partition) -> the answer's row."""
    answer = raw.call(Api.PRODUCE, version, produce_request(version, batches, **more))
    return {
        (topic.topic_id if version >= 13 else str(topic.name), int(row.index)): row
        for topic in answer.responses
        for row in topic.partition_responses
    }


def fetch_request(
    version: int,
    offsets: Mapping[Topic, Mapping[int, int]],
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    forgotten: Mapping[Topic, Iterable[int]] | None = None,
    leader_epoch: int = -1,
    rack: str = "",
) -> Any:
    made, named = FETCH[version >= 13], "topic_id" if version >= 13 else "topic"
    return made.FetchRequest(
        max_wait=ms(wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        rack_id=rack,
        topics=tuple(
            made.FetchTopic(
                **{named: topic},
                partitions=tuple(
                    made.FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=leader_epoch,
                    )
                    for index, offset in rows.items()
                ),
            )
            for topic, rows in offsets.items()
        ),
        forgotten_topics_data=tuple(
            made.ForgottenTopic(**{named: topic}, partitions=tuple(indexes))
            for topic, indexes in (forgotten or {}).items()
        ),
    )


def send_fetch(raw: Raw, version: int, offsets: Mapping[Topic, Mapping[int, int]], **more: Any) -> None:
    raw.send(write_request(Api.FETCH, version, 7, CLIENT, fetch_request(version, offsets, **more)))


def fetch_all(raw: Raw, version: int, offsets: Mapping[Topic, Mapping[int, int]], **more: Any) -> Any:
    return raw.call(Api.FETCH, version, fetch_request(version, offsets, **more))


def rows_of(answer: Any, by_id: bool = False) -> dict[tuple[Any, int], Any]:
    """(topic, partition) -> row of a Fetch answer."""
    return {
        (topic.topic_id if by_id else str(topic.topic), int(row.partition_index)): row
        for topic in answer.responses
        for row in topic.partitions
    }


# --- topics


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignment: Iterable[tuple[int, list[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> Any:
    rows = tuple(CREATE.CreatableReplicaAssignment(partition_index=i, broker_ids=tuple(ids)) for i, ids in assignment)
    return CREATE.CreatableTopic(
        name=name,
        num_partitions=-1 if rows else partitions,
        replication_factor=-1 if rows else factor,
        assignments=rows,
        configs=tuple(CREATE.CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()),
    )


def create_topics(raw: Raw, *topics: Any, version: int = 7, timeout_ms: int = LONG_ENOUGH, dry: bool = False) -> Any:
    body = CREATE.CreateTopicsRequest(topics=topics, timeout=ms(timeout_ms), validate_only=dry)
    return raw.call(Api.CREATE_TOPICS, version, body).topics


def delete_topics(raw: Raw, *topics: Topic, version: int = 6, timeout_ms: int = LONG_ENOUGH) -> Any:
    rows = tuple(
        DELETE.DeleteTopicState(name=None, topic_id=t)
        if isinstance(t, UUID)
        else DELETE.DeleteTopicState(name=t, topic_id=None)
        for t in topics
    )
    body: Any = DELETE.DeleteTopicsRequest(topics=rows, timeout=ms(timeout_ms))
    return raw.call(Api.DELETE_TOPICS, version, body).responses


def create_partitions(
    raw: Raw,
    name: str,
    count: int,
    assignments: Iterable[list[int]] | None = None,
    *,
    version: int = 3,
    dry: bool = False,
    timeout_ms: int = LONG_ENOUGH,
) -> Any:
    rows = (
        None
        if assignments is None
        else tuple(PARTITIONS.CreatePartitionsAssignment(broker_ids=tuple(ids)) for ids in assignments)
    )
    topic = PARTITIONS.CreatePartitionsTopic(name=name, count=count, assignments=rows)
    body = PARTITIONS.CreatePartitionsRequest(topics=(topic,), timeout=ms(timeout_ms), validate_only=dry)
    return raw.call(Api.CREATE_PARTITIONS, version, body).results[0]


def metadata(raw: Raw, *topics: Topic, version: int = 13, create: bool = False) -> Any:
    """Of the topics named, or of all."""
    rows = tuple(
        METADATA.MetadataRequestTopic(topic_id=t, name=None)
        if isinstance(t, UUID)
        else METADATA.MetadataRequestTopic(topic_id=None, name=t)
        for t in topics
    )
    body = METADATA.MetadataRequest(
        topics=rows or None, allow_auto_topic_creation=create, include_topic_authorized_operations=False
    )
    return raw.call(Api.METADATA, version, body)


def topic_id(raw: Raw, name: str) -> UUID:
    found = metadata(raw, name).topics[0].topic_id
    assert isinstance(found, UUID)
    return found


# --- settings


def describe_configs(
    raw: Raw,
    name: str,
    kind: int = TOPIC,
    keys: Iterable[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = True,
    docs: bool = True,
) -> Any:
    resource = CONFIGS.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else tuple(keys)
    )
    body = CONFIGS.DescribeConfigsRequest(resources=(resource,), include_synonyms=synonyms, include_documentation=docs)
    return raw.call(Api.DESCRIBE_CONFIGS, version, body).results[0]


def config(raw: Raw, topic: str, name: str) -> Any:
    """One row of a topic's settings."""
    (row,) = describe_configs(raw, topic, keys=[name]).configs
    return row


def change_configs(
    raw: Raw,
    name: str,
    *operations: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    dry: bool = False,
) -> Any:
    """IncrementalAlterConfigs: (name, 0 set / 1 delete / 2 append / 3 subtract, value) each."""
    rows = tuple(INCREMENTAL.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in operations)
    resource = INCREMENTAL.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    body = INCREMENTAL.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=dry)
    return raw.call(Api.INCREMENTAL_ALTER_CONFIGS, version, body).responses[0]


def set_configs(raw: Raw, topic: str, **values: str) -> None:
    """Set `max_message_bytes="10"` and the like; fails if refused."""
    changed = change_configs(raw, topic, *((name.replace("_", "."), 0, value) for name, value in values.items()))
    assert not changed.error_code, changed.error_message


def alter_configs(raw: Raw, name: str, values: Mapping[str, str], *, version: int = 2, dry: bool = False) -> Any:
    rows = tuple(ALTER.AlterableConfig(name=n, value=v) for n, v in values.items())
    resource = ALTER.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=rows)
    body = ALTER.AlterConfigsRequest(resources=(resource,), validate_only=dry)
    return raw.call(Api.ALTER_CONFIGS, version, body).responses[0]


# --- offsets and the rest


def list_offsets(raw: Raw, topic: str, target: int, partition: int = 0, *, version: int = 7, epoch: int = -1) -> Any:
    row = OFFSETS.ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=target)
    body = OFFSETS.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(OFFSETS.ListOffsetsTopic(name=topic, partitions=(row,)),),
        timeout=ms(30_000),
    )
    return raw.call(Api.LIST_OFFSETS, version, body).topics[0].partitions[0]


def epoch_end(raw: Raw, topic: str, epoch: int, partition: int = 0, *, version: int = 4, current: int = -1) -> Any:
    row = EPOCH.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    body = EPOCH.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(EPOCH.OffsetForLeaderTopic(topic=topic, partitions=(row,)),)
    )
    return raw.call(Api.OFFSET_FOR_LEADER_EPOCH, version, body).topics[0].partitions[0]


def delete_records(raw: Raw, topic: str, offset: int, partition: int = 0, *, version: int = 2) -> Any:
    row = DELETE_RECORDS.DeleteRecordsPartition(partition_index=partition, offset=offset)
    body = DELETE_RECORDS.DeleteRecordsRequest(
        topics=(DELETE_RECORDS.DeleteRecordsTopic(name=topic, partitions=(row,)),), timeout=ms(30_000)
    )
    return raw.call(Api.DELETE_RECORDS, version, body).topics[0].partitions[0]


def init_producer_id(raw: Raw, *, version: int = 5, transactional_id: str | None = None) -> Any:
    body = PRODUCER_ID.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout=ms(60_000))
    return raw.call(Api.INIT_PRODUCER_ID, version, body)


def api_versions(raw: Raw, *, version: int = 4, software: str = "raw", software_version: str = "1") -> Any:
    body = VERSIONS.ApiVersionsRequest(client_software_name=software, client_software_version=software_version)
    return raw.call(Api.API_VERSIONS, version, body)


def describe_cluster(raw: Raw, *, version: int = 2, endpoint_type: int = 1) -> Any:
    body = CLUSTER.DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=endpoint_type, include_fenced_brokers=False
    )
    return raw.call(Api.DESCRIBE_CLUSTER, version, body)


def describe_log_dirs(raw: Raw, wanted: Mapping[str, Iterable[int]] | None = None, *, version: int = 5) -> Any:
    topics = (
        None
        if wanted is None
        else tuple(LOG_DIRS.DescribableLogDirTopic(topic=t, partitions=tuple(i)) for t, i in wanted.items())
    )
    return raw.call(Api.DESCRIBE_LOG_DIRS, version, LOG_DIRS.DescribeLogDirsRequest(topics=topics))
