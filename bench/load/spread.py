"""librdkafka over many partitions: a producer that goes from one to the next, a consumer that reads all from one."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Sequence
from ctypes import c_int, c_int32, c_int64, c_void_p
from types import TracebackType
from typing import Any

from bench.load.librdkafka import A_CALL, A_READ, BLOCK, CONSUMER, COPY, Client, Message


class SpreadProducer(Client):
    """Sends the same messages again and again, `a_call` of them to each of its partitions in turn."""

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        values: Sequence[bytes],
        partitions: Sequence[int] = (0,),
        a_call: int = A_CALL,
    ) -> None:
        super().__init__(settings, topic)
        self._partitions = itertools.cycle(partitions)
        self._values = [ctypes.create_string_buffer(value, len(value)) for value in values]
        self._messages = (Message * a_call)()
        for message, value in zip(self._messages, itertools.cycle(self._values), strict=False):
            message.payload = ctypes.cast(value, c_void_p)
            message.len = len(value)

    def produce(self, count: int) -> None:
        """Queue messages as fast as the library takes them, and wait until the brokers have answered for all."""
        lib = self._lib
        queued = 0
        while queued < count:
            some = min(len(self._messages), count - queued)
            queued += lib.rd_kafka_produce_batch(
                self._topic, next(self._partitions), COPY | BLOCK, self._messages, some
            )
        if lib.rd_kafka_flush(self._handle, 120_000):
            raise TimeoutError(f"librdkafka still holds {lib.rd_kafka_outq_len(self._handle)} messages")


class SpreadConsumer(Client):
    """Reads partitions from their start, once it is asked to: before the first consume() it fetches nothing."""

    kind = CONSUMER

    def __init__(self, settings: dict[str, Any], topic: str, partitions: Sequence[int] = (0,)) -> None:
        super().__init__({**settings, "consume.callback.max.messages": A_READ}, topic)
        lib = self._lib
        lib.rd_kafka_queue_new.restype = c_void_p
        lib.rd_kafka_queue_new.argtypes = lib.rd_kafka_queue_destroy.argtypes = (c_void_p,)
        lib.rd_kafka_consume_start_queue.argtypes = (c_void_p, c_int32, c_int64, c_void_p)
        lib.rd_kafka_consume_callback_queue.argtypes = (c_void_p, c_int, c_void_p, c_void_p)
        self._partitions = partitions
        self._started = False
        self._queue = lib.rd_kafka_queue_new(self._handle)
        self._look = ctypes.cast(lib.rd_kafka_message_status, c_void_p)

    def consume(self, count: int) -> int:
        """Read at least so many messages; returns how many."""
        if not self._started:
            self._started = True
            for partition in self._partitions:
                self._lib.rd_kafka_consume_start_queue(self._topic, partition, 0, self._queue)
        got = 0
        deadline = time.monotonic() + 120
        while got < count:
            got += self._lib.rd_kafka_consume_callback_queue(self._queue, 1000, self._look, None)
            if time.monotonic() > deadline:
                raise TimeoutError(f"librdkafka has read only {got} of {count} messages after 120 s")
        return got

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            for partition in self._partitions:
                self._lib.rd_kafka_consume_stop(self._topic, partition)
        self._lib.rd_kafka_queue_destroy(self._queue)
        super().__exit__(kind, error, trace)
