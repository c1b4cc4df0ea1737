"""librdkafka as the load: the C library that confluent-kafka brings, called without its Python layer where that limits.

`Producer.produce` and `Consumer.consume` cost more Python a message than the broker spends on it. Here one call of
`rd_kafka_produce_batch` takes a thousand messages, and one of `rd_kafka_consume_callback` gives ten thousand to a
function of C that only looks at them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import confluent_kafka

COPY, BLOCK = 2, 4
PRODUCER, CONSUMER = 0, 1
A_CALL = 1000
A_READ = 10_000


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


class Client:
    """A librdkafka handle and one topic."""

    kind = PRODUCER

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        lib = self._lib = _library()
        conf = lib.rd_kafka_conf_new()
        why = ctypes.create_string_buffer(512)
        for name, setting in settings.items():
            if lib.rd_kafka_conf_set(conf, name.encode(), str(setting).encode(), why, 512):
                raise ValueError(why.value.decode())
        self._handle = lib.rd_kafka_new(self.kind, conf, why, 512)
        if not self._handle:
            raise ValueError(why.value.decode())
        self._topic = lib.rd_kafka_topic_new(self._handle, topic.encode(), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.rd_kafka_topic_destroy(self._topic)
        self._lib.rd_kafka_destroy(self._handle)


class Producer(Client):
    """Sends equal messages to partition 0."""

    def __init__(self, settings: dict[str, Any], topic: str, value: bytes) -> None:
        super().__init__(settings, topic)
        self._value = ctypes.create_string_buffer(value, len(value))
        self._messages = (Message * A_CALL)()
        for message in self._messages:
            message.payload = ctypes.cast(self._value, c_void_p)
            message.len = len(value)

    def produce(self, count: int) -> None:
        """Queue messages as fast as the library takes them, and wait until the broker has answered for all."""
        queued = 0
        while queued < count:
            queued += self.queue(count - queued)
        self.flush()

    def queue(self, most: int) -> int:
        """Hand over the messages of one call; returns how many."""
        return int(self._lib.rd_kafka_produce_batch(self._topic, 0, COPY | BLOCK, self._messages, min(A_CALL, most)))

    def flush(self) -> None:
        """Wait until the broker has answered for all; without acknowledgements, until they are with the socket."""
        if self._lib.rd_kafka_flush(self._handle, 120_000):
            raise TimeoutError(f"librdkafka still holds {self.held()} messages")

    def held(self) -> int:
        """How many messages it has been given and has not done with."""
        return int(self._lib.rd_kafka_outq_len(self._handle))


class Consumer(Client):
    """Reads partition 0 from its start, or from another offset."""

    kind = CONSUMER

    def __init__(self, settings: dict[str, Any], topic: str, offset: int = 0) -> None:
        super().__init__({**settings, "consume.callback.max.messages": A_READ}, topic)
        self._lib.rd_kafka_consume_start(self._topic, 0, offset)
        self._look = ctypes.cast(self._lib.rd_kafka_message_status, c_void_p)

    def consume(self, count: int) -> int:
        """Read at least so many messages; returns how many."""
        got = 0
        deadline = time.monotonic() + 60
        while got < count:
            got += self.read()
            if time.monotonic() > deadline:
                raise TimeoutError(f"librdkafka has read only {got} of {count} messages after 60 s")
        return got

    def read(self) -> int:
        """Read what is there, or wait for some up to a second; returns how many messages."""
        return int(self._lib.rd_kafka_consume_callback(self._topic, 0, 1000, self._look, None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.rd_kafka_consume_stop(self._topic, 0)
        super().__exit__(kind, error, trace)


def consume_in_python(settings: dict[str, Any], topic: str, count: int) -> Callable[[], None]:
    """A consumer of confluent-kafka, which makes one object a message; call what is returned to read and close."""
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    left = count - len(consumer.consume(1, timeout=30))

    def run() -> None:
        nonlocal left
        try:
            while left > 0:
                found = consumer.consume(min(A_READ, left), timeout=30)
                if not found:
                    raise TimeoutError(f"librdkafka read nothing in 30 s, {left} messages before the end")
                left -= len(found)
        finally:
            consumer.close()

    return run


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
    lib.rd_kafka_consume_start.argtypes = (c_void_p, c_int32, c_int64)
    lib.rd_kafka_consume_stop.argtypes = (c_void_p, c_int32)
    lib.rd_kafka_consume_callback.argtypes = (c_void_p, c_int32, c_int, c_void_p, c_void_p)
    return lib
