"""The producer: messages and sets of messages to partitions (P1, P12), gathered, retried, never out of order."""

from kafka_classic.producer.errors import BufferExhausted, DeliveryTimedOut, ProducerClosed, RecordTooLarge
from kafka_classic.producer.futures import RecordFuture, RecordMetadata, SetFuture
from kafka_classic.producer.murmur2 import murmur2, partition_for_key
from kafka_classic.producer.producer import Producer
from kafka_classic.producer.settings import ProducerSettings

__all__ = [
    "BufferExhausted",
    "DeliveryTimedOut",
    "Producer",
    "ProducerClosed",
    "ProducerSettings",
    "RecordFuture",
    "RecordMetadata",
    "RecordTooLarge",
    "SetFuture",
    "murmur2",
    "partition_for_key",
]
