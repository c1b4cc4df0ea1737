"""Whole answers out of a stream of bytes, each before a deadline."""

from __future__ import annotations

import socket
import time
from typing import TypeAlias

Frame: TypeAlias = bytes | memoryview
_BUFFER = 64 * 1024


class NotKafka(ValueError):
    """The size in front of an answer cannot be one: whoever speaks there does not speak Kafka."""


class FrameReader:
    """Reads size-prefixed frames. After any exception the stream is in the middle of something: close it.

    Small answers are cut from one buffer, several of them for one recv; the rest of a large one is received straight
    into its own memory, so that the hundreds of kilobytes of a pull (P7) are not copied once more.
    """

    def __init__(self, sock: socket.socket, largest: int) -> None:
        self._socket = sock
        self._largest = largest
        self._buffer = memoryview(bytearray(_BUFFER))
        self._start = 0
        self._end = 0

    def next(self, deadline: float) -> Frame:
        """Return the next frame without its size. Raises EOFError when the stream ends, TimeoutError, OSError."""
        while self._end - self._start < 4:
            self._fill(deadline)
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big", signed=True)
        if not 4 <= size <= self._largest:
            raise NotKafka(f"an answer of {size} bytes")
        first = self._start + 4
        there = min(self._end - first, size)
        if there == size:
            frame = bytes(self._buffer[first : first + size])
            self._start = first + size
            return frame
        whole = memoryview(bytearray(size))
        whole[:there] = self._buffer[first : self._end]
        self._start = self._end = 0
        while there < size:
            there += self._receive(whole[there:], deadline)
        return whole.toreadonly()

    def _fill(self, deadline: float) -> None:
        if self._start:
            self._buffer[: self._end - self._start] = bytes(self._buffer[self._start : self._end])
            self._end -= self._start
            self._start = 0
        self._end += self._receive(self._buffer[self._end :], deadline)

    def _receive(self, into: memoryview, deadline: float) -> int:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        got = self._socket.recv_into(into)
        if not got:
            raise EOFError
        return got
