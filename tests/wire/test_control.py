"""The messages among brokers, byte for byte as Kafka 3's definitions of them say."""

from typing import Any
from uuid import UUID

import pytest

from kafka_classic.wire.apis import SERVED, Api
from kafka_classic.wire.bodies import read_request, read_request_header, read_response, write_request, write_response
from kafka_classic.wire.control import (
    FULL,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
    RemainingPartition,
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from kafka_classic.wire.errors import Error

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ID_HEX = "00112233445566778899aabbccddeeff"
# Controller 1, epoch 2, broker epoch 3.
FENCE = "00000001 00000002 0000000000000003"

REQUESTS: list[tuple[Api, Any, str]] = [
    (
        Api.LEADER_AND_ISR,
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            type=FULL,
            topic_states=(
                LeaderAndIsrTopicState(
                    topic_name="t",
                    topic_id=ID,
                    partition_states=(
                        LeaderAndIsrPartitionState(
                            partition_index=4,
                            controller_epoch=2,
                            leader=5,
                            leader_epoch=6,
                            isr=(5, 7),
                            partition_epoch=8,
                            replicas=(5, 7, 9),
                            adding_replicas=(9,),
                            removing_replicas=(),
                            is_new=True,
                        ),
                    ),
                ),
            ),
            live_leaders=(LeaderAndIsrLiveLeader(broker_id=5, host_name="h", port=9092),),
        ),
        (
            f"{FENCE} 02"
            f" 02 0274 {ID_HEX}"
            " 02 00000004 00000002 00000005 00000006 03 00000005 00000007 00000008"
            " 04 00000005 00000007 00000009 02 00000009 01 01 00"
            " 00"
            " 02 00000005 0268 00002384 00"
            " 00"
        ),
    ),
    (
        Api.STOP_REPLICA,
        StopReplicaRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            topic_states=(
                StopReplicaTopicState(
                    topic_name="t",
                    partition_states=(
                        StopReplicaPartitionState(partition_index=4, leader_epoch=-2, delete_partition=True),
                    ),
                ),
            ),
        ),
        f"{FENCE} 02 0274 02 00000004 fffffffe 01 00 00 00",
    ),
    (
        Api.UPDATE_METADATA,
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            topic_states=(
                UpdateMetadataTopicState(
                    topic_name="t",
                    topic_id=ID,
                    partition_states=(
                        UpdateMetadataPartitionState(
                            partition_index=4,
                            controller_epoch=2,
                            leader=-2,
                            leader_epoch=6,
                            isr=(5,),
                            zk_version=8,
                            replicas=(5, 7),
                            offline_replicas=(7,),
                        ),
                    ),
                ),
            ),
            live_brokers=(
                UpdateMetadataBroker(
                    id=5,
                    endpoints=(UpdateMetadataEndpoint(port=9092, host="h", listener="L", security_protocol=0),),
                    rack=None,
                ),
            ),
        ),
        (
            f"{FENCE}"
            f" 02 0274 {ID_HEX} 02 00000004 00000002 fffffffe 00000006 02 00000005 00000008"
            " 03 00000005 00000007 02 00000007 00"
            " 00"
            " 02 00000005 02 00002384 0268 024c 0000 00 00 00"
            " 00"
        ),
    ),
    (
        Api.CONTROLLED_SHUTDOWN,
        ControlledShutdownRequest(broker_id=1, broker_epoch=3),
        "00000001 0000000000000003 00",
    ),
]

RESPONSES: list[tuple[Api, Any, str]] = [
    (
        Api.LEADER_AND_ISR,
        LeaderAndIsrResponse(
            error_code=Error.stale_controller_epoch,
            topics=(
                LeaderAndIsrTopicError(
                    topic_id=ID,
                    partition_errors=(LeaderAndIsrPartitionError(partition_index=4, error_code=Error.none),),
                ),
            ),
        ),
        f"000b 02 {ID_HEX} 02 00000004 0000 00 00 00",
    ),
    (
        Api.STOP_REPLICA,
        StopReplicaResponse(
            error_code=Error.none,
            partition_errors=(
                StopReplicaPartitionError(topic_name="t", partition_index=4, error_code=Error.fenced_leader_epoch),
            ),
        ),
        "0000 02 0274 00000004 004a 00 00",
    ),
    (Api.UPDATE_METADATA, UpdateMetadataResponse(error_code=Error.stale_broker_epoch), "004d 00"),
    (
        Api.CONTROLLED_SHUTDOWN,
        ControlledShutdownResponse(
            error_code=Error.none, remaining_partitions=(RemainingPartition(topic_name="t", partition_index=4),)
        ),
        "0000 02 0274 00000004 00 00",
    ),
]


@pytest.mark.parametrize(("api", "body", "expected"), REQUESTS)
def test_a_request_among_brokers_is_as_kafka_writes_it(api: Api, body: Any, expected: str) -> None:
    version = SERVED[api][1]
    frame = write_request(api, version, 7, "c", body)[4:]
    header = api.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes.fromhex("00000007 0001 63 00")
    assert frame == header + bytes.fromhex(expected)
    assert read_request(read_request_header(frame), frame) == body


@pytest.mark.parametrize(("api", "body", "expected"), RESPONSES)
def test_a_response_among_brokers_is_as_kafka_writes_it(api: Api, body: Any, expected: str) -> None:
    version = SERVED[api][1]
    request = next(request for of, request, _ in REQUESTS if of is api)
    header = read_request_header(write_request(api, version, 7, "c", request)[4:])
    frame = write_response(header, body)[4:]
    assert frame == bytes.fromhex("00000007 00" + expected)
    assert read_response(api, version, frame) == (7, body)
