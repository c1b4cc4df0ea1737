"""cluster.json: where a cluster's servers are, so that another process finds them again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = "cluster.json"
_VERSION = 1


class StateUnreadable(ValueError):
    """cluster.json is there but is not one of ours."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server process: `id` is the broker's, and -1 for ZooKeeper."""

    id: int
    host: str
    port: int
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A whole cluster. `embedded` is the ZooKeeper we run ourselves, None when one was named."""

    zookeeper: str
    embedded: ServerState | None
    brokers: tuple[ServerState, ...]
    settings: dict[str, str]
    detached: bool
    boot: str

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)


def boot_id() -> str:
    """Name this boot of the machine: start times count from it, so they mean nothing after the next one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_state(directory: Path) -> ClusterState | None:
    """Return what stands in the directory's cluster.json, or None when there is none."""
    path = directory / _FILE
    try:
        found = json.loads(path.read_text())
        if found.pop("version") != _VERSION:
            raise StateUnreadable(f"{path} was written by another version of kafka-classic: remove it and start again")
        embedded = found.pop("embedded")
        return ClusterState(
            embedded=None if embedded is None else ServerState(**embedded),
            brokers=tuple(ServerState(**broker) for broker in found.pop("brokers")),
            **found,
        )
    except FileNotFoundError:
        return None
    except StateUnreadable:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StateUnreadable(f"{path} is not a cluster's state ({error}): remove it and start again") from error


def write_state(directory: Path, state: ClusterState) -> None:
    """Write cluster.json whole or not at all."""
    path = directory / _FILE
    draft = path.with_name(f"{_FILE}.{os.getpid()}.tmp")
    draft.write_text(json.dumps({"version": _VERSION, **asdict(state)}, indent=2) + "\n")
    draft.replace(path)
