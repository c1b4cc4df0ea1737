"""The settings of topics and brokers that can change at run time, and the notice of every change.

A change is one transaction: the new settings, and a sequential znode under `/config/changes` that names what changed.
Brokers watch only that one parent, however many topics there are. Notices are deleted when they are 15 minutes old; a
watcher that was away for longer sees by the parent's count that it missed some, and is told of every entity.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from kafka_classic.zk import paths
from kafka_classic.zk.errors import VersionConflict
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Create, Operation, SetData, Znodes

log = logging.getLogger(__name__)

NOTICE_LIFE_MS = 15 * 60 * 1000
DEFAULT = "<default>"  # the name under which every broker's settings stand

Kind = Literal["topics", "brokers"]
KINDS: tuple[Kind, ...] = ("topics", "brokers")


class Config(NamedTuple):
    """The settings of one topic or broker; version -1 if none were ever written."""

    values: dict[str, str]
    version: int


def encode_config(values: Mapping[str, str]) -> bytes:
    return json.dumps({"version": 1, "config": {name: values[name] for name in sorted(values)}}).encode()


def decode_config(data: bytes) -> dict[str, str]:
    # Kafka leaves the node of a topic without settings empty in some versions.
    return {str(k): str(v) for k, v in (json.loads(data).get("config") or {}).items()} if data else {}


class ConfigRegistry:
    """`/config/topics/T` and `/config/brokers/N`."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._nodes = Znodes(session)
        self._clock = clock

    def get(self, kind: Kind, name: str) -> Config:
        node = self._nodes.get(paths.config(kind, name))
        return Config({}, -1) if node is None else Config(decode_config(node.data), node.version)

    def all(self, kind: Kind) -> dict[str, Config]:
        """Every entity of the kind that has settings."""
        return self.get_many(kind, sorted(self._nodes.children(paths.configs(kind)) or ()))

    def get_many(self, kind: Kind, names: Sequence[str]) -> dict[str, Config]:
        """Those of these that have settings, many requests in flight."""
        nodes = self._nodes.get_many([paths.config(kind, name) for name in names])
        return {name: Config(decode_config(n.data), n.version) for name, n in zip(names, nodes, strict=True) if n}

    def set(self, kind: Kind, name: str, values: Mapping[str, str], expected_version: int | None = None) -> Config:
        """Writes all settings of the entity and gives notice.

        `expected_version` is that of the Config the new values were made from (-1: there were none); VersionConflict
        if it changed since. None writes whatever was there.
        """
        path, data = paths.config(kind, name), encode_config(values)
        notice = Create(
            f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE_PREFIX}",
            json.dumps({"version": 2, "entity_path": f"{kind}/{name}"}).encode(),
            sequence=True,
        )
        while True:
            node = self._nodes.get(path)
            found = -1 if node is None else node.version
            if expected_version is not None and found != expected_version:
                if node is not None and node.data == data and found == expected_version + 1:
                    return Config(dict(values), found)  # the same was written, by a first try whose answer was lost
                raise VersionConflict(f"the settings of {kind}/{name} were changed by somebody else: read them again")
            write: Operation = Create(path, data) if node is None else SetData(path, data, found)
            try:
                self._nodes.transact([write, notice])
                return Config(dict(values), found + 1)
            except NoNodeError:
                self._nodes.ensure(paths.CONFIG_CHANGES, paths.configs(kind))
            except (BadVersionError, NodeExistsError):
                continue  # changed between our look and our write: look again

    def watch(self, tell: Callable[[Kind, str, dict[str, str]], None], *, wait: bool = True) -> Watching:
        """`tell(kind, name, values)` for every change from now on, in order, with the settings as they are then.

        Read the settings that matter after this returned: changes before it are not told.
        """

        def tell_unless_stopped(kind: Kind, name: str, values: dict[str, str]) -> None:
            watching.tell(tell, kind, name, values)

        done_below = -1  # notices with a lower number have been told

        def read_and_tell(changed: Changed) -> None:
            nonlocal done_below
            found = self._nodes.children_and_node(paths.CONFIG_CHANGES, watching.fired)
            if found is None:
                self._nodes.ensure(paths.CONFIG_CHANGES)
                found = self._nodes.children_and_node(paths.CONFIG_CHANGES, watching.fired)
                if found is None:
                    return
            names, parent = found
            numbered = sorted((number, name) for name in names if (number := notice_number(name)) is not None)
            if done_below >= 0:
                fresh = [(number, name) for number, name in numbered if number >= done_below]
                if len(fresh) < parent.children_created - done_below:
                    self._tell_all(tell_unless_stopped)  # some were deleted before we saw them
                else:
                    self._tell_of([name for _, name in fresh], tell_unless_stopped)
            done_below = parent.children_created
            self._purge([name for _, name in numbered])

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)

    def _tell_of(self, notices: list[str], tell: Callable[[Kind, str, dict[str, str]], None]) -> None:
        entities: dict[tuple[Kind, str], None] = {}
        for node in self._nodes.get_many([f"{paths.CONFIG_CHANGES}/{name}" for name in notices]):
            entity = None if node is None else changed_entity(node.data)
            if entity is not None:
                entities.pop(entity, None)  # told once, in the place of its latest change
                entities[entity] = None
        for (kind, name), node in zip(
            entities, self._nodes.get_many([paths.config(kind, name) for kind, name in entities]), strict=True
        ):
            tell(kind, name, {} if node is None else decode_config(node.data))

    def _tell_all(self, tell: Callable[[Kind, str, dict[str, str]], None]) -> None:
        for kind in KINDS:
            for name, config in self.all(kind).items():
                tell(kind, name, config.values)

    def _purge(self, notices: list[str]) -> None:
        full = [f"{paths.CONFIG_CHANGES}/{name}" for name in notices]
        for path, node in zip(full, self._nodes.get_many(full), strict=True):
            if node is not None and self._clock() * 1000 - node.created_ms > NOTICE_LIFE_MS:
                self._nodes.delete(path)


def notice_number(name: str) -> int | None:
    digits = name.removeprefix(paths.CONFIG_CHANGE_PREFIX)
    return int(digits) if digits != name and digits.isdigit() else None


def changed_entity(data: bytes) -> tuple[Kind, str] | None:
    """What a notice is about, in Kafka's version 2 or 1; None if it is of a kind that we do not keep."""
    try:
        value = json.loads(data)
        kind, _, name = (
            value["entity_path"] if value["version"] == 2 else f"{value['entity_type']}/{value['entity_name']}"
        ).partition("/")
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("a notice of a changed config cannot be read: %r", data[:200])
        return None
    for known in KINDS:
        if kind == known and name:
            return known, name
    return None
