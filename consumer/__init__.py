"""The paper's consumer: a group's member and its message streams, offset stores, and the simple consumer.

Nothing is imported before it is asked for: a program that only wants SimpleConsumer never loads ZooKeeper's client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_classic.consumer.connector import ConsumerConnector as ConsumerConnector
    from kafka_classic.consumer.handing import Hands as Hands
    from kafka_classic.consumer.history import RebalanceRecord as RebalanceRecord
    from kafka_classic.consumer.message import Message as Message
    from kafka_classic.consumer.offsets import DualOffsets as DualOffsets
    from kafka_classic.consumer.offsets import KafkaOffsets as KafkaOffsets
    from kafka_classic.consumer.offsets import OffsetStore as OffsetStore
    from kafka_classic.consumer.offsets import ZooKeeperOffsets as ZooKeeperOffsets
    from kafka_classic.consumer.settings import ConsumerSettings as ConsumerSettings
    from kafka_classic.consumer.simple import SimpleConsumer as SimpleConsumer
    from kafka_classic.consumer.streams import ConsumerTimeout as ConsumerTimeout
    from kafka_classic.consumer.streams import MessageStream as MessageStream

_HOMES = {
    "ConsumerConnector": "connector",
    "ConsumerSettings": "settings",
    "ConsumerTimeout": "streams",
    "DualOffsets": "offsets",
    "Hands": "handing",
    "KafkaOffsets": "offsets",
    "Message": "message",
    "MessageStream": "streams",
    "OffsetStore": "offsets",
    "RebalanceRecord": "history",
    "SimpleConsumer": "simple",
    "ZooKeeperOffsets": "offsets",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
