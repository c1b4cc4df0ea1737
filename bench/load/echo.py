"""The floor under a request: a server on the broker's event loop that receives, and answers with 60 bytes unread.

Run as a program it prints its port and serves until it is killed; `floor` measures it with the clients of the case
`64-connections`. What the broker takes above it is what parsing, checking and writing a batch cost.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ANSWER = bytes(60)


def serve() -> None:
    import gevent

    loop: Any = gevent.get_hub().loop
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    buffer = memoryview(bytearray(1 << 18))
    watchers: list[Any] = []
    ready: list[socket.socket] = []

    def accept() -> None:
        sock, _ = listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        watcher = loop.io(sock.fileno(), 1)
        watcher.start(readable, sock, watcher)
        watchers.append(watcher)

    def readable(sock: socket.socket, watcher: Any) -> None:
        if sock.recv_into(buffer):
            ready.append(sock)
        else:
            watcher.stop()
            sock.close()

    def end_of_turn() -> None:
        for sock in ready:
            sock.send(ANSWER)
        ready.clear()

    watchers.append(loop.io(listener.fileno(), 1))
    watchers[0].start(accept)
    watchers.append(loop.prepare())
    watchers[1].start(end_of_turn)
    print(listener.getsockname()[1], flush=True)
    gevent.wait()


def start() -> tuple[subprocess.Popen[bytes], int]:
    """Start the server in a process of its own; returns it and its port."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).resolve())], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def stop(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    serve()
