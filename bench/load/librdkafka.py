"""librdkafka as the load: the C library that confluent-kafka brings, called without its Python layer where that limits.

`Producer.produce` costs more Python a message than the broker spends on it. `rd_kafka_produce_batch` takes a thousand
messages a call.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import confluent_kafka

COPY, BLOCK = 2, 4
PRODUCER = 0
A_CALL = 1000


class Message(Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


class Producer:
    """A producer of equal messages to one partition."""

    def __init__(self, settings: dict[str, Any], topic: str, value: bytes) -> None:
        lib = self._lib = _library()
        conf = lib.rd_kafka_conf_new()
        why = ctypes.create_string_buffer(512)
        for name, setting in settings.items():
            if lib.rd_kafka_conf_set(conf, name.encode(), str(setting).encode(), why, 512):
                raise ValueError(why.value.decode())
        self._handle = lib.rd_kafka_new(PRODUCER, conf, why, 512)
        if not self._handle:
            raise ValueError(why.value.decode())
        self._topic = lib.rd_kafka_topic_new(self._handle, topic.encode(), None)
        self._value = ctypes.create_string_buffer(value, len(value))
        self._messages = (Message * A_CALL)()
        for message in self._messages:
            message.payload = ctypes.cast(self._value, c_void_p)
            message.len = len(value)

    def produce(self, count: int) -> None:
        """Queue messages as fast as the library takes them, and wait until the broker has answered for all."""
        lib = self._lib
        queued = 0
        while queued < count:
            taken = lib.rd_kafka_produce_batch(
                self._topic, 0, COPY | BLOCK, self._messages, min(A_CALL, count - queued)
            )
            queued += taken
        if lib.rd_kafka_flush(self._handle, 120_000):
            raise TimeoutError(f"librdkafka still holds {lib.rd_kafka_outq_len(self._handle)} messages")

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.rd_kafka_topic_destroy(self._topic)
        self._lib.rd_kafka_destroy(self._handle)


def consume(settings: dict[str, Any], topic: str, count: int) -> None:
    """Read `count` messages from the start of partition 0."""
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        left = count
        while left > 0:
            found = consumer.consume(min(20_000, left), timeout=30)
            if not found:
                raise TimeoutError(f"librdkafka read nothing in 30 s, {left} messages before the end")
            left -= len(found)
    finally:
        consumer.close()


@cache
def _library() -> Any:
    """The library that confluent-kafka has loaded: its wheels carry it beside the package."""
    package = Path(confluent_kafka.__file__).parent
    found = sorted(package.with_name("confluent_kafka.libs").glob("librdkafka*.so*"))
    lib = ctypes.CDLL(str(found[0]) if found else "librdkafka.so.1")
    lib.rd_kafka_conf_new.restype = c_void_p
    lib.rd_kafka_conf_set.argtypes = (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
    lib.rd_kafka_new.restype = c_void_p
    lib.rd_kafka_new.argtypes = (c_int, c_void_p, c_char_p, c_size_t)
    lib.rd_kafka_topic_new.restype = c_void_p
    lib.rd_kafka_topic_new.argtypes = (c_void_p, c_char_p, c_void_p)
    lib.rd_kafka_produce_batch.argtypes = (c_void_p, c_int32, c_int, POINTER(Message), c_int)
    lib.rd_kafka_flush.argtypes = (c_void_p, c_int)
    lib.rd_kafka_outq_len.argtypes = (c_void_p,)
    lib.rd_kafka_topic_destroy.argtypes = (c_void_p,)
    lib.rd_kafka_destroy.argtypes = (c_void_p,)
    return lib
