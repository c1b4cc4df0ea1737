"""Clients on bare sockets that do as little as a client can: what they measure is the broker."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.load.frames import FETCH_ANSWER_PARTITION, INT, LONG, fetch_answer_head, fetch_frame

Address = tuple[str, int]
OFFSET_OUT_OF_RANGE = 1


class BrokerRefused(RuntimeError):
    """The broker answered with an error: nothing worth measuring happened."""


def connect(address: Address) -> socket.socket:
    sock = socket.create_connection(address, timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_exactly(sock: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    view = memoryview(found)
    while view:
        count = sock.recv_into(view)
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        view = view[count:]
    return bytes(found)


def ask(sock: socket.socket, frame: bytes) -> bytes:
    """Send one request and return the whole answer with its size bytes."""
    sock.sendall(frame)
    head = read_exactly(sock, 4)
    return head + read_exactly(sock, INT.unpack(head)[0])


def base_offset(answer: bytes, at: int) -> int:
    """Return the base offset of a Produce answer, whose error must be 0."""
    error = int.from_bytes(answer[at - 2 : at], "big", signed=True)
    if error:
        raise BrokerRefused(f"a produce request was answered with error {error}")
    return int(LONG.unpack_from(answer, at)[0])


def pipeline(sock: socket.socket, block: bytes, blocks: int, answer_bytes: int) -> None:
    """Send a block of requests again and again without waiting, and drain `answer_bytes` of answers meanwhile."""

    def drain() -> None:
        left = answer_bytes
        buffer = bytearray(1 << 18)
        while left > 0:
            count = sock.recv_into(buffer, min(left, len(buffer)))
            if count == 0:
                return
            left -= count
        drained.append(True)

    drained: list[bool] = []
    reader = threading.Thread(target=drain)
    reader.start()
    for _ in range(blocks):
        sock.sendall(block)
    reader.join()
    if not drained:
        raise ConnectionError("the broker closed the connection")


@contextmanager
def closed_loops(address: Address, frame: bytes, connections: int) -> Iterator[Callable[[int], None]]:
    """Connections that each send a request only when the last one was answered; call what is given to run so many."""
    socks = [connect(address) for _ in range(connections)]
    poll = select.epoll()
    calls = {}
    for sock in socks:
        poll.register(sock.fileno(), select.EPOLLIN)
        calls[sock.fileno()] = (sock.recv_into, sock.send)

    def run(requests: int) -> None:
        buffer = bytearray(4096)
        for sock in socks:
            sock.sendall(frame)
        to_send, to_read = requests - connections, requests
        while to_read:
            for fd, _ in poll.poll():
                recv_into, send = calls[fd]
                if recv_into(buffer) == 0:
                    raise ConnectionError("the broker closed a connection")
                to_read -= 1
                if to_send:
                    send(frame)
                    to_send -= 1

    try:
        yield run
    finally:
        poll.close()
        for sock in socks:
            sock.close()


def latencies(sock: socket.socket, frame: bytes, count: int) -> list[float]:
    """Send one request at a time; return how long each took, in µs, sorted."""
    buffer = bytearray(4096)
    took = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        sock.send(frame)
        sock.recv_into(buffer)
        took.append((time.perf_counter_ns() - begin) / 1000)
    return sorted(took)


def drain_log(
    sock: socket.socket,
    topic: str,
    partition: int,
    start: int,
    end: int,
    per_batch: tuple[int, int],
    max_bytes: int,
    *,
    discard: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Fetch from `start` to `end` and throw the records away; returns their bytes.

    All batches are of one size and count (`per_batch`), so the next offset follows from the answer's size, and the next
    request is sent before the records of the last are drained. With `discard` the kernel drops the bytes uncopied.
    """
    head = bytearray(fetch_answer_head(topic))
    buffer = bytearray(1 << 20)
    flags = socket.MSG_TRUNC if discard else 0
    size_of_batch, count_of_batch = per_batch
    offset = start
    total = 0
    sock.sendall(fetch_frame(topic, partition, offset, max_bytes))
    while True:
        sock.recv_into(head, len(head), socket.MSG_WAITALL)
        size: int
        _, error, _, _, log_start, _, _, size = FETCH_ANSWER_PARTITION.unpack_from(
            head, len(head) - FETCH_ANSWER_PARTITION.size
        )
        if error == OFFSET_OUT_OF_RANGE:
            offset = log_start  # retention was faster
        elif error:
            raise BrokerRefused(f"a fetch request was answered with error {error}")
        offset += size // size_of_batch * count_of_batch
        more = offset < end and not stopped()
        if more:
            sock.sendall(fetch_frame(topic, partition, offset, max_bytes))
        left = size
        while left:
            count = sock.recv_into(buffer, min(left, len(buffer)), flags)
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            left -= count
        total += size
        if not more:
            return total
