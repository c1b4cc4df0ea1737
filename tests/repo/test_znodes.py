"""docs/znodes.md against a live cluster: every znode there is described, with its lifetime and the keys of its JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_classic.client.admin import NewTopic, create_topics
from kafka_classic.client.cluster import Cluster
from kafka_classic.client.configs import Resource, alter_configs
from kafka_classic.consumer import ConsumerConnector
from kafka_classic.producer import Producer
from kafka_classic.testing.faults import FaultyCluster
from kafka_classic.zk.deletions import TopicDeletions
from kafka_classic.zk.znodes import Node, Znodes

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "znodes.md"
SECTION = re.compile(r"^## `(?P<path>/.+?)`\n(?P<text>.+?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"```(json|text)\n(.+?)```", re.DOTALL)


class Described(NamedTuple):
    """A section of the document; `example` is None for a znode without data."""

    pattern: re.Pattern[str]
    ephemeral: bool
    kind: str | None
    example: str


def described() -> dict[str, Described]:
    found = {}
    for section in SECTION.finditer(DOCUMENT.read_text()):
        path = section["path"]
        exact = re.escape(path).replace("NNNNNNNNNN", r"\d{10}")
        pattern = re.compile(re.sub(r"(?<=/)[A-Z](?=/|$)", "[^/]+", exact))
        example = EXAMPLE.search(section["text"])
        kind, text = (example[1], example[2]) if example else (None, "")
        found[path] = Described(pattern, section["text"].startswith("Ephemeral"), kind, text.strip())
    return found


def keys(value: object) -> object:
    """The fields of a JSON object and their types."""
    return {name: type(each) for name, each in value.items()} if isinstance(value, dict) else type(value)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Node]:
    """The znodes of a cluster in which everything that leaves a trace there has happened."""
    settings = {"replica.lag.time.max.ms": "1500"}
    with (
        FaultyCluster(tmp_path_factory.mktemp("cluster"), 2, settings) as cluster,
        Cluster(cluster.bootstrap) as client,
    ):
        create_topics(client, [NewTopic("orders", assignment={0: (0, 1), 1: (1, 0)}), NewTopic("done", 1, 1)])
        cluster.until_whole(["orders"], 2)
        alter_configs(client, Resource.TOPIC, "orders", {"retention.ms": "7200000"})
        nodes = Znodes(cluster.zookeeper_session())
        with (
            Producer(cluster.bootstrap) as producer,
            ConsumerConnector(cluster.zookeeper, "readers", auto_offset_reset="smallest") as connector,
        ):
            producer.send("orders", b"one").result()
            [stream] = connector.create_message_streams({"orders": 1})["orders"]
            next(stream)
            connector.commit_offsets()
            # What is said to the controller stands only until it has read it: so it is made to read slowly.
            controller = cluster.controller()
            assert controller is not None
            cluster.pause(controller)
            TopicDeletions(cluster.zookeeper_session()).request("done")
            cluster.until(lambda: bool(nodes.children("/isr_change_notification")), "a notice that it is out of sync")
            paths = nodes.subtree("")
            found = {path: node for path, node in zip(paths, nodes.get_many(paths), strict=True) if node}
            cluster.resume(controller)
    return {path: node for path, node in found.items() if not path.startswith("/zookeeper")}


def test_every_znode_of_a_live_cluster_is_described(live: dict[str, Node]) -> None:
    known = described().values()
    assert [
        path for path, node in live.items() if node.data and not any(d.pattern.fullmatch(path) for d in known)
    ] == []


@pytest.mark.parametrize("path", described())
def test_a_znode_is_as_the_document_describes_it(live: dict[str, Node], path: str) -> None:
    told = described()[path]
    found = {at: node for at, node in live.items() if told.pattern.fullmatch(at)}
    assert found, f"no {path} was ever seen"
    for at, node in found.items():
        assert bool(node.owner) is told.ephemeral, at
        if told.kind is None:
            assert node.data == b"", at
        elif told.kind == "json":
            assert keys(json.loads(node.data)) == keys(json.loads(told.example)), at
        else:
            assert re.fullmatch(r"\d+" if told.example.isdigit() else r".+-\d+", node.data.decode()), at
