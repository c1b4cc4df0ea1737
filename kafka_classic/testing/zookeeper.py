"""The cluster's own ZooKeeper server as a process, with faults; started here or found again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_classic.testing.process import Process, start_time

if TYPE_CHECKING:
    from kafka_classic.zk.server import EmbeddedZooKeeper


class ZooKeeperProcess:
    """An EmbeddedZooKeeper with the faults of BrokerProcess; keeps its port over a restart."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int,
        host: str = "127.0.0.1",
        detach: bool = False,
        on_change: Callable[[Process | None, Process | None], None] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.host = host
        self.port = port
        self.detach = detach
        self.process: Process | None = None
        self._server: EmbeddedZooKeeper | None = None
        self._on_change = on_change

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.alive() else None

    def alive(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """Start the server and wait until it serves."""
        from kafka_classic.zk.server import EmbeddedZooKeeper

        self._server = EmbeddedZooKeeper(
            self.data_dir, port=self.port, host=self.host, die_with_parent=not self.detach
        ).start()
        self.port = self._server.port
        pid = self._server.pid
        assert pid is not None
        self._move(Process(pid, start_time(pid) or 0))

    def stop(self, timeout: float = 10.0) -> None:
        if self._server is not None:
            self._server.stop(timeout)
        elif self.process is not None:
            self.process.terminate(timeout)
        self._server = None
        self._move(None)

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
        elif self.process is not None:
            self.process.kill()
        self._server = None
        self._move(None)

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): sessions expire once it goes on."""
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().signal(signal.SIGCONT)

    def _move(self, process: Process | None) -> None:
        before, self.process = self.process, process
        if self._on_change is not None and before is not process:
            self._on_change(before, process)

    def _running(self) -> Process:
        if self.process is None or not self.process.alive():
            raise RuntimeError("ZooKeeper does not run: start() it first")
        return self.process
