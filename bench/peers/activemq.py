"""ActiveMQ as Debian packages it: one broker that keeps its messages in KahaDB, and its own Java client.

No fsync a message, as in the paper; otherwise the store is as it comes. A session of JMS sends messages one by one:
asynchronously, which is what it has in place of batches.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from bench.peers import java
from bench.peers.client import Client
from bench.peers.peer import WARM, Measured
from bench.peers.processes import HOST, Servers, disk_bytes

HOME = Path("/usr/share/activemq")
# What Debian starts it with.
OPTIONS = ("-Xms512M", "-Xmx512M", "-Dorg.apache.activemq.UseDedicatedTaskRunner=true")
JARS = (
    *("activemq-client.jar", "geronimo-jms_1.1_spec.jar", "geronimo-j2ee-management-1.1-spec.jar"),
    *("hawtbuf.jar", "slf4j-api.jar"),
)
CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="
    http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" useJmx="false" dataDirectory="{data}">
    <persistenceAdapter>
      <kahaDB directory="{data}/kahadb" journalDiskSyncStrategy="never"/>
    </persistenceAdapter>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://{host}:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""


class ActiveMQ:
    name = "activemq"
    title = "ActiveMQ, persistent"
    batches: tuple[int, ...] = (1,)
    keeps = True
    settles_s = 6.0  # its index is written every five seconds

    def __init__(self) -> None:
        self._numbers = count(1)
        self._full: dict[str, int] = {}

    def missing(self) -> str:
        if not (HOME / "bin/activemq.jar").exists():
            return f"{HOME} is not there: install the package activemq"
        return java.missing(JARS, "activemq")

    def start(self, folder: Path) -> None:
        self._data = folder / "data"
        self._command = java.compiled("Active", JARS, folder)
        servers = self._servers = Servers(folder)
        try:
            self._port = servers.port()
            configuration = folder / "activemq.xml"
            configuration.write_text(CONFIGURATION.format(data=self._data, host=HOST, port=self._port))
            path = [*HOME.glob("lib/*.jar"), *HOME.glob("lib/optional/*.jar"), HOME / "bin/activemq.jar"]
            places = [f"-Dactivemq.{name}={folder}" for name in ("home", "base", "conf", "data")]
            started = ["java", *OPTIONS, *places, "-cp", ":".join(map(str, path))]
            servers.start(
                "activemq",
                [*started, "org.apache.activemq.console.Main", "start", f"xbean:file:{configuration}"],
                {"PATH": os.environ["PATH"], "HOME": str(folder)},
                self._port,
            )
        except BaseException:
            servers.stop()
            raise

    def stop(self) -> None:
        self._servers.stop()

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        queue = f"bench-{next(self._numbers)}"
        self._full[queue] = messages
        return self._client("produce", queue, messages, warm, str(size))

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
