"""What the controller and the brokers say to each other: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown.

Kafka 4 dropped these with ZooKeeper, so kio lacks them. They are written here in kio's form from Kafka 3's definitions,
in the one version of each that we speak, and are read and written like any other message.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

FULL: Final = 2  # a LeaderAndIsr that names every partition of the broker: what it does not name is stray
INCREMENTAL: Final = 1
NO_LEADER: Final = -1
LEADER_DURING_DELETION: Final = -2  # in UpdateMetadata: the partition is deleted
EPOCH_DURING_DELETION: Final = -2  # in StopReplica: whatever the leader epoch

INT8: Final = {"kafka_type": "int8"}
INT16: Final = {"kafka_type": "int16"}
INT32: Final = {"kafka_type": "int32"}
INT64: Final = {"kafka_type": "int64"}
BOOL: Final = {"kafka_type": "bool"}
STRING: Final = {"kafka_type": "string"}
UUID16: Final = {"kafka_type": "uuid"}
ERROR: Final = {"kafka_type": "error_code"}


class _Flexible:
    """What kio notes of each class."""

    __slots__ = ()
    __flexible__: ClassVar[bool] = True


class _LeaderAndIsr(_Flexible):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(5)
    __api_key__: ClassVar[i16] = i16(4)


class _StopReplica(_Flexible):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(3)
    __api_key__: ClassVar[i16] = i16(5)


class _UpdateMetadata(_Flexible):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(7)
    __api_key__: ClassVar[i16] = i16(6)


class _ControlledShutdown(_Flexible):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(3)
    __api_key__: ClassVar[i16] = i16(7)


class _Nested:
    __slots__ = ()
    __type__: ClassVar = EntityType.nested


class _Request:
    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class _Response:
    __slots__ = ()
    __type__: ClassVar = EntityType.response
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


# --- LeaderAndIsr 5: what a broker is to lead and to follow


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionState(_LeaderAndIsr, _Nested):
    partition_index: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    leader: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    partition_epoch: int = field(metadata=INT32)
    """The version of the partition's znode."""
    replicas: tuple[int, ...] = field(metadata=INT32)
    adding_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    removing_replicas: tuple[int, ...] = field(metadata=INT32, default=())
    is_new: bool = field(metadata=BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicState(_LeaderAndIsr, _Nested):
    topic_name: str = field(metadata=STRING)
    topic_id: UUID | None = field(metadata=UUID16)
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrLiveLeader(_LeaderAndIsr, _Nested):
    broker_id: int = field(metadata=INT32)
    host_name: str = field(metadata=STRING)
    port: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest(_LeaderAndIsr, _Request):
    controller_id: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    type: int = field(metadata=INT8)
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionError(_LeaderAndIsr, _Nested):
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError(_LeaderAndIsr, _Nested):
    topic_id: UUID | None = field(metadata=UUID16)
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse(_LeaderAndIsr, _Response):
    error_code: ErrorCode = field(metadata=ERROR)
    topics: tuple[LeaderAndIsrTopicError, ...]


# --- StopReplica 3: what a broker is to hold no more


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionState(_StopReplica, _Nested):
    partition_index: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32, default=-1)
    delete_partition: bool = field(metadata=BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopicState(_StopReplica, _Nested):
    topic_name: str = field(metadata=STRING)
    partition_states: tuple[StopReplicaPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest(_StopReplica, _Request):
    controller_id: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[StopReplicaTopicState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionError(_StopReplica, _Nested):
    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse(_StopReplica, _Response):
    error_code: ErrorCode = field(metadata=ERROR)
    partition_errors: tuple[StopReplicaPartitionError, ...]


# --- UpdateMetadata 7: what every broker tells its clients


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartitionState(_UpdateMetadata, _Nested):
    partition_index: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    leader: int = field(metadata=INT32)
    leader_epoch: int = field(metadata=INT32)
    isr: tuple[int, ...] = field(metadata=INT32)
    zk_version: int = field(metadata=INT32)
    replicas: tuple[int, ...] = field(metadata=INT32)
    offline_replicas: tuple[int, ...] = field(metadata=INT32, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopicState(_UpdateMetadata, _Nested):
    topic_name: str = field(metadata=STRING)
    topic_id: UUID | None = field(metadata=UUID16)
    partition_states: tuple[UpdateMetadataPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataEndpoint(_UpdateMetadata, _Nested):
    port: int = field(metadata=INT32)
    host: str = field(metadata=STRING)
    listener: str = field(metadata=STRING)
    security_protocol: int = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataBroker(_UpdateMetadata, _Nested):
    id: int = field(metadata=INT32)
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest(_UpdateMetadata, _Request):
    controller_id: int = field(metadata=INT32)
    controller_epoch: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse(_UpdateMetadata, _Response):
    error_code: ErrorCode = field(metadata=ERROR)


# --- ControlledShutdown 3: a broker asks to be led no more before it stops


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest(_ControlledShutdown, _Request):
    broker_id: int = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition(_ControlledShutdown, _Nested):
    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse(_ControlledShutdown, _Response):
    error_code: ErrorCode = field(metadata=ERROR)
    remaining_partitions: tuple[RemainingPartition, ...]
