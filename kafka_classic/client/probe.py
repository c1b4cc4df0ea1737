"""A single question to a single broker: who is there? For those who wait until a broker serves."""

from __future__ import annotations

from kafka_classic.client.connection import Connection
from kafka_classic.wire.apis import Api


def registered_brokers(host: str, port: int, timeout: float = 5.0) -> dict[int, tuple[str, int]]:
    """Return the brokers that the one at host:port knows of, by id; raises KafkaError when it does not serve."""
    from kio.schema.metadata.v13 import MetadataRequest

    connection = Connection(host, port, timeout=timeout, connect_timeout=timeout)
    try:
        nothing = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        answer = connection.request(Api.METADATA, nothing)
        return {int(broker.node_id): (broker.host, int(broker.port)) for broker in answer.brokers}
    finally:
        connection.close()
