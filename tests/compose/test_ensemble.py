"""Three ZooKeeper servers, one of which dies: nobody notices."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.compose.conftest import more, running, under_load
from tests.compose.stack import Stack

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]

SERVERS = ("zookeeper", "zookeeper-2", "zookeeper-3")


@pytest.fixture(scope="module")
def ensemble(engine: docker.DockerClient, in_readme: dict[str, str]) -> Iterator[Stack]:
    start = in_readme["start"].replace("docker compose", "docker compose --env-file compose/ensemble.env")
    with running(engine, start) as stack:
        yield stack


def mode(stack: Stack, server: str) -> str:
    said = stack.asked(server, "srvr")
    return next((line.removeprefix("Mode: ") for line in said.splitlines() if line.startswith("Mode: ")), "none")


def noticed(stack: Stack, topic: str) -> tuple[object, ...]:
    """What would change if somebody had noticed: the controller, and leader, epoch and followers of each partition."""
    known = stack.metadata()
    assert known is not None
    return known.controller, [
        (p.index, p.leader, p.leader_epoch, sorted(p.isr)) for p in known.topics[topic].partitions
    ]


def test_one_of_three_zookeepers_dies_and_nobody_notices(ensemble: Stack) -> None:
    ensemble.until(lambda: sorted(mode(ensemble, s) for s in SERVERS) == ["follower", "follower", "leader"], "a quorum")
    with under_load(ensemble) as load:
        before = noticed(ensemble, load.topic)
        # The worst of the three: the others have to agree on a new leader first.
        (leader,) = [server for server in SERVERS if mode(ensemble, server) == "leader"]
        ensemble.container(leader).kill()
        left = [server for server in SERVERS if server != leader]
        ensemble.until(lambda: sorted(mode(ensemble, s) for s in left) == ["follower", "leader"], "a quorum of two")
        more(ensemble, load, 300)
        assert noticed(ensemble, load.topic) == before
