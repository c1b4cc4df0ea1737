"""FindCoordinator: there is none yet, and a client is told so.

It is served all the same because librdkafka takes a broker without it for one that cannot read lz4, and then silently
sends uncompressed batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kio.schema.find_coordinator.v6.response as response
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from kafka_classic.broker.metadata import NO_TIME
from kafka_classic.wire.errors import Error

if TYPE_CHECKING:
    from kafka_classic.broker.broker import Broker
    from kafka_classic.broker.connection import Connection

R: Any = response
WHY = "consumer groups by a coordinator are not served; assign partitions instead"


def find_coordinator(broker: Broker, connection: Connection, request: FindCoordinatorRequest) -> Any:
    return R.FindCoordinatorResponse(
        throttle_time=NO_TIME,
        coordinators=tuple(
            R.Coordinator(
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=Error.coordinator_not_available,
                error_message=WHY,
            )
            for key in request.coordinator_keys
        ),
    )
