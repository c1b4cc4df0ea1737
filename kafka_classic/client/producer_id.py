"""The number by which brokers tell an idempotent producer's batches from repeats of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from kafka_classic.client.cluster import Cluster
from kafka_classic.wire.apis import Api
from kafka_classic.wire.errors import KafkaError


class ProducerId(NamedTuple):
    id: int
    epoch: int


def init_producer_id(cluster: Cluster) -> ProducerId:
    """Ask any broker for a producer id that nobody had before."""
    from kio.schema.init_producer_id.v6 import InitProducerIdRequest
    from kio.static.primitive import i32Timedelta

    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=60_000))
    )

    def attempt() -> Any:
        answer = cluster.any().request(Api.INIT_PRODUCER_ID, request)
        if answer.error_code:
            raise KafkaError(answer.error_code)
        return answer

    answer = cluster.retrying(attempt)
    return ProducerId(int(answer.producer_id), int(answer.producer_epoch))
