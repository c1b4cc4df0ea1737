"""FindCoordinator: the leader of the partition of `__consumer_offsets` that keeps a group.

There is none for transactions. It is served for them all the same because librdkafka takes a broker without it for one
that cannot read lz4, and then silently sends uncompressed batches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import kio.schema.find_coordinator.v6.response as response
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.groups.placing import partition_of
from kafka_classic.settings import OFFSETS_TOPIC
from kafka_classic.wire.errors import Error, KafkaError

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

log = logging.getLogger(__name__)

R: Any = response
GROUP, TRANSACTION = 0, 1
NO_TRANSACTIONS = "transactions are not served"
CREATION_WAIT_S = 5.0  # for the offsets topic, which is created when it is first asked for


def find_coordinator(broker: Broker, connection: Connection, request: FindCoordinatorRequest) -> Any:
    keys = request.coordinator_keys
    if request.key_type == GROUP:
        rows = _of_groups(broker, connection.listener, keys)
    elif request.key_type == TRANSACTION:
        rows = [_none(key, Error.coordinator_not_available, NO_TRANSACTIONS) for key in keys]
    else:
        rows = [_none(key, Error.invalid_request, f"unknown key type {request.key_type}") for key in keys]
    return R.FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=tuple(rows))


def _of_groups(broker: Broker, listener: str, groups: tuple[str, ...]) -> list[Any]:
    try:
        make_offsets_topic(broker)
    except KafkaError as error:
        log.warning("no group can be coordinated: %s", error.message)
        return [_none(group, Error.coordinator_not_available, error.message) for group in groups]
    partitions = broker.view.topics[OFFSETS_TOPIC].partitions
    addresses = {info.id: (host, port) for info, host, port in broker.view.addresses(listener)}
    rows = []
    for group in groups:
        index = partition_of(group, len(partitions))
        leader = partitions[index].leader if index in partitions else -1
        if leader == broker.settings.broker_id and broker.coordination.deserted(index):
            rows.append(_none(group, Error.coordinator_not_available, "this broker cannot tell who coordinates it now"))
        elif leader in addresses:
            host, port = addresses[leader]
            rows.append(
                R.Coordinator(
                    key=group, node_id=leader, host=host, port=port, error_code=Error.none, error_message=None
                )
            )
        else:
            rows.append(_none(group, Error.coordinator_not_available, f"{OFFSETS_TOPIC}-{index} has no leader now"))
    return rows


def make_offsets_topic(broker: Broker) -> None:
    """See that the offsets topic is there and led; raises KafkaError where it cannot be."""
    view = broker.view
    if OFFSETS_TOPIC in view.topics:
        return
    deadline = Deadline(CREATION_WAIT_S)
    if not view.wait_until(lambda: view.told, deadline.left):
        raise KafkaError(Error.coordinator_not_available, "this broker has not heard from the controller yet")
    if OFFSETS_TOPIC not in view.topics:
        broker.topics.create_offsets_topic(deadline)


def _none(key: str, code: Error, message: str) -> Any:
    return R.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
