"""RabbitMQ as Debian packages it: one node of one durable classic queue, and its own Java client.

Messages are published one by one and without confirms; a client library of AMQP has no batches. `transient` asks for
messages that need not be written down.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from bench.peers import java
from bench.peers.client import Client
from bench.peers.peer import WARM, Measured
from bench.peers.processes import HOST, Servers, disk_bytes

# The script in /usr/sbin runs this one as another user, with that user's folders.
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
JARS = ("amqp-client.jar", "slf4j-api.jar")


class RabbitMQ:
    batches: tuple[int, ...] = (1,)
    settles_s = 2.0

    def __init__(self, delivery: str = "persistent") -> None:
        self.name = "rabbitmq" if delivery == "persistent" else f"rabbitmq-{delivery}"
        self.title = f"RabbitMQ, {delivery}"
        self._delivery = delivery
        self.keeps = delivery == "persistent"
        self._numbers = count(1)
        self._full: dict[str, int] = {}

    def missing(self) -> str:
        if not SCRIPT.exists():
            return f"{SCRIPT} is not there: install the package rabbitmq-server"
        return java.missing(JARS, "librabbitmq-client-java")

    def start(self, folder: Path) -> None:
        self._data = folder / "mnesia"
        self._command = java.compiled("Rabbit", JARS, folder)
        servers = self._servers = Servers(folder)
        try:
            self._port, names, distribution = servers.port(), servers.port(), servers.port()
            env = _environment(folder, self._data, self._port, names, distribution)
            # Erlang would start this one by itself, for all of the machine, and leave it behind.
            servers.start("epmd", ["epmd", "-port", str(names), "-address", HOST], env, names)
            servers.start("rabbitmq", [str(SCRIPT)], env, self._port)
        except BaseException:
            servers.stop()
            raise

    def stop(self) -> None:
        self._servers.stop()

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        queue = f"bench-{next(self._numbers)}"
        self._full[queue] = messages
        return self._client("produce", queue, messages, warm, str(size), self._delivery)

    def consume(self, messages: int) -> Measured:
        queue, held = self._full.popitem()
        if held != messages:
            raise ValueError(f"a queue is read to its end: {held} messages, not {messages}")
        return self._client("consume", queue, messages, WARM)

    def clear(self) -> None:
        if self._full:
            java.run([*self._command, "forget", str(self._port), ",".join(self._full)])
            self._full.clear()

    def stored_bytes(self) -> int:
        return disk_bytes(self._data)

    def _client(self, act: str, queue: str, messages: int, warm: int, *more: str) -> Measured:
        told = [act, str(self._port), queue, str(messages), str(warm), *more]
        return Client([*self._command, *told], self._servers.cpu_seconds).wait()


def _environment(folder: Path, data: Path, port: int, names: int, distribution: int) -> dict[str, str]:
    """Everything of this node in the folder and on loopback, whatever the machine's own RabbitMQ is told."""
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = {HOST}:{port}\nlog.console = true\nlog.file = false\n")
    (folder / "plugins").write_text("[].\n")
    (folder / "rabbitmq-env.conf").touch()
    loopback = HOST.replace(".", ",")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),  # for its cookie
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": f"bench-{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(data),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{{loopback}}}",
    }
