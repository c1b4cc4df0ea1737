"""InitProducerId: ids for idempotent producers, from ZooKeeper in blocks so that no two brokers give one twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import kio.schema.init_producer_id.v6.response as response
from gevent.lock import BoundedSemaphore
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

from kafka_classic.broker.deadline import Deadline
from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.wire.errors import Error, KafkaError

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

R: Any = response
WAIT_S = 5.0  # for the next block of ids


class ProducerIds:
    """Hands out ids of the block in hand; `take_block` brings the next one."""

    def __init__(self, take_block: Callable[[], range]) -> None:
        self._take_block = take_block
        self._block = iter(range(0))
        self._lock = BoundedSemaphore(1)

    def next(self) -> int:
        with self._lock:
            found = next(self._block, None)
            if found is None:
                self._block = iter(self._take_block())
                found = next(self._block)
            return found


def init_producer_id(broker: Broker, connection: Connection, request: InitProducerIdRequest) -> Any:
    if request.transactional_id is not None:
        # Transactions came six years after the paper; no coordinator for them is served.
        return R.InitProducerIdResponse(
            throttle_time=NO_TIME, error_code=Error.transactional_id_authorization_failed, producer_epoch=-1
        )
    try:
        with Deadline(WAIT_S).asking():
            fresh = broker.producer_ids.next()
    except KafkaError:
        # What Kafka says while it has no block of ids at hand; clients ask again.
        return R.InitProducerIdResponse(
            throttle_time=NO_TIME, error_code=Error.coordinator_load_in_progress, producer_epoch=-1
        )
    return R.InitProducerIdResponse(throttle_time=NO_TIME, error_code=Error.none, producer_id=fresh, producer_epoch=0)
