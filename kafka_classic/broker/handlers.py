"""The table of handlers: one function for each API besides Produce and Fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka_classic.broker.api_versions import api_versions
from kafka_classic.broker.configs import alter_configs, describe_configs, incremental_alter_configs
from kafka_classic.broker.controlling import (
    alter_partition_reassignments,
    controlled_shutdown,
    elect_leaders,
    list_partition_reassignments,
)
from kafka_classic.broker.coordinators import find_coordinator
from kafka_classic.broker.group_admin import delete_groups, describe_groups, list_groups
from kafka_classic.broker.group_members import heartbeat, join_group, leave_group, sync_group
from kafka_classic.broker.group_offsets import offset_commit, offset_delete, offset_fetch
from kafka_classic.broker.log_dirs import describe_log_dirs
from kafka_classic.broker.metadata import describe_cluster, metadata
from kafka_classic.broker.offsets import delete_records, list_offsets, offset_for_leader_epoch
from kafka_classic.broker.producer_ids import init_producer_id
from kafka_classic.broker.replicas import leader_and_isr, stop_replica, update_metadata
from kafka_classic.broker.topics import create_partitions, create_topics, delete_topics
from kafka_classic.wire.apis import Api

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

Handler = Callable[["Broker", "Connection", Any], Any]

HANDLERS: dict[Api, Handler] = {
    Api.API_VERSIONS: api_versions,
    Api.METADATA: metadata,
    Api.DESCRIBE_CLUSTER: describe_cluster,
    Api.FIND_COORDINATOR: find_coordinator,
    Api.JOIN_GROUP: join_group,
    Api.SYNC_GROUP: sync_group,
    Api.HEARTBEAT: heartbeat,
    Api.LEAVE_GROUP: leave_group,
    Api.LIST_GROUPS: list_groups,
    Api.DESCRIBE_GROUPS: describe_groups,
    Api.DELETE_GROUPS: delete_groups,
    Api.OFFSET_COMMIT: offset_commit,
    Api.OFFSET_FETCH: offset_fetch,
    Api.OFFSET_DELETE: offset_delete,
    Api.LIST_OFFSETS: list_offsets,
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    Api.DELETE_RECORDS: delete_records,
    Api.CREATE_TOPICS: create_topics,
    Api.DELETE_TOPICS: delete_topics,
    Api.CREATE_PARTITIONS: create_partitions,
    Api.DESCRIBE_CONFIGS: describe_configs,
    Api.ALTER_CONFIGS: alter_configs,
    Api.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    Api.DESCRIBE_LOG_DIRS: describe_log_dirs,
    Api.INIT_PRODUCER_ID: init_producer_id,
    Api.LEADER_AND_ISR: leader_and_isr,
    Api.STOP_REPLICA: stop_replica,
    Api.UPDATE_METADATA: update_metadata,
    Api.CONTROLLED_SHUTDOWN: controlled_shutdown,
    Api.ELECT_LEADERS: elect_leaders,
    Api.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    Api.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
}
