"""Apache Kafka of a distribution that KAFKA_HOME names: one node in KRaft mode, loaded by librdkafka as ours is."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from bench.peers.kafka import KafkaLoad
from bench.peers.peer import WARM, Measured, PeerFailed
from bench.peers.processes import HOST, Servers

CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class ApacheKafka:
    name = "apache-kafka"
    title = "Apache Kafka, librdkafka"
    batches: tuple[int, ...] = (1, 50)
    keeps = True
    settles_s = 0.0

    def __init__(self, home: str | None = None) -> None:
        self._home = home or os.environ.get("KAFKA_HOME", "")

    def missing(self) -> str:
        if not self._home:
            return "KAFKA_HOME is not set: unpack a distribution of Apache Kafka 3.3 or newer and name its folder there"
        for script in ("kafka-storage.sh", "kafka-server-start.sh"):
            if not (Path(self._home) / "bin" / script).exists():
                return f"KAFKA_HOME={self._home} has no bin/{script}: name the folder of a distribution of Apache Kafka"
        return ""

    def start(self, folder: Path) -> None:
        servers = self._servers = Servers(folder)
        try:
            data, configuration = folder / "data", folder / "server.properties"
            port, controller = servers.port(), servers.port()
            configuration.write_text(CONFIGURATION.format(host=HOST, port=port, controller=controller, data=data))
            programs = Path(self._home) / "bin"
            env = {**os.environ, "LOG_DIR": str(folder)}
            # Since 4.0 the metadata quorum may also be a dynamic one; one that is named in the settings suits all.
            format = [str(programs / "kafka-storage.sh"), "format", "-t", _cluster_id(), "-c", str(configuration)]
            done = subprocess.run(format, env=env, capture_output=True, text=True)
            if done.returncode:
                raise PeerFailed(f"kafka-storage.sh could not format {data}:\n{done.stdout}{done.stderr}")
            servers.start(self.name, [str(programs / "kafka-server-start.sh"), str(configuration)], env, port)
            self.load = KafkaLoad("librdkafka", f"{HOST}:{port}", data, servers.cpu_seconds)
        except BaseException:
            servers.stop()
            raise

    def stop(self) -> None:
        self._servers.stop()

    def produce(self, messages: int, size: int, batch: int, warm: int = WARM) -> Measured:
        return self.load.produce(messages, size, batch, warm)

    def consume(self, messages: int) -> Measured:
        return self.load.consume(messages)

    def clear(self) -> None:
        self.load.clear()

    def stored_bytes(self) -> int:
        return self.load.stored_bytes()


def _cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
