"""One broker as a real process, with the faults that real brokers have."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kafka_classic.testing.process import Process, tail

_POLL_S = 0.02


class BrokerDied(RuntimeError):
    """The broker's process ended before it served; the message holds the end of its log."""


class BrokerNotReady(TimeoutError):
    """The broker's process runs but did not serve in time; the message holds the end of its log."""


class BrokerProcess:
    """A broker of a LocalCluster.

        stopped --start()--> running --stop() or kill()--> stopped
                             running --pause()--> paused --resume()--> running

    A paused broker (SIGSTOP) keeps its sockets open and answers nothing: what a long garbage collection or a frozen
    virtual machine looks like from outside. `settings` may be changed between a stop and the next start.
    """

    def __init__(
        self,
        id: int,
        directory: Path,
        *,
        port: int,
        zookeeper: str,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        on_change: Callable[[Process | None, Process | None], None] | None = None,
    ) -> None:
        self.id = id
        self.host = host
        self.port = port
        self.zookeeper = zookeeper
        self.proxy = ""  # host:port by which all others reach it, if not by its own
        self.settings = dict(settings or {})
        self.data_dir = directory / f"broker-{id}"
        self.log_path = directory / f"broker-{id}.log"
        self.process: Process | None = None
        self._on_change = on_change
        self._log_from: int | None = None

    def __repr__(self) -> str:
        return f"BrokerProcess(id={self.id}, address={self.address!r}, pid={self.pid})"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def advertised(self) -> str:
        """The address that clients and other brokers are told."""
        return self.proxy or self.address

    @property
    def pid(self) -> int | None:
        """The process id, None while the broker is stopped."""
        return self.process.pid if self.process is not None and self.process.alive() else None

    def alive(self) -> bool:
        return self.pid is not None

    def command(self) -> list[str]:
        """The command line that runs this broker."""
        settings = {
            "broker.id": str(self.id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir),
            "zookeeper.connect": self.zookeeper,
            **({"advertised.listeners": f"PLAINTEXT://{self.proxy}"} if self.proxy else {}),
            **self.settings,
        }
        # -P: a folder of the user's named like one of our packages must not shadow it.
        command = [sys.executable, "-P", "-m", "kafka_classic.cli", "broker"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def start(self) -> None:
        """Start the process and return at once: wait_ready() waits until it serves."""
        if self.alive():
            raise RuntimeError(f"broker {self.id} already runs as process {self.pid}: stop() or kill() it first")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._move(Process.spawn(self.command(), self.log_path, {**os.environ, "PYTHONUNBUFFERED": "1"}))

    def wait_ready(self, timeout: float = 30.0, beside: Collection[int] = ()) -> None:
        """Wait until the broker serves and is registered, with all of `beside` in the metadata it answers."""
        from kafka_classic.client.probe import registered_brokers
        from kafka_classic.wire.errors import KafkaError

        wanted = {self.id, *beside}
        deadline = time.monotonic() + timeout
        seen = "it has not said that it is ready"
        while True:
            self._check_not_dead()
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrokerNotReady(
                    f"broker {self.id} on {self.address} is not ready after {timeout:g} s: {seen}\n{self._log_end()}"
                )
            if self._says_ready():
                try:
                    found = registered_brokers(self.host, self.port, timeout=min(left, 5.0))
                except KafkaError as error:
                    seen = error.message
                else:
                    if wanted <= found.keys() and found[self.id][1] == int(self.advertised.rpartition(":")[2]):
                        return
                    seen = f"it sees brokers {sorted(found)} and not yet all of {sorted(wanted)}"
            time.sleep(_POLL_S)

    def stop(self, timeout: float = 30.0) -> bool:
        """End the broker cleanly by SIGTERM; after `timeout` seconds by SIGKILL, which answers False."""
        if self.process is None:
            return True
        clean = self.process.terminate(timeout)
        self._move(None)
        return clean

    def kill(self) -> None:
        """End the broker at once by SIGKILL: what a crash of the process is to the others."""
        if self.process is not None:
            self.process.kill()
            self._move(None)

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP)."""
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._running().signal(signal.SIGCONT)

    def restart(self, timeout: float = 30.0) -> None:
        """Stop the broker if it runs, start it again, and wait until it serves."""
        self.stop(timeout)
        self.start()
        self.wait_ready(timeout)

    def cpu_seconds(self) -> float:
        """Return the processor time the broker has used since it started."""
        return self._running().cpu_seconds()

    def rss_bytes(self) -> int:
        """Return the memory the broker holds in RAM."""
        return self._running().rss_bytes()

    def adopt(self, process: Process | None) -> None:
        """Take a process that was found again in place of one we started."""
        self.process = process

    def _running(self) -> Process:
        if self.process is None or not self.process.alive():
            raise RuntimeError(f"broker {self.id} does not run: start() it first")
        return self.process

    def _move(self, process: Process | None) -> None:
        before, self.process = self.process, process
        if self._on_change is not None:
            self._on_change(before, process)

    def _says_ready(self) -> bool:
        """Tell whether the broker has logged that it serves since it was started.

        Its answers alone do not tell: the registration of its life before a crash may still stand in ZooKeeper.
        """
        if self._log_from is None:
            return True  # found again: it was started by another process, whose log position nobody knows
        with open(self.log_path, "rb") as log:
            log.seek(self._log_from)
            return f"broker {self.id} ready on ".encode() in log.read()

    def _check_not_dead(self) -> None:
        if self.process is None:
            raise BrokerDied(f"broker {self.id} was not started: call start() first")
        if not self.process.alive():
            code = self.process.exit_code
            raise BrokerDied(f"broker {self.id} on {self.address} ended with code {code}\n{self._log_end()}")

    def _log_end(self) -> str:
        return f"--- end of {self.log_path}\n{tail(self.log_path) or '(empty)'}"
