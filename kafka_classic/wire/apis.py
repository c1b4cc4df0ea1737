"""The table of APIs: Kafka's keys, the versions we serve of each, and where each became flexible."""

from enum import IntEnum
from typing import Final


class Api(IntEnum):
    """Kafka's API keys, as far as a ZooKeeper-coordinated cluster and its clients use them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TOPIC_PARTITIONS = 75


# The versions we serve, lowest and highest: all that kio describes, with these in mind:
# - InitProducerId 6 (two-phase commit) is marked unstable in Kafka itself, so no released broker offers it: left out.
# - Produce 12 means "transactions V2" only to a client that sees the finalized feature `transaction.version`;
#   we finalize none, so a client that is not transactional uses it as it uses 11.
# - ListOffsets 8 to 11 add targets in tiered storage; without any, the answer is "no such offset", as Kafka's is.
# - OffsetCommit 0 and 1 and OffsetFetch 0 kept offsets in ZooKeeper; kio, like Kafka 4, no longer has them.
# - Fetch 17 and 18 add fields that only followers of a KRaft quorum fill.
# - LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown pass between our own brokers, in one version each.
#   They are told of like the others, as Kafka with ZooKeeper did.
SERVED: Final[dict[Api, tuple[int, int]]] = {
    Api.PRODUCE: (3, 13),
    Api.FETCH: (4, 18),
    Api.LIST_OFFSETS: (1, 11),
    Api.METADATA: (0, 13),
    Api.LEADER_AND_ISR: (5, 5),
    Api.STOP_REPLICA: (3, 3),
    Api.UPDATE_METADATA: (7, 7),
    Api.CONTROLLED_SHUTDOWN: (3, 3),
    Api.OFFSET_COMMIT: (2, 10),
    Api.OFFSET_FETCH: (1, 10),
    Api.FIND_COORDINATOR: (0, 6),
    Api.JOIN_GROUP: (0, 9),
    Api.HEARTBEAT: (0, 4),
    Api.LEAVE_GROUP: (0, 5),
    Api.SYNC_GROUP: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.LIST_GROUPS: (0, 5),
    Api.API_VERSIONS: (0, 4),
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 6),
    Api.DELETE_RECORDS: (0, 2),
    Api.INIT_PRODUCER_ID: (0, 5),
    Api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.ALTER_CONFIGS: (0, 2),
    Api.DESCRIBE_LOG_DIRS: (1, 5),
    Api.CREATE_PARTITIONS: (0, 3),
    Api.DELETE_GROUPS: (0, 2),
    Api.ELECT_LEADERS: (0, 2),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    Api.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    Api.OFFSET_DELETE: (0, 0),
    Api.DESCRIBE_CLUSTER: (0, 2),
}

# The messages among brokers, which Kafka 4 and so kio no longer have: see `control.py`.
CONTROL: Final = frozenset({Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA, Api.CONTROLLED_SHUTDOWN})

# The first flexible version of each: compact lengths, tag buffers, and the longer headers.
FLEXIBLE_FROM: Final[dict[Api, int]] = {
    Api.PRODUCE: 9,
    Api.FETCH: 12,
    Api.LIST_OFFSETS: 6,
    Api.METADATA: 9,
    Api.LEADER_AND_ISR: 4,
    Api.STOP_REPLICA: 2,
    Api.UPDATE_METADATA: 6,
    Api.CONTROLLED_SHUTDOWN: 3,
    Api.OFFSET_COMMIT: 8,
    Api.OFFSET_FETCH: 6,
    Api.FIND_COORDINATOR: 3,
    Api.JOIN_GROUP: 6,
    Api.HEARTBEAT: 4,
    Api.LEAVE_GROUP: 4,
    Api.SYNC_GROUP: 4,
    Api.DESCRIBE_GROUPS: 5,
    Api.LIST_GROUPS: 3,
    Api.API_VERSIONS: 3,
    Api.CREATE_TOPICS: 5,
    Api.DELETE_TOPICS: 4,
    Api.DELETE_RECORDS: 2,
    Api.INIT_PRODUCER_ID: 2,
    Api.OFFSET_FOR_LEADER_EPOCH: 4,
    Api.DESCRIBE_CONFIGS: 4,
    Api.ALTER_CONFIGS: 2,
    Api.DESCRIBE_LOG_DIRS: 2,
    Api.CREATE_PARTITIONS: 2,
    Api.DELETE_GROUPS: 2,
    Api.ELECT_LEADERS: 2,
    Api.INCREMENTAL_ALTER_CONFIGS: 1,
    Api.ALTER_PARTITION_REASSIGNMENTS: 0,
    Api.LIST_PARTITION_REASSIGNMENTS: 0,
    Api.OFFSET_DELETE: 1,  # which there is not yet
    Api.DESCRIBE_CLUSTER: 0,
}

# Up to these versions a topic is named; beyond, its id is carried. One class cannot hold both.
NAMED_UPTO: Final[dict[Api, int]] = {Api.PRODUCE: 12, Api.FETCH: 12, Api.OFFSET_COMMIT: 9, Api.OFFSET_FETCH: 9}


def model_version(api: Api, version: int) -> int:
    """Return the version whose classes stand for `version` in our rooms: the newest that says the same things."""
    named = NAMED_UPTO.get(api)
    if named is not None and version <= named:
        return named
    # Beyond what is served, so that handlers are written against what clients will one day send.
    return 6 if api is Api.INIT_PRODUCER_ID else SERVED[api][1]


def advertised() -> dict[Api, tuple[int, int]]:
    """Return what ApiVersions tells clients: what is served, but Produce from 0.

    librdkafka takes a broker without Produce 0 for one that knows no message sets at all; Kafka 4 says 0 for the same
    reason, and refuses those versions when they come, as we do.
    """
    return {api: (0 if api is Api.PRODUCE else low, high) for api, (low, high) in SERVED.items()}


def is_flexible(api: Api, version: int) -> bool:
    """Return whether this version has compact lengths and tag buffers."""
    return version >= FLEXIBLE_FROM[api]
