"""The containers of compose/compose.yaml as a project of the test's own: its commands, its faults."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import docker

from kafka_classic.client.cluster import Cluster
from kafka_classic.client.metadata import Metadata, Partition
from kafka_classic.testing.ports import PortLeases
from kafka_classic.testing.waiting import until
from kafka_classic.wire.errors import KafkaError

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = "docker compose"  # as the documents write it
BROKERS = 3
PATIENCE_S = 120.0
POLL_S = 0.2

# A broker that is cut off cannot be asked by name any more; whoever looks does it inside the container.
ZNODES = """
import json, sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1])
client.start(10)
print(json.dumps(sorted(client.get_children(sys.argv[2]))))
client.stop()
"""


def compose_command() -> list[str] | None:
    """What runs a compose file here: the plug-in of today, else the program of before; None where neither is."""
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


class Stack:
    """One project: its containers, networks and volumes are gone after `remove()`."""

    def __init__(
        self, engine: docker.DockerClient, compose: list[str], settings: Mapping[str, str] | None = None
    ) -> None:
        self.engine = engine
        self.name = f"kafka-classic-test-{uuid.uuid4().hex[:8]}"
        self._compose = compose
        self._leases = PortLeases()
        self.ports = [self._leases.draw() for _ in range(BROKERS)]
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COMPOSE_PROJECT_NAME": self.name,
            **{f"KAFKA_CLASSIC_PORT_{id}": str(port) for id, port in enumerate(self.ports)},
            **(settings or {}),
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    # --- commands

    def run(self, command: str, timeout: float = 600.0) -> str:
        """A command of a document, from the project's root; raises with all that it said when it fails."""
        text = command.replace(COMPOSE, " ".join(self._compose)).replace("127.0.0.1:9092", self.bootstrap)
        done = subprocess.run(
            ["bash", "-c", text], cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self.sight()}"
        return done.stdout

    def compose(self, arguments: str) -> str:
        return self.run(f"{COMPOSE} -f compose/compose.yaml {arguments}")

    def remove(self) -> None:
        """Containers, networks and volumes, whatever state they are in."""
        for container in self.containers(all=True):
            if container.status == "paused":
                container.unpause()
        try:
            self.compose("down --volumes --remove-orphans --timeout 10")
        finally:
            for container in self.containers(all=True):
                container.remove(force=True, v=True)
            for volume in self.engine.volumes.list(filters=self._filter()):
                volume.remove(force=True)
            for network in self.engine.networks.list(filters=self._filter()):
                network.remove()
            self._leases.release_all()

    # --- containers

    def _filter(self) -> dict[str, str]:
        return {"label": f"com.docker.compose.project={self.name}"}

    def containers(self, all: bool = False) -> list[Any]:
        return list(self.engine.containers.list(all=all, filters=self._filter()))

    def container(self, service: str) -> Any:
        labels = [f"com.docker.compose.project={self.name}", f"com.docker.compose.service={service}"]
        (found,) = self.engine.containers.list(all=True, filters={"label": labels})
        return found

    @property
    def network(self) -> Any:
        (found,) = self.engine.networks.list(filters=self._filter())
        return found

    def disconnect(self, service: str) -> None:
        self.network.disconnect(self.container(service))

    def reconnect(self, service: str) -> None:
        # Without its aliases the container would come back nameless.
        self.network.connect(self.container(service), aliases=[service])

    def inside(self, service: str, *command: str) -> str:
        """What a command says in a container; raises when it fails."""
        code, output = self.container(service).exec_run(list(command), demux=True)
        out, err = (part.decode() if part else "" for part in output)
        assert code == 0, f"{service}: {command}\n{out}\n{err}"
        return out

    def asked(self, zookeeper: str, word: str) -> str:
        """What a ZooKeeper server answers to a four-letter word: also one that nobody else can reach."""
        return self.inside(zookeeper, "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/2181 && echo {word} >&3 && cat <&3")

    def mend(self) -> None:
        """Undo whatever was done to the containers: running, and in the network."""
        for container in self.containers(all=True):
            service = container.labels["com.docker.compose.service"]
            if container.status == "paused":
                container.unpause()
            if self.network.name not in container.attrs["NetworkSettings"]["Networks"]:
                self.reconnect(service)
            if container.status == "exited":
                container.start()

    def znodes(self, path: str, by: str) -> list[str]:
        """The children of a znode, asked from the container of the service `by`."""
        found: list[str] = json.loads(self.inside(by, "python", "-c", ZNODES, "zookeeper:2181", path))
        return found

    # --- the cluster as its clients see it

    def metadata(self, ask: Iterable[int] = range(BROKERS)) -> Metadata | None:
        """What one of these brokers says, or None while none of them does."""
        try:
            with Cluster(
                ",".join(f"127.0.0.1:{self.ports[id]}" for id in ask), connect_timeout=3, deadline=5
            ) as client:
                return client.metadata()
        except (KafkaError, OSError):
            return None

    def partition(self, topic: str, index: int, ask: Iterable[int] = range(BROKERS)) -> Partition | None:
        known = self.metadata(ask)
        row = known.topics.get(topic) if known else None
        return next((one for one in row.partitions if one.index == index), None) if row else None

    def led_by_another(self, topic: str, old: int) -> None:
        """Wait until the others say that somebody else leads the first partition."""
        others = [id for id in range(BROKERS) if id != old]

        def moved() -> bool:
            found = self.partition(topic, 0, others)
            return found is not None and found.leader not in (old, -1)

        self.until(moved, f"another leader of {topic}-0 than broker {old}")

    def whole(self, *topics: str) -> bool:
        """Whether all brokers are there, and in sync for all partitions of these topics."""
        for id in range(BROKERS):
            known = self.metadata([id])
            if known is None or len(known.brokers) < BROKERS or known.controller < 0:
                return False
            for topic in topics:
                row = known.topics.get(topic)
                if row is None or any(p.leader < 0 or len(p.isr) < BROKERS for p in row.partitions):
                    return False
        return True

    # --- waiting

    def until(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE_S) -> None:
        until(condition, what, timeout, sight=self.sight, pause=POLL_S)

    def sight(self) -> str:
        """The containers, how they are, and the ends of their logs: for the message of what failed."""
        lines = []
        for container in self.containers(all=True):
            state = container.attrs["State"]
            lines.append(f"--- {container.name}: {state['Status']}, health {state.get('Health', {}).get('Status')}")
            lines.append(container.logs(tail=15).decode(errors="replace"))
        return "\n".join(lines)
