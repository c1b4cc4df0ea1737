"""What a producer itself refuses or gives up, each with Kafka's code and what to do about it."""

from __future__ import annotations

from kafka_classic.client.errors import Refused


class RecordTooLarge(Refused):
    """A record, or what it is sent in, is larger than max.request.size or buffer.memory."""


class BufferExhausted(Refused):
    """No memory became free within max.block.ms: brokers take less than is sent."""


class DeliveryTimedOut(Refused):
    """Not acknowledged within delivery.timeout.ms. It may have been written all the same."""


class ProducerClosed(Refused):
    """The producer is closed, or was closed before this could be delivered."""
