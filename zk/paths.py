"""The znode layout: Kafka's own, so that every ZooKeeper tool of the Kafka world reads it.

    /cluster/id                                    {"version": "1", "id": "…"}
    /brokers/ids/N                       ephemeral  a live broker: host, port, endpoints, rack (P15, P16)
    /brokers/seqid                                 its data version hands out broker ids
    /brokers/topics/T                              topic id and the replicas of each partition
    /brokers/topics/T/partitions/P/state           leader, leader epoch, in-sync replicas
    /config/topics/T  /config/brokers/N            {"version": 1, "config": {…}}; `<default>` is every broker's
    /config/changes/config_change_…    sequential  which config changed; gone after 15 minutes
    /latest_producer_id_block                      the block of producer ids handed out last
    /controller                          ephemeral  the broker that leads the cluster
    /controller_epoch                              how often that changed hands
    /admin/delete_topics/T  /admin/reassign_partitions  /admin/preferred_replica_election
    /isr_change_notification/isr_change_…  sequential
    /consumers/G/ids/C                   ephemeral  a consumer and what it subscribes to (P15)
    /consumers/G/owners/T/P              ephemeral  which consumer reads a partition (P13)
    /consumers/G/offsets/T/P                       how far the group has read it

All paths are below the chroot of the session, if its hosts name one (`host:2181/kafka`).
"""

import re

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQID = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "isr_change_"
CONSUMERS = "/consumers"

# The persistent parents that a cluster has from its first broker's start on.
TOP_LEVEL = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    "/config/topics",
    "/config/brokers",
    "/config/clients",
    "/config/users",
    DELETE_TOPICS,
    BROKER_SEQID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
)

# As Kafka has it. Of an empty name, or of one with a slash, the znodes would lie among those of other groups: to delete
# such a group would delete all of them.
_GROUP_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def can_be_a_name(name: str) -> bool:
    """Whether a group of ZooKeeper's, or a consumer in it, may be called so."""
    return _GROUP_NAME.fullmatch(name) is not None and name not in (".", "..")


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def configs(kind: str) -> str:
    return f"{CONFIG}/{kind}"


def config(kind: str, name: str) -> str:
    return f"{CONFIG}/{kind}/{name}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def group(name: str) -> str:
    return f"{CONSUMERS}/{name}"


def consumer_ids(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def consumer_id(group: str, consumer: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer}"


def group_owners(group: str) -> str:
    return f"{CONSUMERS}/{group}/owners"


def group_offsets(group: str) -> str:
    return f"{CONSUMERS}/{group}/offsets"


def owners(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}/{partition}"


def offsets(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"
