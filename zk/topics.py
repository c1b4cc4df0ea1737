"""The topic registry: which topics there are, and which brokers hold the replicas of each partition.

A topic comes to be in one ZooKeeper transaction (its config and its assignment), so nobody ever sees half of one.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from kafka_classic.zk import paths
from kafka_classic.zk.configs import encode_config
from kafka_classic.zk.controller import Mandate, fenced
from kafka_classic.zk.errors import TopicExists, UnknownTopic, VersionConflict
from kafka_classic.zk.session import Session
from kafka_classic.zk.watching import Changed, Watching
from kafka_classic.zk.znodes import Create, Delete, Node, Operation, SetData, Znodes, failure

# A transaction is one ZooKeeper request, and a request is at most 1 MB (jute.maxbuffer).
LARGEST_TRANSACTION = 2000


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: `assignment` maps each partition to its replicas, the preferred leader first."""

    name: str
    topic_id: UUID
    assignment: Mapping[int, tuple[int, ...]]
    version: int = 0
    adding: Mapping[int, tuple[int, ...]] | None = None
    removing: Mapping[int, tuple[int, ...]] | None = None

    def to_json(self) -> bytes:
        """Kafka's JSON, version 3."""
        return json.dumps(
            {
                "version": 3,
                "partitions": _to_json(self.assignment),
                "adding_replicas": _to_json(self.adding or {}),
                "removing_replicas": _to_json(self.removing or {}),
                "topic_id": encode_uuid(self.topic_id),
            }
        ).encode()

    @classmethod
    def from_node(cls, name: str, node: Node) -> "TopicInfo":
        value = json.loads(node.data)
        return cls(
            name=name,
            topic_id=decode_uuid(value["topic_id"]) if value.get("topic_id") else UUID(int=0),
            assignment=_from_json(value["partitions"]),
            version=node.version,
            adding=_from_json(value.get("adding_replicas") or {}) or None,
            removing=_from_json(value.get("removing_replicas") or {}) or None,
        )


def encode_uuid(value: UUID) -> str:
    """As Kafka writes ids: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _to_json(assignment: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(assignment[partition]) for partition in sorted(assignment)}


def _from_json(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {partition: tuple(value[str(partition)]) for partition in sorted(map(int, value))}


class TopicRegistry:
    """`/brokers/topics` and what belongs to it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._nodes = Znodes(session)

    def create(
        self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str], topic_id: UUID
    ) -> TopicInfo:
        """Creates the topic and its config together; raises TopicExists."""
        info = TopicInfo(name, topic_id, {p: tuple(assignment[p]) for p in sorted(assignment)})
        topic, config = paths.topic(name), paths.config("topics", name)
        while True:
            # A config without its topic is what an interrupted tool left behind: it is written over, as Kafka does.
            write_config: Operation = (SetData if self._nodes.exists(config) else Create)(
                config, encode_config(configs)
            )
            try:
                self._nodes.transact([write_config, Create(topic, info.to_json())])
                return info
            except NodeExistsError:
                there = self.get(name)
                if there is not None:
                    if there.topic_id == topic_id:
                        return there  # the first try was done and only its answer was lost
                    raise TopicExists(f"topic {name!r} exists already") from None
            except NoNodeError:
                self._nodes.ensure(paths.TOPICS, paths.configs("topics"))

    def get(self, name: str) -> TopicInfo | None:
        node = self._nodes.get(paths.topic(name))
        return None if node is None else TopicInfo.from_node(name, node)

    def all(self) -> dict[str, TopicInfo]:
        return self.get_many(sorted(self._nodes.children(paths.TOPICS) or ()))

    def get_many(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Those that are there, many requests in flight."""
        nodes = self._nodes.get_many([paths.topic(name) for name in names])
        return {name: TopicInfo.from_node(name, node) for name, node in zip(names, nodes, strict=True) if node}

    def add_partitions(self, name: str, more: Mapping[int, Sequence[int]], expected_version: int) -> TopicInfo:
        """Adds partitions to the topic as it was at `expected_version`; raises VersionConflict if it changed since."""
        topic = self.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        if expected_version >= 0 and topic.version != expected_version:
            raise VersionConflict(f"topic {name!r} was changed by somebody else: read it again")
        count = len(topic.assignment)
        if sorted(more) != list(range(count, count + len(more))):
            raise ValueError(
                f"topic {name!r} has partitions 0..{count - 1}: new ones follow from {count} without a gap"
            )
        assignment = {**topic.assignment, **{p: tuple(more[p]) for p in sorted(more)}}
        return self._write(TopicInfo(name, topic.topic_id, assignment, topic.version, topic.adding, topic.removing))

    def set_assignment(self, info: TopicInfo, mandate: Mandate | None = None) -> TopicInfo:
        """Writes the topic's replicas over those of `info.version`; raises VersionConflict if it changed since.

        With a mandate it raises ControllerFenced if another controller was elected since.
        """
        return self._write(info, mandate)

    def delete(self, name: str, mandate: Mandate | None = None) -> bool:
        """Deletes the topic, its partitions' states, its config and the request to delete it; False if there was none.

        May be repeated. One of that name that is made meanwhile, though at once, is another topic and stays. With a
        mandate it raises ControllerFenced if another controller was elected since.
        """
        fence: list[Operation] = [mandate.check()] if mandate else []
        made: int | None = None  # by which transaction
        while True:
            node = self._nodes.get(paths.topic(name))
            if made is not None and (node is None or node.epoch != made):
                return True
            made = None if node is None else node.epoch
            found = [] if node is None else self._nodes.subtree(paths.topic(name))
            # The request to delete it falls with it: standing on, it would hit the next topic of that name.
            beside = (paths.config("topics", name), paths.delete_topic(name))
            doomed = [*found, *(path for path in beside if self._nodes.exists(path))]
            if not doomed:
                return False
            # The deepest go first; the topic's own znode and config fall together, in the last transaction.
            cut = max(0, len(doomed) - LARGEST_TRANSACTION)
            pieces = [doomed[at : min(at + LARGEST_TRANSACTION, cut)] for at in range(0, cut, LARGEST_TRANSACTION)]
            try:
                for piece in (*pieces, doomed[cut:]):
                    self._nodes.transact([*fence, *(Delete(path) for path in piece)])
                return made is not None
            except BadVersionError:
                assert mandate is not None
                raise fenced(mandate) from None
            except (NoNodeError, NotEmptyError):
                continue  # somebody deletes it too, or wrote a state meanwhile: look again

    def watch(self, tell: Callable[[dict[str, TopicInfo]], None], *, wait: bool = True) -> Watching:
        """`tell(topics)` is called now and after every change, with all topics."""
        known: dict[str, TopicInfo] = {}
        told: dict[str, TopicInfo] | None = None

        def read_and_tell(changed: Changed) -> None:
            nonlocal told
            names = set(known)
            if changed is None or paths.TOPICS in changed:
                names = self._names(watching)
                for gone in known.keys() - names:
                    del known[gone]
            stale = sorted(n for n in names if changed is None or n not in known or paths.topic(n) in changed)
            nodes = self._nodes.get_many([paths.topic(name) for name in stale], watching.fired)
            for name, node in zip(stale, nodes, strict=True):
                if node is None:
                    known.pop(name, None)  # deleted since: the children's watch has fired, and will tell if it returns
                else:
                    known[name] = TopicInfo.from_node(name, node)
            if known != told:
                told = dict(known)
                watching.tell(tell, dict(known))

        watching = Watching(self._session, read_and_tell)
        return watching.start(wait=wait)

    def _names(self, watching: Watching) -> set[str]:
        names = self._nodes.children(paths.TOPICS, watching.fired)
        if names is None:
            self._nodes.ensure(paths.TOPICS)
            names = self._nodes.children(paths.TOPICS, watching.fired)
        return set(names or ())

    def _write(self, info: TopicInfo, mandate: Mandate | None = None) -> TopicInfo:
        data = info.to_json()
        fence: list[Operation] = [mandate.check()] if mandate else []
        try:
            results = self._nodes.transact_many([[*fence, SetData(paths.topic(info.name), data, info.version)]])[0]
            failed = failure(results)
            if failed is not None:
                if mandate is not None and failed[0] == 0:
                    raise fenced(mandate)
                raise failed[1]
            version = results[-1].version
        except NoNodeError:
            raise UnknownTopic(f"there is no topic {info.name!r}") from None
        except BadVersionError:
            there = self._nodes.get(paths.topic(info.name))
            if there is None or there.data != data or there.version != info.version + 1:
                raise VersionConflict(f"topic {info.name!r} was changed by somebody else: read it again") from None
            version = there.version  # the first try was done and only its answer was lost
        return TopicInfo(info.name, info.topic_id, info.assignment, version, info.adding, info.removing)
